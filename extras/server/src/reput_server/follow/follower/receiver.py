"""`Receiver`: feeds the store with what a connection to the master brings.

Source: RocketMQ ``DefaultHAClient``. Different on purpose: the store's last bytes are compared
with the master's on each connection, an observer acknowledges nothing, and a difference ends it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs

from reput.errors import ReputError
from reput_client.remoting import AddressError, TransferError
from reput_server.follow.errors import (
    BrokerError,
    CorruptFeedError,
    DivergedError,
    FeedGapError,
)
from reput_server.follow.follower.metadata import save_metadata
from reput_server.follow.follower.startoffset import Own, check_broker, check_range, first_report
from reput_server.follow.follower.states import FollowEndedError, State
from reput_server.follow.replication.hakeepalive import HaKeepAlive

if TYPE_CHECKING:
    from reput_client.remoting import Transfer
    from reput_server.follow.config import FollowConfig
    from reput_server.follow.follower.replicafeed import ReplicaFeed
    from reput_server.follow.follower.sharedstate import SharedState
    from reput_server.follow.follower.source import AnySource, Connection, Master

_CORRUPT_MAX: Final = 3
"""How often bytes that hold no valid record are fetched again before the follower ends."""


@attrs.define(eq=False)
class Receiver:
    """Connects to the master again and again, on a thread of its own."""

    feed: ReplicaFeed
    source: AnySource
    config: FollowConfig
    shared: SharedState
    _corrupt: tuple[int, int] = attrs.field(init=False, default=(-1, 0))
    """An offset, and how often it was corrupt."""

    def run(self) -> None:
        """Append what the master sends until the follower ends."""
        shared = self.shared
        while not shared.is_over():
            try:
                self._follow_once()
            except FollowEndedError as error:
                shared.end(error)
            except (BrokerError, TransferError, FeedGapError, CorruptFeedError) as error:
                self._retry(error)
            except AddressError as error:
                advice = "name the address of the HA port as HOST:PORT"
                shared.end(FollowEndedError(State.REFUSED, f"ha_address: {error}", advice))
            except DivergedError as error:
                advice = "compare both logs, then begin with a new directory, or promote this one"
                shared.end(FollowEndedError(State.DIVERGED, _without_advice(error), advice))
            except (ReputError, OSError) as error:
                advice = "repair what it names, and start again; nothing of the master is lost"
                shared.end(FollowEndedError(State.STORE_FAILED, str(error), advice))

    def _retry(self, error: ReputError) -> None:
        shared, seconds = self.shared, self.config.retry_interval
        with shared.changed:
            shared.connection = None
            if not shared.is_over():
                text = f"{error}; the next try is in {seconds:.3g} s"
                shared.become(State.MASTER_GONE, text)
        shared.pause(seconds)

    def _follow_once(self) -> None:
        """Connect, and append until the connection ends, which it does by an error.

        Raises:
            BrokerError: the broker is gone; it is tried again.
            TransferError: what came are not the bytes of a master; it is tried again.
            FollowEndedError: it cannot be followed any more.
            ReputError: the store refuses.
        """
        shared, config = self.shared, self.config
        with shared.changed:
            if shared.state is not State.MASTER_GONE:
                shared.become(State.CONNECTING, "")
        master = self._reached()
        facts = master.facts()
        own = Own.of(self.feed)
        check_broker(facts, own, config)
        self._check_metadata()
        if config.acknowledge:
            # The first report acknowledges what is below it.
            self.feed.store.wait_flushed(self.feed.store.log.max_physical_offset)
        own = Own.of(self.feed)
        found = master.log_range()
        check_range(own, found)
        wanted = first_report(own, found, config)
        with shared.changed:
            shared.facts = facts
            shared.meter.restart()
            shared.meter.saw(shared.clock(), found.max_offset, own.end_offset)
        if facts.waits_for_slaves and (own.is_empty or not config.acknowledge):
            # The first report acknowledges what is below it, which an observer does not promise to
            # keep, and an empty store does not have. No producer waits for that any more then.
            shared.pause(config.settle_time)
        if shared.is_over():
            return
        if config.metadata and own.is_empty:
            # A topic's kind of queues must be known before its first record is dispatched.
            save_metadata(master, self.feed.store)
        with master.connect(facts, config) as connection:
            with shared.changed:
                shared.connection = connection
                shared.connection_count += 1
                shared.wanted = wanted
                shared.trouble = ""  # the broker has answered
                shared.changed.notify_all()
            try:
                self._feed_from(connection, wanted, own)
            finally:
                with shared.changed:
                    shared.connection = None

    def _reached(self) -> Master:
        """Return the master, where it is now."""
        shared, before = self.shared, self.shared.master
        found = self.source.reach(self.config.ask_timeout, shared.clock, before)
        if found is not before:
            with shared.changed:
                shared.master = found
                shared.changed.notify_all()
            if before is not None:
                before.close()
        return found

    def _check_metadata(self) -> None:
        if self.config.metadata and "consumer" in self.feed.store.plugin_objects:
            raise FollowEndedError(
                State.REFUSED,
                "the plugin consumer keeps topics, groups and offsets of the store itself",
                "follow without --metadata, or into a store that does not use this plugin",
            )

    def _feed_from(self, connection: Connection, wanted: int, own: Own) -> None:
        config, shared = self.config, self.shared
        clock = shared.clock
        session = HaKeepAlive(config.acknowledge, config.report_interval, config.silence)
        connection.send(session.begin(wanted, clock()))
        following = wanted
        while not shared.is_over():
            now = clock()
            report = session.report(self.feed.store.flushed_offset, now)
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
                    found = f"offset {transfer.physical_offset}"
                    raise TransferError(connection.name, 0, found, f"offset {following}")
                if shared.is_over():
                    return
                if transfer.data:
                    self._feed(transfer)
                    following = transfer.end_offset
                session.received(following)
                self._note(transfer, is_compared=following >= own.end_offset)
            if config.acknowledge and transfers:
                # A replica's report promises that a loss of power costs none of it. Transfers
                # that come meanwhile are one larger batch.
                self.feed.store.wait_flushed(self.feed.store.log.max_physical_offset)

    def _feed(self, transfer: Transfer) -> None:
        offset, data = transfer.physical_offset, transfer.data
        if offset == 1 and not self.feed.fed_offset:
            # Offset 0 cannot be requested. Its byte is the high one of a record's size, so 0. It is
            # lacking as long as no record was taken, also if the file exists.
            offset, data = 0, b"\0" + data
        try:
            self.feed.feed(offset, data)
        except CorruptFeedError as error:
            at, count = self._corrupt
            count = count + 1 if at == error.physical_offset else 1
            self._corrupt = error.physical_offset, count
            if count >= _CORRUPT_MAX:
                advice = "check the master's log there; `reput verify` checks a copy of its files"
                raise FollowEndedError(State.CORRUPT, str(error), advice) from error
            raise

    def _note(self, transfer: Transfer, *, is_compared: bool) -> None:
        shared = self.shared
        with shared.changed:
            shared.received_size += len(transfer.data)
            shared.wanted = transfer.end_offset
            if is_compared and shared.state is not State.FOLLOWING:
                shared.become(State.FOLLOWING, "")
            shared.changed.notify_all()


def _without_advice(error: ReputError) -> str:
    return str(error).partition(". Nothing was changed")[0]
