"""`MasterPoller`: requests the end of the master's log, and its metadata."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from reput.errors import ReputError
from reput_server.follow.brokerclient.brokerfacts import LogRange
from reput_server.follow.follower.metadata import save_metadata
from reput_server.follow.follower.startoffset import Own, check_range
from reput_server.follow.follower.states import FollowEndedError

if TYPE_CHECKING:
    from reput_server.follow.config import FollowConfig
    from reput_server.follow.follower.replicafeed import ReplicaFeed
    from reput_server.follow.follower.sharedstate import SharedState
    from reput_server.follow.follower.source import Master


@attrs.define(eq=False)
class MasterPoller:
    """Polls the master while the receiver is connected, on a thread of its own."""

    feed: ReplicaFeed
    config: FollowConfig
    shared: SharedState

    def run(self) -> None:
        """Poll until the follower ends."""
        shared = self.shared
        saved_at: float | None = None
        while not shared.is_over():
            with shared.changed:
                while shared.connection is None and not shared.is_over():
                    shared.changed.wait()
                master = shared.master
            if master is not None and not shared.is_over():
                try:
                    self._ask_range(master)
                    now = shared.clock()
                    is_due = saved_at is None or now - saved_at >= self.config.metadata_interval
                    if self.config.metadata and is_due:
                        self._save(master)
                        saved_at = now
                except FollowEndedError as error:
                    shared.end(error)
                except (ReputError, OSError) as error:
                    shared.note_trouble(f"the broker was not asked: {error}; it is asked again")
                else:
                    shared.note_trouble("")
            shared.pause(self.config.ask_interval)

    def _save(self, master: Master) -> None:
        save_metadata(master, self.feed.store)
        with self.shared.changed:
            self.shared.metadata_count += 1
            self.shared.changed.notify_all()

    def _ask_range(self, master: Master) -> None:
        shared = self.shared
        with shared.changed:
            connection = shared.connection
        before = Own.of(self.feed)
        found = master.log_range()
        after = Own.of(self.feed)
        # What the store had before the question, the master must have; and what the store still
        # lacks after the answer, too.
        check_range(before, LogRange(0, found.max_offset))
        check_range(after, LogRange(found.min_offset, max(found.max_offset, after.end_offset)))
        with shared.changed:
            shared.meter.saw(shared.clock(), found.max_offset, after.end_offset)
            shared.changed.notify_all()
            wanted, is_same = shared.wanted, connection is shared.connection
        if connection is not None and is_same and wanted < found.min_offset:
            # It would send heartbeats for ever. The store does not need these bytes, which were to
            # be compared, or it is empty: the next report names an offset that the master has.
            connection.abort(
                f"the master removed its log below {found.min_offset} while offset {wanted} was "
                "asked for"
            )
