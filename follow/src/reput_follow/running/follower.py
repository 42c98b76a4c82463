"""`Follower`: feeds a store with the log of a master, from threads of its own.

One thread reads the HA connection; the other asks the broker how far its log reaches. What they
find is one state, guarded by one condition.

Source: RocketMQ ``DefaultHAClient``. Different on purpose: the store's last bytes are compared
with the master's on each connection, an observer acknowledges nothing, and a difference ends it.
"""

from __future__ import annotations

import logging
import threading
import time
from typing import TYPE_CHECKING, Final, NoReturn

import attrs

from reput.errors import CorruptFeedError, DivergedError, FeedGapError, ReputError
from reput_follow.asking.broker import Broker
from reput_follow.asking.facts import LogRange
from reput_follow.config import FollowConfig
from reput_follow.errors import BrokerError, FollowError
from reput_follow.peers import parse_address
from reput_follow.replication.connection import HaConnection
from reput_follow.replication.session import Session
from reput_follow.running.beginning import Own, check_broker, check_range, first_report
from reput_follow.running.lag import Lag, LagMeter
from reput_follow.running.metadata import save_metadata
from reput_follow.running.states import FollowEndedError, State
from reput_remoting import TransferError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from reput import PluginState, Store
    from reput_follow.asking.facts import BrokerFacts
    from reput_follow.running.source import Source
    from reput_remoting import Transfer

logger = logging.getLogger(__name__)

__all__ = ["FollowStatus", "Follower"]

_CORRUPT_MAX: Final = 3
"""How often bytes that hold no valid record are fetched again before the follower ends."""


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
        source: Source,
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
        self._clock = clock
        self._changed = threading.Condition()
        self._meter = LagMeter()
        self._state = State.CONNECTING
        self._text = ""
        self._trouble = ""
        self._ended: FollowEndedError | None = None
        self._is_stopping = False
        self._facts: BrokerFacts | None = None
        self._broker: Broker | None = None
        self._connection: HaConnection | None = None
        self._wanted = 0
        """Physical offset of the next byte that the connection is to bring."""
        self._received_size = self._connection_count = self._metadata_count = 0
        self._corrupt: tuple[int, int] = -1, 0  # an offset, and how often it was corrupt
        self._begun_at = {each.name: each.dispatched_to for each in store.plugins()}
        self._threads = [
            threading.Thread(
                target=self._work, args=(self._run,), name="reput-follow", daemon=True
            ),
            threading.Thread(
                target=self._work, args=(self._ask,), name="reput-follow-ask", daemon=True
            ),
        ]

    # ------------------------------------------------------------------ for callers

    def start(self) -> None:
        """Begin; nothing is waited for."""
        for each in self._threads:
            each.start()

    def stop(self) -> None:
        """End in order: what came is in the store when this returns."""
        with self._changed:
            self._is_stopping = True
            connection, broker = self._connection, self._broker
            self._changed.notify_all()
        if connection is not None:
            connection.abort()
        for each in self._threads:
            if each.ident is not None:
                each.join()
        if broker is not None:
            broker.close()
        with self._changed:
            if not self._state.is_final:
                self._become(State.STOPPED, "")

    def status(self) -> FollowStatus:
        """Return where the follower is, and how far behind."""
        plugins = self.store.plugins() if not self.store.closed else []
        running = [each for each in plugins if each.state not in ("suspended", "halted")]
        record_size = self._record_size(plugins)
        with self._changed:
            fed = self.store.fed_offset
            lag = self._meter.lag(self._clock(), fed, record_size)
            connection = self._connection
            return FollowStatus(
                state=self._state,
                text=self._shown_text(),
                master="" if self._facts is None else self._facts.name,
                address="" if connection is None else connection.name,
                lag=lag,
                fed_offset=fed,
                flushed_offset=self.store.flushed_offset,
                dispatched_offset=min((each.dispatched_to for each in running), default=fed),
                received_size=self._received_size,
                connection_count=self._connection_count,
                metadata_count=self._metadata_count,
            )

    @property
    def lag(self) -> Lag:
        """How far the store is behind the master."""
        return self.status().lag

    def wait_caught_up(self, timeout: float | None = None) -> bool:
        """Wait until the store has all that the master has now, and its plugins have seen it.

        Args:
            timeout: seconds; None waits as long as it takes.

        Returns:
            Whether it has; False if the time is over.

        Raises:
            FollowEndedError: the follower ended before.
        """
        deadline = None if timeout is None else self._clock() + timeout
        with self._changed:
            if not self._wait_for(lambda: self._broker is not None, deadline):
                return False
        target = self._asked_end(deadline)
        if target is None:
            return False
        with self._changed:
            if not self._wait_for(lambda: self._has(target), deadline):
                return False
        left_to_dispatch = None if deadline is None else max(deadline - self._clock(), 0.0)
        return self.store.wait_dispatched(left_to_dispatch)

    def _has(self, offset: int) -> bool:
        """Whether the store has the log below an offset, as a master that was compared has it."""
        return self._state is State.FOLLOWING and self.store.fed_offset >= offset

    def _asked_end(self, deadline: float | None) -> int | None:
        """Return where the master's log ends; None if the time is over before it answers."""
        while True:
            with self._changed:
                broker = self._broker  # another one as soon as the master has moved
            assert broker is not None
            try:
                return broker.log_range().max_offset
            except BrokerError:  # gone for a moment
                next_try = self._clock() + self.config.ask_interval
            with self._changed:
                self._wait_for(
                    lambda: False, next_try if deadline is None else min(next_try, deadline)
                )
            if deadline is not None and self._clock() >= deadline:
                return None

    def wait_state(self, *states: State, timeout: float | None = None) -> State:
        """Wait until the follower is in one of ``states``, or has ended; return its state."""
        deadline = None if timeout is None else self._clock() + timeout
        with self._changed:
            while self._state not in states and not self._state.is_final:
                left = None if deadline is None else deadline - self._clock()
                if (left is not None and left <= 0) or not self._changed.wait(left):
                    break
            return self._state

    def wait_changed(self, status: FollowStatus, timeout: float) -> None:
        """Wait until ``status`` is another, but for its figures, at most ``timeout`` seconds."""
        deadline = self._clock() + timeout
        before = status.state, status.text, status.metadata_count
        with self._changed:
            while (self._state, self._shown_text(), self._metadata_count) == before:
                left = deadline - self._clock()
                if left <= 0:
                    break
                self._changed.wait(left)

    def raise_end(self) -> None:
        """Raise why the follower has ended by itself; do nothing otherwise."""
        with self._changed:
            ended = self._ended
        if ended is not None:
            raise ended

    # ------------------------------------------------------------------ states

    def _become(self, state: State, text: str) -> None:
        """Change the state; called under the condition."""
        if (state, text) != (self._state, self._text):
            logger.info("follower state=%s source=%s %s", state.value, self.source, text)
        self._state, self._text = state, text
        self._changed.notify_all()

    def _shown_text(self) -> str:
        return self._text or self._trouble

    def _end(self, error: FollowEndedError) -> None:
        with self._changed:
            if self._ended is None and not self._is_stopping:
                self._ended = error
                self._become(error.state, f"{error.reason}; {error.advice}")
            connection = self._connection
        if connection is not None:
            connection.abort()

    def _wait_for(self, holds: Callable[[], bool], deadline: float | None) -> bool:
        """Wait under the condition until something holds; False if the time is over.

        Raises:
            FollowEndedError: the follower has ended.
        """
        while not holds():
            if self._ended is not None:
                raise self._ended
            if self._state is State.STOPPED or self._is_stopping:
                raise FollowEndedError(State.STOPPED, "it was asked to end", "start another one")
            left = None if deadline is None else deadline - self._clock()
            if left is not None and left <= 0:
                return False
            self._changed.wait(left)
        return True

    def _is_over(self) -> bool:
        return self._is_stopping or self._ended is not None

    def _pause(self, seconds: float) -> None:
        """Wait on a thread of the follower; ends early when the follower does."""
        deadline = self._clock() + seconds
        with self._changed:
            while not self._is_over() and (left := deadline - self._clock()) > 0:
                self._changed.wait(left)

    # ------------------------------------------------------------------ the HA connection

    def _work(self, work: Callable[[], None]) -> None:
        """Do the work of a thread; whatever it raises ends the follower, with a state."""
        try:
            work()
        except Exception as error:
            logger.exception("follower failed source=%s", self.source)
            reason = f"an error that was not expected: {type(error).__name__}: {error}"
            advice = "please report it, with its traceback, which is in the log of this process"
            self._end(FollowEndedError(State.STORE_FAILED, reason, advice))

    def _run(self) -> None:
        while not self._is_over():
            try:
                self._follow_once()
            except FollowEndedError as error:
                self._end(error)
            except (BrokerError, TransferError, FeedGapError, CorruptFeedError) as error:
                self._retry(error)
            except DivergedError as error:
                advice = "compare both logs, then begin with a new directory, or promote this one"
                self._end(FollowEndedError(State.DIVERGED, _without_advice(error), advice))
            except (ReputError, OSError) as error:
                advice = "repair what it names, and start again; nothing of the master is lost"
                self._end(FollowEndedError(State.STORE_FAILED, str(error), advice))

    def _retry(self, error: ReputError) -> None:
        with self._changed:
            self._connection = None
            if not self._is_over():
                seconds = self.config.retry_interval
                text = f"{error}; the next try is in {seconds:.3g} s"
                self._become(State.MASTER_GONE, text)
        self._pause(self.config.retry_interval)

    def _follow_once(self) -> None:
        """Ask the broker, connect, and feed until the connection ends, which it does by an error.

        Raises:
            BrokerError: the broker is gone; it is tried again.
            TransferError: what came are not the bytes of a master; it is tried again.
            FollowEndedError: it cannot be followed any more.
            ReputError: the store refuses.
        """
        with self._changed:
            if self._state is not State.MASTER_GONE:
                self._become(State.CONNECTING, "")
        broker = self._reached()
        facts = broker.facts()
        own = self._own()
        check_broker(facts, own, self.config)
        self._check_metadata()
        if self.config.acknowledge:
            # The first report acknowledges what is below it.
            self.store.wait_flushed(self.store.log.max_physical_offset)
        own = self._own()
        found = broker.log_range()
        check_range(own, found)
        wanted = first_report(own, found, self.config)
        with self._changed:
            self._facts = facts
            self._meter.restart()
            self._meter.saw(self._clock(), found.max_offset, own.end_offset)
        if facts.waits_for_slaves and (own.is_empty or not self.config.acknowledge):
            # The first report acknowledges what is below it, which an observer does not promise to
            # keep, and an empty store does not have. No producer waits for that any more then.
            self._pause(self.config.settle_time)
        if self._is_over():
            return
        ha = self.config.ha_address
        address = (broker.address[0], facts.ha_port) if ha is None else parse_address(ha)
        with HaConnection(address, self.config.ask_timeout) as connection:
            with self._changed:
                self._connection = connection
                self._connection_count += 1
                self._wanted = wanted
                self._trouble = ""  # the broker has answered
                self._changed.notify_all()
            try:
                self._feed_from(connection, wanted, own)
            finally:
                with self._changed:
                    self._connection = None

    def _reached(self) -> Broker:
        """Return the broker, by the address that it has now."""
        address = self.source.find(self.config.ask_timeout)
        with self._changed:
            broker = self._broker
            if broker is None or broker.address != address:
                broker = self._broker = Broker(address, self.config.ask_timeout, self._clock)
                self._changed.notify_all()
            return broker

    def _own(self) -> Own:
        store = self.store
        log = store.log
        return Own(
            min_offset=log.min_physical_offset,
            end_offset=store.fed_offset,
            flushed_offset=store.flushed_offset,
            file_size=log.file_size,
            is_empty=not len(log.file_offsets),
            master=store.master,
        )

    def _check_metadata(self) -> None:
        if self.config.metadata and "consumer" in self.store.plugin_objects:
            raise FollowEndedError(
                State.REFUSED,
                "the plugin consumer keeps topics, groups and offsets of the store itself",
                "follow without --metadata, or into a store that does not use this plugin",
            )

    def _feed_from(self, connection: HaConnection, wanted: int, own: Own) -> None:
        config, clock = self.config, self._clock
        session = Session(config.acknowledge, config.report_interval, config.silence)
        connection.send(session.begin(wanted, clock()))
        following = wanted
        while not self._is_over():
            now = clock()
            report = session.report(self.store.flushed_offset, now)
            if report is not None:
                connection.send(report)
            transfers = connection.read(session.wait_seconds(now))
            if transfers is None:
                if session.is_silent(clock()):
                    raise BrokerError(connection.name, f"no byte came in {config.silence:.3g} s")
                continue
            session.heard(clock())
            for transfer in transfers:
                if transfer.physical_offset != following:
                    self._raise_jump(connection, transfer, following)
                if self._is_over():
                    return
                if transfer.data:
                    self._feed(transfer)
                    following = transfer.end_offset
                session.received(following)
                self._note(transfer, is_compared=following >= own.end_offset)
            if config.acknowledge and transfers:
                # A replica's report promises that a loss of power costs none of it. Transfers
                # that come meanwhile are one larger batch.
                self.store.wait_flushed(self.store.log.max_physical_offset)

    def _raise_jump(self, connection: HaConnection, transfer: Transfer, following: int) -> NoReturn:
        raise TransferError(
            connection.name, 0, f"offset {transfer.physical_offset}", f"offset {following}"
        )

    def _feed(self, transfer: Transfer) -> None:
        offset, data = transfer.physical_offset, transfer.data
        if offset == 1 and not self.store.fed_offset:
            # Offset 0 cannot be asked for. Its byte is the high one of a record's size, so 0. It is
            # lacking as long as no record was taken, also if the file exists.
            offset, data = 0, b"\0" + data
        try:
            self.store.feed(offset, data)
        except CorruptFeedError as error:
            at, count = self._corrupt
            count = count + 1 if at == error.physical_offset else 1
            self._corrupt = error.physical_offset, count
            if count >= _CORRUPT_MAX:
                advice = "check the master's log there; `reput verify` checks a copy of its files"
                raise FollowEndedError(State.CORRUPT, str(error), advice) from error
            raise

    def _note(self, transfer: Transfer, *, is_compared: bool) -> None:
        with self._changed:
            self._received_size += len(transfer.data)
            self._wanted = transfer.end_offset
            if is_compared and self._state is not State.FOLLOWING:
                self._become(State.FOLLOWING, "")
            self._changed.notify_all()

    # ------------------------------------------------------------------ the other questions

    def _ask(self) -> None:
        """Ask for the extent of the master's log, and for metadata, while connected."""
        saved_at: float | None = None
        while not self._is_over():
            with self._changed:
                while self._connection is None and not self._is_over():
                    self._changed.wait()
                broker = self._broker
            if broker is not None and not self._is_over():
                try:
                    self._ask_range(broker)
                    now = self._clock()
                    is_due = saved_at is None or now - saved_at >= self.config.metadata_interval
                    if self.config.metadata and is_due:
                        kept = "schedule" in self.store.plugin_objects
                        save_metadata(broker, self.store.root, with_delays=not kept)
                        saved_at = now
                        with self._changed:
                            self._metadata_count += 1
                            self._changed.notify_all()
                except FollowEndedError as error:
                    self._end(error)
                except (FollowError, OSError) as error:
                    self._note_trouble(f"the broker was not asked: {error}; it is asked again")
                else:
                    self._note_trouble("")
            self._pause(self.config.ask_interval)

    def _note_trouble(self, text: str) -> None:
        """Show what is wrong beside the HA connection."""
        with self._changed:
            if text != self._trouble:
                logger.info("follower trouble=%s source=%s", text or "none", self.source)
                self._trouble = text
                self._changed.notify_all()

    def _ask_range(self, broker: Broker) -> None:
        with self._changed:
            connection = self._connection
        before = self._own()
        found = broker.log_range()
        after = self._own()
        # What the store had before the question, the master must have; and what the store still
        # lacks after the answer, too.
        check_range(before, LogRange(0, found.max_offset))
        check_range(after, LogRange(found.min_offset, max(found.max_offset, after.end_offset)))
        with self._changed:
            self._meter.saw(self._clock(), found.max_offset, after.end_offset)
            self._changed.notify_all()
            wanted, is_same = self._wanted, connection is self._connection
        if connection is not None and is_same and wanted < found.min_offset:
            # It would send heartbeats for ever. The store does not need these bytes, which were to
            # be compared, or it is empty: the next report names an offset that the master has.
            connection.abort(
                f"the master removed its log below {found.min_offset} while offset {wanted} was "
                "asked for"
            )

    def _record_size(self, plugins: Sequence[PluginState]) -> float | None:
        """Return about how many bytes a record has, by what the plugins were given."""
        for each in plugins:
            size = each.dispatched_to - self._begun_at.get(each.name, 0)
            if each.message_count and size > 0:
                return size / each.message_count
        return None


def _without_advice(error: ReputError) -> str:
    return str(error).partition(". Nothing was changed")[0]
