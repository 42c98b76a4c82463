"""`Replica`: one connection of the HA port. It gets the log from where its first report says.

Source: RocketMQ ``DefaultHAConnection``. Different on purpose: bytes that are not on disk are
not sent, an offset that the log does not have ends the connection, and so does a report of bytes
that were not sent.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, Protocol, cast

from reput.errors import ReputError
from reput_client.remoting import encode_transfer, last_report

if TYPE_CHECKING:
    from collections.abc import Callable

TRANSFER_SIZE: Final = 32 << 10
"""Bytes of the longest transfer (``haTransferBatchSize``)."""
HEARTBEAT_SECONDS: Final = 5.0
"""After so long without a transfer one without bytes is sent (``haSendHeartbeatInterval``)."""
SILENCE_SECONDS: Final = 20.0
"""A replica that reports nothing for so long is gone (``haHousekeepingInterval``)."""
NOT_REPORTED: Final = -1
"""The offset of a replica that has reported none yet."""
_REPORT_SIZE: Final = 8
_AT_ONCE: Final = 256 << 10
"""Bytes that are read on the event loop: they were written a moment ago, so no disk is read."""
_BLOCK_SIZE: Final = 1 << 20
"""Bytes that are read at a time on a thread, of what is older."""
_UNSENT_MAX: Final = 512 << 10
"""Bytes that the system has not taken at which nothing more is read."""
_UNKNOWN: Final = ("", 0)


class Master(Protocol):
    """The port that a replica came to, and the log that it wants."""

    loop: asyncio.AbstractEventLoop
    file_size: int
    """Bytes of a file of the log."""

    @property
    def served_from(self) -> int:
        """Physical offset at which the log begins."""
        ...

    @property
    def served_to(self) -> int:
        """Physical offset below which the log is on disk; always the end of a record or a file."""
        ...

    @property
    def log_end(self) -> int:
        """Physical offset at which the log ends."""
        ...

    def read(self, physical_offset: int, size: int) -> bytes:
        """Return bytes of the log, of one file; none if it does not hold them."""
        ...

    def read_on_thread(
        self, physical_offset: int, size: int, done: Callable[[asyncio.Future[bytes]], None]
    ) -> bool:
        """Have `read` called where it may wait for the disk, then ``done`` on the event loop.

        Returns:
            False if no thread is free for it now; `Replica.send` is called again then.
        """
        ...

    def admit(self, replica: Replica, descriptor: int) -> str:
        """Note a new connection; return why it is refused, and nothing if it is not."""
        ...

    def begun(self, replica: Replica) -> None:
        """Note that a replica has said where it begins."""
        ...

    def reported(self, replica: Replica) -> None:
        """Note that a replica has reported an offset."""
        ...

    def refused(self, replica: Replica, reason: str) -> None:
        """Note that a connection was closed for what its peer requested or reported."""
        ...

    def forget(self, replica: Replica) -> None:
        """Drop a connection that is gone."""
        ...


class Replica(asyncio.Protocol):
    """One slave or follower. All of it runs on the event loop."""

    def __init__(self, master: Master) -> None:
        self.master = master
        self.address: tuple[str, int] = _UNKNOWN
        self.is_open = False
        self.reported_offset = NOT_REPORTED
        """What it has reported last: an acknowledgement of all below; negative: it is there.

        Its first report says where it begins, and acknowledges nothing: a follower that keeps
        nothing begins with an offset, too, and the peer may not have what is below it.
        """
        self.begin_offset = NOT_REPORTED
        """Physical offset of the first byte that was sent to it."""
        self.sent_size = 0
        """Bytes of the log that were sent to it."""
        self.connected_at = self.last_report = self.last_transfer = master.loop.time()
        """By the loop's clock, s."""
        self._transport: asyncio.Transport | None = None
        self._rest = bytearray()  # of a report that is not whole
        self._next = NOT_REPORTED  # physical offset of the next byte to be sent
        self._is_paused = False
        self._is_reading = False

    # ------------------------------------------------------------------ the connection

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin to listen, unless there are too many connections."""
        self._transport = cast("asyncio.Transport", transport)
        self._transport.set_write_buffer_limits(high=_UNSENT_MAX)
        name = transport.get_extra_info("peername")
        if isinstance(name, tuple) and len(name) >= 2:
            self.address = str(name[0]), int(name[1])
        self.is_open = True
        reason = self.master.admit(self, transport.get_extra_info("socket").fileno())
        if reason:
            self.cut(reason)

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        self.is_open = False
        self.master.forget(self)

    def go_over(self, transport: asyncio.Transport) -> None:
        """Write by another transport from now on, which encrypts."""
        self._transport = transport

    def cut(self, reason: str) -> None:
        """Close the connection at once; ``reason`` is for the log."""
        if self._transport is not None and self.is_open:
            self.is_open = False
            self.master.refused(self, reason)
            self.abort()

    def end(self) -> None:
        """Send nothing more, and close the connection when all is sent."""
        if self._transport is not None and self.is_open:
            self.is_open = False
            self._transport.close()

    def abort(self) -> None:
        """Close the connection at once, whatever was not sent."""
        if self._transport is not None:
            self._transport.abort()

    # ------------------------------------------------------------------ reports

    def data_received(self, data: bytes) -> None:
        """Take bytes of reports."""
        if not self.is_open:
            return
        self._rest += data
        # One by one at first: the first says where to begin, and others may have come with it.
        while not self.is_begun and len(self._rest) >= _REPORT_SIZE:
            if not self._take_last(_REPORT_SIZE):
                return
        self._take_last(len(self._rest))

    def _take_last(self, size: int) -> bool:
        """Take the last whole report of the first ``size`` bytes; False if it ends everything."""
        offset, used = last_report(self._rest[:size])
        del self._rest[:used]
        if offset is not None:
            self._take(offset)
        return self.is_open

    def _take(self, offset: int) -> None:
        self.last_report = self.master.loop.time()
        if not self.is_begun and offset >= 0:
            if self._begin(offset):
                self.send()
            return
        if self.is_begun and offset > self._next:
            self.cut(f"it reports offset {offset}, and was sent the log below {self._next}")
            return
        # It is beyond what is on disk if offset 1 of an empty log was requested.
        self.reported_offset = min(offset, self.master.served_to)
        self.master.reported(self)
        self.send()

    def _begin(self, offset: int) -> bool:
        """Begin at the offset of the first report; False if the log does not have it."""
        master = self.master
        first, served_to, end = master.served_from, master.served_to, master.log_end
        if offset > max(end, 1):
            self.cut(
                f"it has the log below {offset}, and this log ends at {end}: it is of another log, "
                "or this one has lost its end; compare both, then remove the wrong one"
            )
            return False
        # 1: the first byte that a follower can request; 0 has another meaning, see below.
        if offset > max(served_to, 1):
            self.cut(
                f"it has the log below {offset}, of which only what is below {served_to} was sent "
                f"to replicas, as the rest is not on disk; it has to connect again when it is"
            )
            return False
        if 0 < offset < first:
            self.cut(
                f"it wants the log from {offset} on, which begins at {first} by now; it has to "
                "begin with an empty store"
            )
            return False
        # 0: it is empty, and wants the latest file alone.
        self._next = offset or max(end - end % master.file_size, first)
        self.begin_offset = self._next
        self.last_transfer = master.loop.time()
        master.begun(self)
        return True

    # ------------------------------------------------------------------ the log

    @property
    def is_begun(self) -> bool:
        """Whether it has said where it begins."""
        return self._next != NOT_REPORTED

    @property
    def has_all(self) -> bool:
        """Whether all that is on disk was sent, or nothing is wanted."""
        return not self.is_open or not self.is_begun or self._next >= self.master.served_to

    @property
    def unsent_size(self) -> int:
        """Bytes that wait until the peer reads."""
        return 0 if self._transport is None else self._transport.get_write_buffer_size()

    def send(self) -> None:
        """Send what is on disk and was not sent, as far as the peer takes it."""
        while self._may_send:
            left = self.master.served_to - self._next
            if left <= 0:
                return
            if left > _AT_ONCE:
                size = min(left, _BLOCK_SIZE)
                self._is_reading = self.master.read_on_thread(self._next, size, self._read)
                return
            try:
                data = self.master.read(self._next, left)
            except (ReputError, OSError) as error:
                self.cut(f"the log cannot be read: {error}")
                return
            self._transfer(data)

    @property
    def _may_send(self) -> bool:
        return self.is_open and self.is_begun and not self._is_paused and not self._is_reading

    def _read(self, found: asyncio.Future[bytes]) -> None:
        self._is_reading = False
        if found.cancelled() or not self.is_open:
            return
        error = found.exception()
        if error is not None:
            self.cut(f"the log cannot be read: {error}")
            return
        self._transfer(found.result())
        self.send()

    def _transfer(self, data: bytes) -> None:
        """Send bytes of one file, in transfers of the size that slaves expect."""
        if not data:
            first = self.master.served_from
            self.cut(
                f"the log does not have offset {self._next} any more, and begins at {first}; it "
                "has to begin with an empty store"
            )
            return
        view = memoryview(data)
        parts: list[bytes | memoryview] = []
        for start in range(0, len(data), TRANSFER_SIZE):
            part = view[start : start + TRANSFER_SIZE]
            parts += (encode_transfer(self._next + start, len(part)), part)
        self._next += len(data)
        self.sent_size += len(data)
        self._write(b"".join(parts))

    def _write(self, data: bytes) -> None:
        self.last_transfer = self.master.loop.time()
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(data)

    def look(self, now: float) -> None:
        """Send a heartbeat if one is due at ``now``, s; close a connection that says nothing."""
        if now - self.last_report > SILENCE_SECONDS:
            self.cut(f"it has reported nothing for {SILENCE_SECONDS:.0f} s")
        elif self._may_send and now - self.last_transfer > HEARTBEAT_SECONDS:
            self._write(encode_transfer(self._next, 0))

    def pause_writing(self) -> None:
        """Send nothing while the peer does not read."""
        self._is_paused = True

    def resume_writing(self) -> None:
        """Go on: the peer has read."""
        self._is_paused = False
        self.send()
