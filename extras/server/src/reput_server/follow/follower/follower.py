"""`Follower`: fills a store with the log of a master, from threads of its own.

One thread reads the connection (`Receiver`), the other requests the end of the master's log
(`MasterPoller`). What they find is one state (`SharedState`).
"""

from __future__ import annotations

import logging
import threading
import time
from typing import TYPE_CHECKING

import attrs

from reput.errors import ReadOnlyStoreError
from reput_server.follow.config import FollowConfig
from reput_server.follow.errors import BrokerError
from reput_server.follow.follower.lag import Lag
from reput_server.follow.follower.masterpoller import MasterPoller
from reput_server.follow.follower.receiver import Receiver
from reput_server.follow.follower.replicafeed import ReplicaFeed
from reput_server.follow.follower.sharedstate import SharedState
from reput_server.follow.follower.states import FollowEndedError, State

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from reput import PluginState, Store
    from reput_server.follow.follower.source import AnySource

logger = logging.getLogger(__name__)


@attrs.frozen(kw_only=True)
class FollowStatus:
    """A follower at one moment."""

    state: State
    text: str
    """What is wrong, and what to do next; empty while nothing is."""
    master: str
    """Cluster and name of the broker; empty as long as it is not known."""
    address: str
    """Of its HA port; empty without a connection."""
    lag: Lag
    fed_offset: int
    flushed_offset: int
    dispatched_offset: int
    """Physical offset below which all running plugins have seen all messages."""
    received_size: int
    """Bytes of the log that came in all connections, also those that were only compared."""
    connection_count: int
    metadata_count: int
    """How often topics, groups and offsets were saved."""


class Follower:
    """Follows one broker with one store. All methods are thread-safe."""

    def __init__(
        self,
        store: Store,
        source: AnySource,
        config: FollowConfig | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Do nothing yet.

        Args:
            store: a replica that is open for writing; its opener closes it, after the follower.
            source: the broker.
            config: how it is followed.
            clock: seconds, monotonic.
        """
        self.store = store
        self.source = source
        self.config = config or FollowConfig()
        self._shared = SharedState(str(source), clock)
        self._feed = ReplicaFeed(store)
        self._begun_at = {each.name: each.dispatched_to for each in store.plugins()}
        works = (
            (Receiver(self._feed, source, self.config, self._shared).run, "reput-server"),
            (MasterPoller(self._feed, self.config, self._shared).run, "reput-server-ask"),
        )
        self._threads = [
            threading.Thread(target=self._work, args=(work,), name=name, daemon=True)
            for work, name in works
        ]

    def start(self) -> None:
        """Begin; nothing is waited for.

        Raises:
            ReadOnlyStoreError: the store was opened with ``mode="r"``.
        """
        if not self.store.writable:
            reason = 'a follower writes it; open it with mode="w"'
            raise ReadOnlyStoreError("store", None, None, reason)
        for each in self._threads:
            each.start()

    def stop(self) -> None:
        """End in order: what came is in the store when this returns."""
        shared = self._shared
        with shared.changed:
            shared.is_stopping = True
            connection = shared.connection
            shared.changed.notify_all()
        if connection is not None:
            connection.abort()
        for each in self._threads:
            if each.ident is not None:
                each.join()
        if shared.master is not None:
            shared.master.close()
        with shared.changed:
            if not shared.state.is_final:
                shared.become(State.STOPPED, "")

    def _work(self, work: Callable[[], None]) -> None:
        """Do the work of a thread; whatever it raises ends the follower, with a state."""
        try:
            work()
        except Exception as error:
            logger.exception("follower failed source=%s", self.source)
            reason = f"an error that was not expected: {type(error).__name__}: {error}"
            advice = "please report it, with its traceback, which is in the log of this process"
            self._shared.end(FollowEndedError(State.STORE_FAILED, reason, advice))

    # ------------------------------------------------------------------ where it is

    def status(self) -> FollowStatus:
        """Return where the follower is, and how far behind."""
        plugins = self.store.plugins() if not self.store.closed else []
        running = [each for each in plugins if each.state not in ("suspended", "halted")]
        record_size = self._record_size(plugins)
        shared = self._shared
        with shared.changed:
            fed = self._feed.fed_offset
            connection = shared.connection
            return FollowStatus(
                state=shared.state,
                text=shared.shown_text,
                master="" if shared.facts is None else shared.facts.name,
                address="" if connection is None else connection.name,
                lag=shared.meter.lag(shared.clock(), fed, record_size),
                fed_offset=fed,
                flushed_offset=self.store.flushed_offset,
                dispatched_offset=min((each.dispatched_to for each in running), default=fed),
                received_size=shared.received_size,
                connection_count=shared.connection_count,
                metadata_count=shared.metadata_count,
            )

    @property
    def lag(self) -> Lag:
        """How far the store is behind the master."""
        return self.status().lag

    def _record_size(self, plugins: Sequence[PluginState]) -> float | None:
        """Return about how many bytes a record has, by what the plugins were given."""
        for each in plugins:
            size = each.dispatched_to - self._begun_at.get(each.name, 0)
            if each.message_count and size > 0:
                return size / each.message_count
        return None

    # ------------------------------------------------------------------ waiting

    def wait_caught_up(self, timeout: float | None = None) -> bool:
        """Wait until the store has all that the master has now, and its plugins have seen it.

        Args:
            timeout: seconds; None waits as long as it takes.

        Returns:
            Whether it has; False if the time is over.

        Raises:
            FollowEndedError: the follower ended before.
        """
        shared = self._shared
        deadline = shared.deadline_after(timeout)
        with shared.changed:
            # Connected: a directory is not read before it is open.
            if not shared.wait_for(lambda: shared.facts is not None, deadline):
                return False
        target = self._asked_end(deadline)
        if target is None:
            return False
        with shared.changed:
            if not shared.wait_for(lambda: self._has(target), deadline):
                return False
        left_to_dispatch = None if deadline is None else max(deadline - shared.clock(), 0.0)
        return self.store.wait_dispatched(left_to_dispatch)

    def _has(self, offset: int) -> bool:
        """Whether the store has the log below an offset, as a master that was compared has it."""
        return self._shared.state is State.FOLLOWING and self._feed.fed_offset >= offset

    def _asked_end(self, deadline: float | None) -> int | None:
        """Return where the master's log ends; None if the time is over before it answers."""
        shared = self._shared
        while True:
            with shared.changed:
                master = shared.master  # another one as soon as the master has moved
            assert master is not None
            try:
                return master.log_range().max_offset
            except BrokerError:  # gone for a moment
                next_try = shared.clock() + self.config.ask_interval
            with shared.changed:
                shared.wait_for(
                    lambda: False, next_try if deadline is None else min(next_try, deadline)
                )
            if deadline is not None and shared.clock() >= deadline:
                return None

    def wait_state(self, *states: State, timeout: float | None = None) -> State:
        """Wait until the follower is in one of ``states``, or has ended; return its state."""
        shared = self._shared
        deadline = shared.deadline_after(timeout)
        with shared.changed:
            while shared.state not in states and not shared.state.is_final:
                left = None if deadline is None else deadline - shared.clock()
                if (left is not None and left <= 0) or not shared.changed.wait(left):
                    break
            return shared.state

    def wait_changed(self, status: FollowStatus, timeout: float) -> None:
        """Wait until ``status`` is another, but for its figures, at most ``timeout`` seconds."""
        shared = self._shared
        deadline = shared.deadline_after(timeout)
        assert deadline is not None
        before = status.state, status.text, status.metadata_count
        with shared.changed:
            while (shared.state, shared.shown_text, shared.metadata_count) == before:
                left = deadline - shared.clock()
                if left <= 0:
                    break
                shared.changed.wait(left)

    def raise_end(self) -> None:
        """Raise why the follower has ended by itself; do nothing otherwise."""
        with self._shared.changed:
            ended = self._shared.ended
        if ended is not None:
            raise ended
