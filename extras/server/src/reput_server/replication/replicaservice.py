"""`ReplicaService`: the HA port, its connections of slaves and followers, and their reports.

Only what is on disk is sent: a master that lost what its slaves have would be of another log than
they. While slaves are connected, the log is flushed as soon as it has grown, and not only with the
store's interval, so that they are a few milliseconds behind.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from typing import TYPE_CHECKING, Final

import attrs

from reput.errors import FlushDiskTimeoutError
from reput_aio import FlushWaiters
from reput_client.remoting import Address
from reput_server.config import Limits
from reput_server.replication.replica import NOT_REPORTED, Replica
from reput_server.replication.replicaacks import GAP_MAX, ReplicaAcks
from reput_server.wire import filedescriptors
from reput_server.wire.encryption import Encryption, ProtocolDetector
from reput_server.wire.ports import bound_to, listening, stop_listening
from reput_server.wire.shutdownthread import finish_on_thread

if TYPE_CHECKING:
    from reput import Store

logger = logging.getLogger(__name__)

_LOOK_SECONDS: Final = 0.02
"""How often the log is looked at while replicas are connected: others than peers put, too."""
_LOOK_SECONDS_MAX: Final = 0.1
"""The same while nothing is put, as RocketMQ's masters do."""
_SWEEP_SECONDS: Final = 1.0
_FLUSH_PAUSE_SECONDS: Final = 0.002
"""Between two flushes for replicas, at least; more if a flush takes longer."""
_STOP_SECONDS: Final = 2.0
_AGAIN_SECONDS: Final = 0.1
"""After an error that concerns no disk, as a thread that cannot be started, it is tried again."""
_WARNED_MAX: Final = 1_000


@attrs.frozen(kw_only=True)
class ReplicaState:
    """One replica at a moment."""

    address: Address
    reported_offset: int
    """What it has reported last, after where it begins; negative if that acknowledges nothing."""
    begin_offset: int
    """Physical offset of the first byte that was sent to it."""
    lag_size: int
    """Bytes of the log that it has not acknowledged; those after where it began at first."""
    sent_size: int
    """Bytes of the log that were sent to it."""
    unsent_size: int
    """Bytes that wait until it reads."""
    rate: float
    """Bytes a second since it has connected."""
    is_observer: bool
    """Whether it has reported that it acknowledges nothing."""
    is_in_sync: bool
    """Whether it has acknowledged all but the last 256 MiB."""


@attrs.define(eq=False, repr=False)
class ReplicaService:
    """The HA port of a store. Used on the event loop; it is a `replica.Master`."""

    store: Store
    loop: asyncio.AbstractEventLoop
    limits: Limits = attrs.field(factory=Limits)
    encryption: Encryption | None = None
    """How connections may be encrypted; None if they may not."""
    sync_count: int = 0
    """How many replicas a send waits for."""
    waits: ReplicaAcks | None = attrs.field(init=False, default=None)
    """Answers that wait for replicas; None if none do."""
    address: Address = attrs.field(init=False, default=("", 0))
    """Where it listens, with the port that was found free."""
    connected: set[Replica] = attrs.field(init=False, factory=set)
    file_size: int = attrs.field(init=False)
    _threads: Executor = attrs.field(init=False)
    _servers: list[asyncio.Server] = attrs.field(init=False, factory=list)
    _timers: dict[str, asyncio.TimerHandle] = attrs.field(init=False, factory=dict)
    _is_flushing: bool = attrs.field(init=False, default=False)
    _seen: tuple[int, int] = attrs.field(init=False, default=(-1, -1))
    """Where the log ended, and how far it was on disk, when it was looked at last."""
    _pause: float = attrs.field(init=False, default=_LOOK_SECONDS)
    """Seconds until it is looked at again."""
    _may_flush_at: float = attrs.field(init=False, default=0.0)
    _failure: str = attrs.field(init=False, default="")
    """Why the log cannot be flushed, which was reported."""
    _trouble: str = attrs.field(init=False, default="")
    """Why replicas were not served the last time, which was reported."""
    _warned: set[tuple[str, str]] = attrs.field(init=False, factory=set)
    """Hosts and beginnings of reasons of which the log has a warning already."""
    _all_gone: asyncio.Event = attrs.field(init=False, factory=asyncio.Event)

    def __attrs_post_init__(self) -> None:
        self.file_size = self.store.log.file_size
        self._threads = ThreadPoolExecutor(2, "reput-serve-replica")
        if self.sync_count:
            seconds = self.limits.replica_wait_ms / 1000
            self.waits = ReplicaAcks(
                self.sync_count, seconds, self.loop, self._reported_offsets, self.log_grew
            )

    async def start(self, sockets: Sequence[socket.socket]) -> None:
        """Listen on sockets that are bound.

        Raises:
            OSError: one of them cannot be listened on.
            RuntimeError: no thread can be started.
        """
        # An executor starts a thread with its first call, and keeps the call if it cannot.
        await self.loop.run_in_executor(self._threads, _nothing)
        for each in sockets:
            server = await listening(self.loop, self._new_connection, each)
            self._servers.append(server)
        self.address = bound_to(sockets)
        self._sweep()

    def _new_connection(self) -> asyncio.Protocol:
        replica = Replica(self)
        return replica if self.encryption is None else ProtocolDetector(replica, self.encryption)

    async def stop(self) -> None:
        """Send all that is stored, for a short while, and close all connections."""
        await stop_listening(self.loop, self._servers)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_STOP_SECONDS):
                await self._send_rest()
        if self.waits is not None:
            self.waits.give_up()
        for replica in list(self.connected):
            replica.end()
        if self.connected:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_STOP_SECONDS):
                    await self._all_gone.wait()
        for replica in list(self.connected):
            replica.abort()
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
        await finish_on_thread(self._close)

    async def _send_rest(self) -> None:
        while self.connected:
            self.log_grew()
            is_flushed = self.served_to >= self.log_end or bool(self._failure)
            if is_flushed and all(each.has_all for each in self.connected):
                return
            await asyncio.sleep(_FLUSH_PAUSE_SECONDS)

    def _close(self) -> None:
        self._threads.shutdown(wait=True, cancel_futures=True)

    # ------------------------------------------------------------------ for replicas

    @property
    def served_from(self) -> int:
        """See `replica.Master.served_from`."""
        return self.store.log.min_physical_offset

    @property
    def served_to(self) -> int:
        """See `replica.Master.served_to`."""
        return self.store.flushed_offset

    @property
    def log_end(self) -> int:
        """See `replica.Master.log_end`."""
        return self.store.log.max_physical_offset

    def read(self, physical_offset: int, size: int) -> bytes:
        """See `replica.Master.read`."""
        return self.store.log.read(physical_offset, size)

    def read_on_thread(
        self, physical_offset: int, size: int, done: Callable[[asyncio.Future[bytes]], None]
    ) -> bool:
        """See `replica.Master.read_on_thread`."""
        read = self.store.log.read
        try:
            found = self.loop.run_in_executor(self._threads, read, physical_offset, size)
        except RuntimeError as error:  # no thread can be started
            self._try_again(error)
            return False
        found.add_done_callback(done)
        return True

    def admit(self, replica: Replica, descriptor: int) -> str:
        """See `replica.Master.admit`."""
        self.connected.add(replica)
        self._all_gone.clear()
        if len(self.connected) > self.limits.replicas:
            return f"{self.limits.replicas} replicas are the limit"
        if not filedescriptors.are_left(descriptor, self.limits.spare_descriptors):
            return "the store needs the descriptors that are left; ulimit -n allows more"
        return ""

    def begun(self, replica: Replica) -> None:
        """See `replica.Master.begun`."""
        host = replica.address[0]
        self._warned = {each for each in self._warned if each[0] != host}
        logger.info("replica begins peer=%s:%d offset=%d", *replica.address, replica.begin_offset)
        self._look()

    def reported(self, replica: Replica) -> None:
        """See `replica.Master.reported`."""
        if self.waits is not None:
            self.waits.advance()

    def refused(self, replica: Replica, reason: str) -> None:
        """See `replica.Master.refused`."""
        # A slave tries again every five seconds, for ever.
        key = replica.address[0], reason[:20]
        level = logging.INFO if key in self._warned else logging.WARNING
        if len(self._warned) >= _WARNED_MAX:
            self._warned.clear()
        self._warned.add(key)
        logger.log(level, "replica closed peer=%s:%d reason=%s", *replica.address, reason)

    def forget(self, replica: Replica) -> None:
        """See `replica.Master.forget`."""
        self.connected.discard(replica)
        if not self.connected:
            self._all_gone.set()

    # ------------------------------------------------------------------ what is sent

    def log_grew(self) -> None:
        """Send what is on disk, and have the rest brought to disk; cheap without replicas.

        It raises nothing: its callers have sends to answer, whatever becomes of replicas.
        """
        if not self.connected:
            return
        try:
            self._serve()
        except Exception as error:
            self._try_again(error)

    def _try_again(self, error: Exception) -> None:
        """Serve replicas again soon, as it was not done because of an error."""
        if str(error) != self._trouble:
            self._trouble = str(error)
            logger.error("replicas not served, tried again error=%s", error)
        if "again" not in self._timers:
            self._timers["again"] = self.loop.call_later(_AGAIN_SECONDS, self._again)

    def _again(self) -> None:
        del self._timers["again"]
        self.log_grew()
        if "again" not in self._timers:
            self._trouble = ""

    def _serve(self) -> None:
        for replica in list(self.connected):
            replica.send()
        if self._is_flushing or self.served_to >= (end := self.log_end):
            return
        is_awaited = self.waits is not None and self.waits.held_count > 0
        if not is_awaited and self.loop.time() < self._may_flush_at:
            if "flush" not in self._timers:
                self._timers["flush"] = self.loop.call_at(self._may_flush_at, self._flush_again)
            return
        began = self.loop.time()
        self._is_flushing = True
        found = FlushWaiters.of(self.store.log, self.loop).begin(end)
        found.add_done_callback(lambda found: self._flushed(found, began))

    def _flush_again(self) -> None:
        del self._timers["flush"]
        self.log_grew()

    def _flushed(self, found: asyncio.Future[bool], began: float) -> None:
        self._is_flushing = False
        now = self.loop.time()
        # So that others have the disk for half of the time.
        self._may_flush_at = now + max(now - began, _FLUSH_PAUSE_SECONDS)
        error = None if found.cancelled() else found.exception()
        if error is None:
            self.log_grew()
        elif isinstance(error, FlushDiskTimeoutError):  # no thread could be started
            self._try_again(error)
        elif str(error) != self._failure:
            self._failure = str(error)
            logger.error("log not flushed, replicas get nothing more error=%s", error)

    def _look(self) -> None:
        """Look at the log again and again, as long as anybody wants it."""
        if "look" in self._timers:
            self._timers.pop("look").cancel()
        if not self.connected:
            return
        seen = self.log_end, self.served_to
        is_idle = seen == self._seen and (seen[0] == seen[1] or bool(self._failure))
        self._pause = min(2 * self._pause, _LOOK_SECONDS_MAX) if is_idle else _LOOK_SECONDS
        self._seen = seen
        self._timers["look"] = self.loop.call_later(self._pause, self._look)
        if not is_idle:
            self.log_grew()

    def _sweep(self) -> None:
        self._timers["sweep"] = self.loop.call_later(_SWEEP_SECONDS, self._sweep)
        self.sweep(self.loop.time())

    def sweep(self, now: float) -> None:
        """Send heartbeats that are due at ``now``, s, and close connections that say nothing."""
        for replica in list(self.connected):
            replica.look(now)

    # ------------------------------------------------------------------ what is known of them

    def _reported_offsets(self) -> list[int]:
        return [each.reported_offset for each in self.connected if each.is_open]

    def states(self) -> list[ReplicaState]:
        """Return all replicas that have begun, by address."""
        now, end = self.loop.time(), self.log_end
        begun = [each for each in self.connected if each.is_open and each.is_begun]
        return [
            ReplicaState(
                address=each.address,
                reported_offset=each.reported_offset,
                begin_offset=each.begin_offset,
                lag_size=end - max(_acknowledged(each), 0),
                sent_size=each.sent_size,
                unsent_size=each.unsent_size,
                rate=each.sent_size / max(now - each.connected_at, 1.0),
                is_observer=each.reported_offset < NOT_REPORTED,
                is_in_sync=each.reported_offset >= 0 and end - each.reported_offset < GAP_MAX,
            )
            for each in sorted(begun, key=lambda each: each.address)
        ]


def _acknowledged(replica: Replica) -> int:
    """Return the offset below which a replica has the log, or began."""
    reported = replica.reported_offset
    return replica.begin_offset if reported == NOT_REPORTED else reported


def _nothing() -> None:
    """Have a thread started."""
