"""`Connection`: one TCP connection, with any number of requests under way in both directions.

Source: RocketMQ ``NettyRemotingAbstract``.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final

import attrs

from reput_client.errors import ConnectionLostError, RequestTimeoutError
from reput_client.remoting import Command, FrameReader, RemotingError, encode_frame

logger = logging.getLogger(__name__)

Handler = Callable[["Connection", Command], Awaitable[Command | None]]
"""Answers a request that the peer makes; the answer is None for a one-way request."""

Signer = Callable[[Command], Command]
"""Returns a request with what proves who sends it."""

_ONE_WAY: Final = 2  # bit of a command's flag
_OPAQUE_MASK: Final = 0x7FFF_FFFF
_HANDLED_MAX: Final = 1_000
"""Most requests of a peer that are being answered at once; it waits for the rest."""
_TOGETHER_SIZE: Final = 64 << 10
"""Bytes of frames that are written at once, and do not wait for others."""


class Connection(asyncio.Protocol):
    """One connection. Used on the thread of its loop."""

    def __init__(self, address: str, handler: Handler, signer: Signer | None = None) -> None:
        """Make the protocol of a connection to ``address``, which asyncio connects."""
        self.address = address
        self.is_lost = False
        self.used_at = 0.0
        """Loop time of the last request or answer."""
        self._loop = asyncio.get_running_loop()
        self._handler = handler
        self._signer = signer
        self._reader = FrameReader()
        self._transport: asyncio.Transport | None = None
        self._waiting: dict[int, asyncio.Future[Command]] = {}
        self._opaque = 0
        self._heard_at = 0.0
        self._has_heard = False
        self._frames: list[bytes] = []
        """What is written together when all tasks that can run have run."""
        self._frames_size = 0
        self._may_write = asyncio.Event()
        self._may_write.set()
        self._handling: set[asyncio.Task[None]] = set()
        self._is_held = False
        self._ended: asyncio.Future[None] = self._loop.create_future()

    # ------------------------------------------------------------------ requests

    async def request(self, command: Command, seconds: float) -> Command:
        """Send a request, and return its answer, whatever its code.

        Raises:
            RequestTimeoutError: no answer came in time.
            ConnectionLostError: the connection ended meanwhile, or had ended.
        """
        began = self._loop.time()
        answer: asyncio.Future[Command] = self._loop.create_future()
        self._opaque = opaque = self._opaque + 1 & _OPAQUE_MASK
        try:
            async with asyncio.timeout(seconds):
                await self._write(command, opaque)
                self._waiting[opaque] = answer
                if self.is_lost:
                    raise ConnectionLostError(self.address, "it is closed")
                return await answer
        except TimeoutError:
            if self._heard_at < began and not self.is_lost:
                # Not a byte since: the peer, or the way to it, is gone, and nobody says so.
                self.abort("it has fallen silent")
            raise RequestTimeoutError(self.address, command.code, seconds) from None
        finally:
            self._waiting.pop(opaque, None)

    async def send(self, command: Command) -> None:
        """Send a request that is not answered; returns when it is on its way.

        Raises:
            ConnectionLostError: the connection has ended.
        """
        self._opaque = opaque = self._opaque + 1 & _OPAQUE_MASK
        await self._write(attrs.evolve(command, flag=command.flag | _ONE_WAY), opaque)

    async def _write(self, command: Command, opaque: int) -> None:
        if not self._may_write.is_set():
            await self._may_write.wait()
        if self.is_lost or self._transport is None:
            raise ConnectionLostError(self.address, "it is closed")
        if self._signer is not None:
            command = self._signer(command)
        self.used_at = self._loop.time()
        self._write_soon(encode_frame(attrs.evolve(command, opaque=opaque)))

    def _write_soon(self, frame: bytes) -> None:
        """Write a frame with others of this round of the loop: a system call for each is slow."""
        if not self._frames and self._waiting:
            self._loop.call_soon(self._write_now)
        self._frames.append(frame)
        self._frames_size += len(frame)
        if not self._waiting or self._frames_size >= _TOGETHER_SIZE:
            self._write_now()  # alone, it need not wait

    def _write_now(self) -> None:
        frames, self._frames, self._frames_size = self._frames, [], 0
        if frames and self._transport is not None:
            self._transport.write(b"".join(frames))

    # ------------------------------------------------------------------ what asyncio calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """See `asyncio.Protocol`."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._heard_at = self.used_at = self._loop.time()

    def data_received(self, data: bytes) -> None:
        """See `asyncio.Protocol`."""
        self._heard_at = self._loop.time()
        self._has_heard = True
        self._reader.feed(data)
        try:
            while (command := self._reader.next_command()) is not None:
                self._take(command)
        except RemotingError as error:
            logger.warning("malformed frame address=%s error=%s", self.address, error)
            self.abort(str(error))

    def _take(self, command: Command) -> None:
        self.used_at = self._heard_at
        if not command.is_response:
            self._handle(command)
            return
        answer = self._waiting.pop(command.opaque, None)
        if answer is not None and not answer.done():
            answer.set_result(command)

    def pause_writing(self) -> None:
        """See `asyncio.Protocol`: the peer reads more slowly than this side writes."""
        self._may_write.clear()

    def resume_writing(self) -> None:
        """See `asyncio.Protocol`."""
        self._may_write.set()

    def connection_lost(self, error: Exception | None) -> None:
        """See `asyncio.Protocol`."""
        self._lose(str(error) if error is not None else self._why_closed)
        if not self._ended.done():
            self._ended.set_result(None)

    @property
    def _why_closed(self) -> str:
        is_encrypted = self._transport is not None and self._transport.get_extra_info("cipher")
        if self._has_heard or is_encrypted:
            return "the peer closed it"
        return (
            "the peer closed it without a word; if it takes encrypted connections only, give tls="
        )

    # ------------------------------------------------------------------ requests of the peer

    def _handle(self, command: Command) -> None:
        task = self._loop.create_task(self._answer(command))
        self._handling.add(task)
        task.add_done_callback(self._handled)
        if len(self._handling) >= _HANDLED_MAX and self._transport is not None:
            self._is_held = True
            self._transport.pause_reading()

    def _handled(self, task: asyncio.Task[None]) -> None:
        self._handling.discard(task)
        if self._is_held and len(self._handling) < _HANDLED_MAX // 2:
            self._is_held = False
            if self._transport is not None and not self._transport.is_closing():
                self._transport.resume_reading()

    async def _answer(self, command: Command) -> None:
        answer = await self._handler(self, command)
        if answer is not None and not command.is_one_way and not self.is_lost:
            self._write_soon(encode_frame(answer))

    # ------------------------------------------------------------------ the end

    def abort(self, reason: str) -> None:
        """End the connection at once; what waits for answers fails."""
        self._lose(reason)
        if self._transport is not None:
            self._transport.abort()

    async def close(self) -> None:
        """End the connection when everything is written."""
        self._lose("this side closed it")
        self._write_now()
        if self._transport is not None:
            self._transport.close()
            await asyncio.wait([self._ended], timeout=1.0)
            self._transport.abort()

    def _lose(self, reason: str) -> None:
        self.is_lost = True
        self._may_write.set()
        waiting, self._waiting = self._waiting, {}
        for each in waiting.values():
            if not each.done():
                each.set_exception(ConnectionLostError(self.address, reason))
        for task in self._handling:
            task.cancel()

    @property
    def is_busy(self) -> bool:
        """Whether answers are waited for, or being made."""
        return bool(self._waiting or self._handling)
