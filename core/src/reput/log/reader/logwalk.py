"""`LogWalk`: the one way through a log: window after window, record after record, past damage.

What it means that no record begins where one should depends on who reads: for a reader that knows
the log's end it is damage; for recovery it may be the end; beside a writer it may be a record that
is still being written. A `DamagePolicy` decides, and the walk does the rest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import attrs

from reput.record.decode import End

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from reput.log.losses import Damage
    from reput.log.reader.batchreader import BatchReader
    from reput.record.batch import Corruption, DispatchBatch


@attrs.frozen
class NextRecord:
    """Where a log continues."""

    position: int
    """Physical offset: of a record, or of the start of a file."""
    damages: Sequence[Damage] = ()
    """What was skipped; none if the log is damaged nowhere before that offset."""


class DamagePolicy(Protocol):
    """What a walk does where no record begins."""

    def limit(self, position: int) -> int | None:
        """Return up to where to read from ``position`` on; None for the end of the files.

        The limit is the end of a record, or where one should end.
        """
        ...

    def past(self, at: int, finding: Corruption | None) -> NextRecord | None:
        """Return where the log continues after ``at``; None if it ends there.

        Asked when the records before ``at`` were taken from the walk.

        Args:
            at: where a record should begin, but none does: other bytes or zeros stand there, or the
                file does not exist.
            finding: what the decoder found there; None for zeros and for a missing file.
        """
        ...


class LogWalk:
    """One reading of a log, from a record's beginning on; for one thread.

    Iterating yields batches, some without rows, each valid until the next item is taken; and the
    damage between them.
    """

    def __init__(
        self,
        reader: BatchReader,
        start: int,
        policy: DamagePolicy,
        stop: int | None = None,
        *,
        follows: bool = False,
    ) -> None:
        """Walk from ``start`` on.

        Args:
            reader: reads the log's windows.
            start: where a record or a file begins.
            policy: decides where no record begins.
            stop: where to end; None to end where the log does.
            follows: whether another process may begin and remove files meanwhile.
        """
        self.position = start
        """Up to where the walk has come; after the last item, where the log ends."""
        self.finding: Corruption | None = None
        """What stands at the end; None for unwritten space, or the end of a file."""
        self.end = End.WINDOW
        """What stands at the end, a word of `End`."""
        self._reader = reader
        self._policy = policy
        self._stop = stop
        self._follows = follows

    def __iter__(self) -> Iterator[DispatchBatch | Damage]:
        files, stop = self._reader.files, self._stop
        while stop is None or self.position < stop:
            start = self.position
            result = self._reader.read(start, self._policy.limit(start))
            batch, at, finding = result.batch, result.batch.end_offset, result.batch.finding
            if self._follows and files.base_of(at) is None:
                files.refresh()  # another process may have begun this file
            is_closed = result.end == End.BLANK
            goes_on = at > start and (
                result.end == End.WINDOW or (is_closed and files.base_of(at) is not None)
            )
            # Where the next file was never made, the log ends before the blank; the next append
            # writes a blank again if it does not fit.
            self.position = _end_of(batch, start) if is_closed and not goes_on else at
            yield batch
            if goes_on:
                continue
            if self._follows and not files.has_first():
                files.refresh()
            if at < files.min_offset:
                self.position = files.min_offset  # no damage: old files were just removed
                continue
            if stop is not None and at >= stop:
                return
            onward = self._policy.past(at, finding)
            if onward is None:
                self.end, self.finding = result.end, finding
                return
            self.position = onward.position
            yield from onward.damages


def _end_of(batch: DispatchBatch, start: int) -> int:
    """Return the physical offset after the last record of ``batch``; ``start`` without one."""
    return batch.base_offset + int(batch.start[-1] + batch.size[-1]) if len(batch) else start
