"""`StoreLog`: the log of an open store, which another process may be writing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from reput.log.reader.logreader import LogReader

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from reput.files.mappedfilequeue import MappedFileQueue
    from reput.log.config import CommitLogConfig
    from reput.log.damage import Damage
    from reput.log.lossledger import LossLedger
    from reput.log.reader.batchreader import CheckedRanges
    from reput.log.reader.logend import LogEnd, Tail
    from reput.log.reader.logreader import Ending

__all__ = ["StoreLog"]


class StoreLog(LogReader):
    """The log of a read-only store; `reput.log.writer.commitlog.CommitLog` is a writable store's.

    Args: those of `LogReader`, and
        config: the log's options.
        master: whose bytes the log is fed with; None if it takes puts.
    """

    def __init__(
        self,
        files: MappedFileQueue,
        config: CommitLogConfig,
        *,
        end: LogEnd,
        ledger: LossLedger | None = None,
        damages: Sequence[Damage] = (),
        tail: Tail | None = None,
        checked: CheckedRanges | None = None,
        master: str | None = None,
        appender: Ending | None = None,
    ) -> None:
        super().__init__(
            files,
            config.window_size,
            ledger=ledger,
            end=end,
            damages=damages,
            keeps_records_after_damage=config.recovery == "reput",
            follows=appender is None,
            appender=appender,
            tail=tail,
            checked=checked,
        )
        self.config = config
        self.master = master
        """Name of the master of a replica; None in a store that takes puts."""
        self._end = end

    @property
    def flushed_offset(self) -> int:
        """Physical offset below which everything counts as on disk."""
        return self._end.offset

    @property
    def last_record_offset(self) -> int:
        """Where the newest record begins, at the opening of a read-only store; -1 if not known."""
        return self._end.last_record_offset

    @property
    def queue_offsets(self) -> dict[tuple[str, int], int] | None:
        """The next queue offset of every queue; None if no put of this process gives any."""
        return None

    def hide_light_queues(self, ends: Mapping[str, int]) -> None:
        """See `reput.plugin.StoreContext.hide_light_queues`: no put counts them."""

    def flush_facts(self) -> dict[str, Any]:
        """Return facts about waits for the disk; none of a log that is only read."""
        return {}
