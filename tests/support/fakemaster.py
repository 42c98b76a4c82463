"""A master for tests: a log in memory, sent over the HA protocol, and answers about itself::

    with FakeMaster(log) as master:
        master.address          # of the broker, which answers requests 26, 28, 21, 43, 45, 201, 106
        master.ha_address       # of the HA port
        master.append(data)

It sends what a test wants of it: frames that are cut at random places, another log, heartbeats
only. It is written without anything of reput, so that a mistake is not in both.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import struct
import threading
from collections.abc import Iterator

FILE_SIZE = 1 << 16


class FakeLog:
    """The bytes of a log from an offset on."""

    def __init__(self, data: bytes = b"", base: int = 0, file_size: int = FILE_SIZE) -> None:
        self.data = bytearray(data)
        self.base = base
        self.file_size = file_size

    @property
    def end(self) -> int:
        return self.base + len(self.data)

    def read(self, offset: int, size: int) -> bytes:
        if not self.base <= offset < self.end:
            return b""
        size = min(size, self.file_size - offset % self.file_size)
        return bytes(self.data[offset - self.base : offset - self.base + size])


class FakeMaster:
    """A master on free ports of loopback, in a thread of its own."""

    def __init__(
        self,
        log: FakeLog,
        *,
        seed: int | None = None,
        config: dict[str, object] | None = None,
        heartbeat: float = 0.02,
        ports: tuple[int, int] = (0, 0),
        host: str = "127.0.0.1",
    ) -> None:
        self.log = log
        self.config = config or {}
        self.answers: dict[int, bytes | int] = {}
        """Bodies, or codes of refusal, by request."""
        self.reports: list[list[int]] = []
        """What each HA connection has reported, in order."""
        self.is_muted = False
        """Whether it sends nothing at all, heartbeats neither."""
        self.min_offset: int | None = None
        """What it says of its log's beginning, if that is not the truth."""
        self.asked: list[int] = []
        self.closed_after: list[int] = []
        """After how many bytes the next connections are closed, in order."""
        self._random = random.Random(seed)
        self._is_cut = seed is not None
        self._heartbeat = heartbeat
        self._ports = ports
        self._host = host
        self._changed = threading.Condition()
        self._ready = threading.Event()
        self._tasks: set[asyncio.Task[None]] = set()

    # ------------------------------------------------------------------ for tests

    def __enter__(self) -> FakeMaster:
        self._thread = threading.Thread(target=lambda: asyncio.run(self._main()), daemon=True)
        self._thread.start()
        self._ready.wait()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """End it, as a crash does; a second call does nothing."""
        with contextlib.suppress(RuntimeError):  # its loop has ended
            self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()

    @property
    def address(self) -> str:
        return f"{self._host}:{self.port}"

    @property
    def ports(self) -> tuple[int, int]:
        """Of the broker and of HA, to start another master at the same place."""
        return self.port, self.ha_port

    def append(self, data: bytes) -> None:
        """Let the log grow."""
        self._loop.call_soon_threadsafe(self._grow, data)

    def drop_connections(self) -> None:
        """Close all HA connections, as a network does."""
        self._loop.call_soon_threadsafe(lambda: [each.cancel() for each in self._tasks])

    def wait_reports(self, count: int, connection: int = 0, seconds: float = 60) -> list[int]:
        """Return the reports of a connection, once there are so many."""
        with self._changed:
            assert self._changed.wait_for(
                lambda: len(self.reports) > connection and len(self.reports[connection]) >= count,
                seconds,
            ), self.reports
            return list(self.reports[connection])

    def wait_report(self, offset: int, connection: int = 0, seconds: float = 60) -> list[int]:
        """Return the reports of a connection, once the last one is ``offset``."""
        with self._changed:
            assert self._changed.wait_for(
                lambda: (
                    len(self.reports) > connection and self.reports[connection][-1:] == [offset]
                ),
                seconds,
            ), self.reports
            return list(self.reports[connection])

    # ------------------------------------------------------------------ inside

    async def _main(self) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        self._grown = asyncio.Event()
        broker = await asyncio.start_server(self._answer, self._host, self._ports[0])
        ha = await asyncio.start_server(self._replicate, self._host, self._ports[1])
        self.port = broker.sockets[0].getsockname()[1]
        self.ha_port = ha.sockets[0].getsockname()[1]
        self._ready.set()
        await self._stop.wait()
        broker.close()
        ha.close()
        for each in list(self._tasks):
            each.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _grow(self, data: bytes) -> None:
        self.log.data += data
        self._grown.set()

    @contextlib.contextmanager
    def _counted(self, writer: asyncio.StreamWriter) -> Iterator[None]:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            yield
        except (asyncio.CancelledError, OSError, asyncio.IncompleteReadError):
            pass
        finally:
            self._tasks.discard(task)
            writer.transport.abort()

    # ------------------------------------------------------------------ the HA port

    async def _replicate(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with self._counted(writer):
            reports: list[int] = []
            with self._changed:
                self.reports.append(reports)
            limit = self.closed_after.pop(0) if self.closed_after else None
            task = asyncio.ensure_future(self._read_reports(reader, reports))
            try:
                while not reports:
                    if task.done():
                        return
                    await asyncio.wait([task], timeout=0.005)
                await self._send(writer, reports[0], limit, task)
            finally:
                task.cancel()

    async def _read_reports(self, reader: asyncio.StreamReader, reports: list[int]) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, OSError):
            while True:
                (offset,) = struct.unpack(">q", await reader.readexactly(8))
                with self._changed:
                    reports.append(offset)
                    self._changed.notify_all()

    async def _send(
        self,
        writer: asyncio.StreamWriter,
        offset: int,
        limit: int | None,
        reading: asyncio.Future[None],
    ) -> None:
        if offset == 0:
            offset = self.log.end - self.log.end % self.log.file_size
        sent = 0
        while not reading.done():
            size = self._random.randint(1, 3000) if self._is_cut else 32_768
            data = b"" if self.is_muted else self.log.read(offset, size)
            if limit is not None and sent + len(data) >= limit:
                writer.write((struct.pack(">qi", offset, len(data)) + data)[: limit - sent])
                await writer.drain()
                return
            if data or not self.is_muted:
                frame = struct.pack(">qi", offset, len(data)) + data
                at = self._random.randint(0, len(frame)) if self._is_cut else len(frame)
                writer.write(frame[:at])
                await writer.drain()
                writer.write(frame[at:])
                await writer.drain()
            offset, sent = offset + len(data), sent + len(data)
            if not data:
                self._grown.clear()
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(self._heartbeat):
                        await self._grown.wait()

    # ------------------------------------------------------------------ requests

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with self._counted(writer):
            while True:
                size, head = struct.unpack(">iI", await reader.readexactly(8))
                rest = await reader.readexactly(size - 4)
                request = json.loads(rest[: head & 0xFFFFFF])
                self.asked.append(request["code"])
                answer = self._body(request["code"])
                code, body = (answer, b"") if isinstance(answer, int) else (0, answer)
                header = json.dumps(
                    {"code": code, "flag": 1, "opaque": request["opaque"], "language": "JAVA"}
                ).encode()
                frame = struct.pack(">ii", 4 + len(header) + len(body), len(header))
                writer.write(frame + header + body)
                await writer.drain()

    def _body(self, code: int) -> bytes | int:
        if code in self.answers:
            return self.answers[code]
        if code == 26:
            return self.broker_config()
        if code == 28:
            low = self.log.base if self.min_offset is None else self.min_offset
            table = {"commitLogMinOffset": str(low), "commitLogMaxOffset": str(self.log.end)}
            return json.dumps({"table": table}).encode()
        if code == 106:
            addresses = f'{{0:"{self.address}"}}'
            broker = f'{{"brokerAddrs":{addresses},"brokerName":"broker-a","cluster":"shop"}}'
            return (
                f'{{"brokerAddrTable":{{"broker-a":{broker}}},"clusterAddrTable":{{}}}}'
            ).encode()
        return 3

    def broker_config(self) -> bytes:
        config: dict[str, object] = {
            "brokerClusterName": "shop",
            "brokerName": "broker-a",
            "brokerId": 0,
            "brokerRole": "ASYNC_MASTER",
            "brokerIP2": "10.255.255.1",
            "listenPort": self.port,
            "haListenPort": self.ha_port,
            "mappedFileSizeCommitLog": self.log.file_size,
            "inSyncReplicas": 1,
            **self.config,
        }
        lines = (f"{name}={value}" for name, value in config.items() if value is not None)
        return "\n".join(lines).encode()
