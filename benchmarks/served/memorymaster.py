"""A master that has its log in memory: what a follower takes is then the follower's time.

    python -m benchmarks.served.memorymaster STORE

It copies the log of a closed store into memory as frames, writes one line with its two ports, and
ends when its standard input does. A follower has the whole log as fast as it takes it. Single
threads, blocking sockets: whatever serves costs little beside it.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from socket import create_server, socket
from typing import Any, Final

_FRAME_SIZE: Final = 32 << 10
"""Bytes of a transfer, ``haTransferBatchSize`` of RocketMQ."""
_PIECE: Final = 1 << 20
_HEARTBEAT_SECONDS: Final = 1.0


@contextlib.contextmanager
def memory_master(store: Path) -> Iterator[str]:
    """Start a master with the log of a closed store; gives its ``HOST:PORT``."""
    command = [sys.executable, "-m", "benchmarks.served.memorymaster", str(store)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            yield f"127.0.0.1:{json.loads(process.stdout.readline())['port']}"
        finally:
            process.stdin.close()


def main(path: str) -> None:
    """Serve until the standard input ends."""
    frames, end, file_size = _frames(path)
    broker, ha = create_server(("127.0.0.1", 0)), create_server(("127.0.0.1", 0))
    config = {
        "brokerClusterName": "bench",
        "brokerName": "broker-a",
        "brokerId": 0,
        "brokerRole": "ASYNC_MASTER",
        "haListenPort": ha.getsockname()[1],
        "mappedFileSizeCommitLog": file_size,
    }
    bodies = {
        26: "\n".join(f"{name}={value}" for name, value in config.items()),
        28: json.dumps({"table": {"commitLogMinOffset": "0", "commitLogMaxOffset": str(end)}}),
    }
    for server, serve in ((broker, _answer), (ha, _replicate)):
        given: Any = bodies if serve is _answer else (frames, end)
        threading.Thread(target=_accept, args=(server, serve, given), daemon=True).start()
    print(json.dumps({"port": broker.getsockname()[1]}), flush=True)
    sys.stdin.read()


def _frames(path: str) -> tuple[bytes, int, int]:
    """Return the frames of a log that begins at 0, where it ends, and the size of its files."""
    import reput
    from reput_client.remoting import encode_transfer

    with reput.open(path, mode="r", plugins=[]) as store:
        log, made = store.log, bytearray()
        end, size = log.max_physical_offset, log.file_size
        at = 0
        while at < end:
            part = min(_FRAME_SIZE, size - at % size, end - at)
            made += encode_transfer(at, part)
            made += log.read(at, part)
            at += part
    return bytes(made), end, size


def _accept(server: socket, serve: Any, given: Any) -> None:
    while True:
        connection, _ = server.accept()
        threading.Thread(target=_guarded, args=(connection, serve, given), daemon=True).start()


def _guarded(connection: socket, serve: Any, given: Any) -> None:
    with connection, contextlib.suppress(OSError):
        serve(connection, given)


def _answer(connection: socket, bodies: dict[int, str]) -> None:
    from reput_client.remoting import FrameReader, ResponseCode, encode_frame

    reader = FrameReader()
    while data := connection.recv(1 << 16):
        reader.feed(data)
        while (command := reader.next_command()) is not None:
            body = bodies[command.code].encode()
            connection.sendall(encode_frame(command.answer(ResponseCode.SUCCESS, body=body)))


def _replicate(connection: socket, given: tuple[bytes, int]) -> None:
    from reput_client.remoting import encode_transfer

    frames, end = given
    first = int.from_bytes(connection.recv(8), "big", signed=True)
    if first <= 1:  # byte 0 cannot be asked for
        header = encode_transfer(1, min(_FRAME_SIZE, end) - 1)
        connection.sendall(header)
        view = memoryview(frames)[len(header) + 1 :]
        while view:
            connection.sendall(view[:_PIECE])
            view = view[_PIECE:]
    connection.settimeout(_HEARTBEAT_SECONDS)
    while True:
        connection.sendall(encode_transfer(end, 0))
        with contextlib.suppress(TimeoutError):
            while connection.recv(1 << 10):
                pass
            return


if __name__ == "__main__":
    main(sys.argv[1])
