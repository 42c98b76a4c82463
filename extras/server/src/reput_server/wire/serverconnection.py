"""`ServerConnection`: one connection; it reads requests no faster than they are handled."""

from __future__ import annotations

import asyncio
import itertools
import logging
from typing import TYPE_CHECKING, cast

import attrs

from reput_client.remoting import Command, FrameError, FrameReader, ResponseCode, encode_frame
from reput_server.wire.interfaces import Request
from reput_server.wire.requestdispatcher import frame_of

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Sequence

    from reput_server.wire.interfaces import Host

logger = logging.getLogger(__name__)

_WRITE_HIGH = 1 << 20
"""Bytes of answers not taken by the system at which no further requests are read."""
_FIELD_SIZE = 200
"""Bytes that a field of a header takes in memory in addition to its texts, about."""
_UNKNOWN = ("", 0)
_SHARED_AFTER = 8
"""Times in a row that all bytes of a connection were taken at once, after which it is shared."""
_SHARED_AFTER_MOST = 512
"""The same, for one that had other requests soon each time that it was shared."""
_SHARED_READS = 64
"""Reads of a connection while it is shared that are worth the beginning and the end of that."""
_STOPS = "the server stops; try another broker, or this one later"


class ServerConnection(asyncio.Protocol):
    """One connection. All of it runs on the event loop."""

    def __init__(self, service: Host) -> None:
        self.service = service
        self.address: tuple[str, int] = _UNKNOWN
        self.last_moved: float = service.loop.time()
        """When bytes last came or went, by the loop's clock, s."""
        self.is_open = False
        self._on_close: dict[Hashable, Callable[[], object]] = {}
        self._transport: asyncio.Transport | None = None
        self._reader = self._new_reader()
        self._request_count = 0  # being worked on, with what they take of the memory
        self._request_bytes = 0
        self._taken_count = 0  # requests that were taken at once, and that none may overtake
        # Requests that were not taken at once, are worked on, and that none may overtake.
        self._passed: set[Request] = set()
        self._held_size = 0  # what the service counts of this peer's unfinished frame
        self._is_writing_paused = False
        self._is_reading_paused = False
        self._is_ending = False
        self._descriptor = -1  # of a socket whose bytes are not encrypted; -1 without one
        self._is_shared = False  # whether the service reads the socket together with others
        self._whole_count = 0  # times in a row that all bytes were taken at once
        self._shared_after = _SHARED_AFTER
        self._shared_reads = 0  # since it is shared
        self._numbers = itertools.count(1)
        self._asked: dict[int, asyncio.Future[Command]] = {}

    # ------------------------------------------------------------------ the connection

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin to serve, unless there are too many connections."""
        self._transport = cast("asyncio.Transport", transport)
        self._transport.set_write_buffer_limits(high=_WRITE_HIGH)
        name = transport.get_extra_info("peername")
        if isinstance(name, tuple) and len(name) >= 2:
            self.address = str(name[0]), int(name[1])
        self.is_open = True
        self._descriptor = transport.get_extra_info("socket").fileno()
        if not self.service.admit(self, self._descriptor):
            self.cut("there are too many connections")

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        self.is_open = self._is_ending = False
        self.unshare()
        self._count_held(0)
        self.service.forget(self)
        asked, self._asked = self._asked, {}
        for future in asked.values():
            if not future.done():
                future.set_exception(ConnectionResetError("the peer has gone"))
        called, self._on_close = self._on_close, {}
        for call in called.values():
            call()

    def go_over(self, transport: asyncio.Transport) -> None:
        """Write by another transport from now on, which decrypts what is read, too."""
        self._transport = transport
        self._descriptor = -1

    def cut(self, reason: str) -> None:
        """Close the connection at once."""
        if self._transport is not None and (self.is_open or self._is_ending):
            logger.info("connection cut peer=%s:%d reason=%s", *self.address, reason)
            self._is_ending = False
            self._let_go()
            self._transport.abort()

    def end(self) -> None:
        """Take nothing more, and close the connection when what was written is sent."""
        if self._transport is not None and self.is_open:
            self._is_ending = True
            self._let_go()
            self._transport.close()

    def _let_go(self) -> None:
        self.is_open = False
        self.unshare()
        self._reader = self._new_reader()
        self._count_held(0)  # at once: others are not to be cut for what is no more

    def remember(self, what: Hashable, on_close: Callable[[], object]) -> None:
        """Have ``on_close`` called once the connection is gone; at once if it is."""
        if not self.is_open:
            on_close()
            return
        self._on_close[what] = on_close
        if len(self._on_close) > self.service.limits.remembered_per_peer:
            self.cut("it has more groups, pulls or brokers than one connection may have")

    def forget(self, what: Hashable) -> None:
        """Undo `remember`."""
        self._on_close.pop(what, None)

    # ------------------------------------------------------------------ reading

    def _new_reader(self) -> FrameReader:
        return FrameReader(header_size_max=self.service.limits.header_bytes)

    def data_received(self, data: bytes) -> None:
        """Take bytes of the peer."""
        self.last_moved = self.service.loop.time()
        if not self._reader.held_size:
            taken = self._take_bytes(data)
            if taken == len(data):
                self._whole_count += 1
                if self._whole_count >= self._shared_after:
                    # Not before the answers are written, which uvloop does at the end of its turn.
                    self._whole_count = 0
                    self.service.loop.call_soon(self._share)
                return
            data = data[taken:] if taken else data
        self._whole_count = 0
        self._reader.feed(data)
        self._pump()

    def _share(self) -> None:
        """Have the socket read together with others, while only ordinary sends come."""
        transport = self._transport
        if transport is None or not self.is_open or transport.is_closing():
            return
        is_under_way = self._passed or self._taken_count or self._reader.held_size
        if self._is_shared or self._descriptor < 0 or self.unread_size or is_under_way:
            return
        if self._is_full or self._is_reading_paused:
            return
        if self.service.share(self, self._descriptor):
            self._is_shared = True
            self._shared_reads = 0
            transport.pause_reading()

    def unshare(self) -> None:
        """Have the transport read again."""
        if not self._is_shared:
            return
        self._is_shared = False
        is_worth_it = self._shared_reads >= _SHARED_READS
        longer = min(self._shared_after * 2, _SHARED_AFTER_MOST)
        self._shared_after = _SHARED_AFTER if is_worth_it else longer
        transport = self._transport
        try:
            self.service.unshare(self._descriptor)
        finally:
            # Who paused it for another reason resumes it.
            may_read = transport is not None and not self._is_reading_paused
            if transport is not None and may_read and not transport.is_closing():
                transport.resume_reading()

    def shared_moved(self, now: float) -> None:
        """Note that bytes came, by the loop's clock, s."""
        self.last_moved = now
        self._shared_reads += 1

    def end_shared(self, answers: bytes) -> None:
        """Go on by the transport, which also writes answers that were not written."""
        self.unshare()
        if answers:
            self.write(answers)

    def _pump(self) -> None:
        """Begin the requests that were read, until the limit is reached."""
        while self.is_open and not self._is_full:
            taken = self._take_bytes(self._reader.held)
            if taken:
                self._reader.drop(taken)
                continue  # for a moment that may have made it full
            held = self._reader.held_size
            try:
                command = self._reader.next_command()
            except FrameError as error:
                logger.warning("malformed frame peer=%s:%d error=%s", *self.address, error)
                self.cut("malformed frame")
                return
            if command is None:
                break
            taken = held - self._reader.held_size
            self._begin(command, taken + len(command.fields) * _FIELD_SIZE)
        self._count_held(self._reader.held_size)
        self._pause_or_resume()

    def _take_bytes(self, data: bytes | bytearray) -> int:
        """Have requests taken with which ``data`` begins; return how many bytes they have."""
        # None overtakes one that went a longer way.
        if not data or self._passed or self._taken_count or not self.is_open or self._is_full:
            return 0
        answers, taken, _ = self.service.take_bytes(self, data)
        if answers:
            self.write(answers)
        return taken

    def _count_held(self, size: int) -> None:
        self.service.held_bytes += size - self._held_size
        self._held_size = size
        if size and self.service.held_bytes > self.service.limits.bytes_of_all:
            # To wait would help nobody: no frame may ever be whole.
            self.service.cut_heaviest()

    @property
    def held_size(self) -> int:
        """Bytes of its frame that is not whole yet, and of what came behind it."""
        return self._held_size

    @property
    def _is_full(self) -> bool:
        limits = self.service.limits
        return (
            self._is_writing_paused
            or self._request_count >= limits.requests_per_peer
            or self._request_bytes >= limits.bytes_per_peer
            or self.service.request_bytes >= limits.bytes_of_all
        )

    def _pause_or_resume(self) -> None:
        is_full = self._is_full
        if self._transport is None or not self.is_open or is_full is self._is_reading_paused:
            return
        self._is_reading_paused = is_full
        if is_full:
            self._transport.pause_reading()
            self.service.paused.add(self)
        else:
            self.service.paused.discard(self)
            self._transport.resume_reading()

    def go_on(self) -> None:
        """Read on, if there is space again."""
        # Requests of a connection that is gone may end later; nobody would forget what it reads.
        if self.is_open and self._is_reading_paused and not self._is_full:
            self._pump()

    # ------------------------------------------------------------------ requests

    def _begin(self, command: Command, size: int) -> None:
        """Begin to work on a request that takes ``size`` bytes of memory, about."""
        if command.is_response:
            future = self._asked.pop(command.opaque, None)
            if future is not None and not future.done():
                future.set_result(command)
            return
        if self.service.is_stopping:
            # Answers of the peer are still read: requests that were begun may wait for them.
            self.answer(command, command.answer(ResponseCode.SERVICE_NOT_AVAILABLE, remark=_STOPS))
            return
        self._request_count += 1
        self._request_bytes += size
        self.service.request_bytes += size
        request = Request(command, self, size)
        may_be_taken = self.service.may_take(command.code)
        # None overtakes one that went the longer way.
        if may_be_taken and not self._passed:
            self._taken_count += 1  # first: it may have ended when this comes back
            if self.service.take(request):
                return
            self._taken_count -= 1
        if may_be_taken:
            self._passed.add(request)
        self.service.begin(self._work(request))

    async def _work(self, request: Request) -> None:
        command = request.command
        try:
            answer = await self.service.answer(request)
            if answer is not None:
                self.answer(command, answer)
        finally:
            self._passed.discard(request)
            self._end(1, request.size)

    def _end(self, count: int, size: int) -> None:
        self._request_count -= count
        self._request_bytes -= size
        self.service.request_bytes -= size
        self.go_on()
        self.service.go_on()

    def hold(self, count: int, size: int) -> None:
        """Count requests that were taken from bytes and are not answered yet, until `release`."""
        self._request_count += count
        self._request_bytes += size
        self.service.request_bytes += size
        self.service.held(count)
        if self._is_shared and self._is_full:  # the common read does not look at its limits
            self._is_reading_paused = True  # first: its transport does not read, and stays so
            self.service.paused.add(self)
            self.unshare()

    def release(self, count: int, size: int) -> None:
        """End such requests, whose answers were written."""
        self.last_moved = self.service.loop.time()
        self.service.finished(count)
        self._end(count, size)

    def let_pass(self, request: Request) -> None:
        """Let others overtake a request that is worked on, and is not answered yet."""
        self._passed.discard(request)

    def let_pass_taken(self) -> None:
        """Let others overtake a request that was taken at once; `finish` gets their number."""
        self._taken_count -= 1

    def finish(
        self, count: int, size: int, answers: Sequence[bytes | Command], passed_count: int = 0
    ) -> None:
        """End requests that were taken at once; their answers are written together."""
        if answers:
            frames = [each if isinstance(each, bytes) else frame_of(each) for each in answers]
            self.write(b"".join(frames))
        self.service.finished(count)
        self._taken_count -= count - passed_count
        self._end(count, size)

    # ------------------------------------------------------------------ writing

    def answer(self, command: Command, answer: Command) -> None:
        """Send the answer to a request, unless nobody waits for one."""
        if not command.is_one_way:
            self.write(frame_of(answer))

    def tell(self, command: Command) -> None:
        """Send a request that is not answered."""
        numbered = attrs.evolve(command, opaque=next(self._numbers))
        self.write(encode_frame(numbered))

    async def ask(self, command: Command, timeout: float) -> Command:
        """Send a request, and return its answer.

        Raises:
            TimeoutError: none came in time.
            ConnectionError: the peer has gone.
        """
        if not self.is_open:
            raise ConnectionResetError("the peer has gone")
        opaque = next(self._numbers)
        future: asyncio.Future[Command] = self.service.loop.create_future()
        self._asked[opaque] = future
        try:
            self.write(encode_frame(attrs.evolve(command, opaque=opaque)))
            async with asyncio.timeout(timeout):
                return await future
        finally:
            self._asked.pop(opaque, None)

    @property
    def direct_descriptor(self) -> int:
        """Its socket, if answers may be written there by others now; -1 if only `write` may."""
        return self._descriptor if self._is_shared else -1

    def write(self, answers: bytes) -> None:
        """Write whole frames, or what is left of them."""
        if self._transport is None or not self.is_open or self._transport.is_closing():
            return
        limits = self.service.limits
        if not self._is_writing_paused:
            self.last_moved = self.service.loop.time()
        elif self.unread_size > limits.unread_bytes:
            self.cut("it leaves its answers unread")
            return
        elif self.service.unread_bytes() > limits.bytes_of_all:
            self.service.cut_deafest()
        # A transport that was just cut takes no more.
        self._transport.write(answers)
        if self._is_shared and self.unread_size:
            self.unshare()  # as nothing may be written between the parts of this

    @property
    def unread_size(self) -> int:
        """Bytes of answers that wait until the peer reads."""
        return 0 if self._transport is None else self._transport.get_write_buffer_size()

    def pause_writing(self) -> None:
        """Read nothing while the peer does not read."""
        self._is_writing_paused = True
        self.service.deaf.add(self)
        self._pause_or_resume()

    def resume_writing(self) -> None:
        """Go on: the peer has read."""
        self.last_moved = self.service.loop.time()
        self._is_writing_paused = False
        self.service.deaf.discard(self)
        self.go_on()
