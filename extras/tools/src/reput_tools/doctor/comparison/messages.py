"""Matches the messages of two logs while both are read once, and compares what matches.

Where both logs have the same bytes at the same places, only one is decoded. Elsewhere rows of both
are matched by topic, queue and queue offset; a row without its like waits, in memory and from some
number on in files, until its like is read or both logs end.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from typing import TYPE_CHECKING, Final

import attrs
import numpy as np

from reput_tools.doctor.comparison.records import changed_fields, differing, property_names
from reput_tools.doctor.comparison.rows import CODE, NO_ROWS, OFFSET, PLACE, SIZE, matched
from reput_tools.doctor.comparison.storediff import LISTED_MAX, ChangedMessage, MissingMessages

if TYPE_CHECKING:
    import numpy.typing as npt

    from reput.record import DispatchBatch
    from reput_tools.doctor.comparison.logcursor import LogCursor
    from reput_tools.doctor.comparison.rows import QueueCodes
    from reput_tools.doctor.comparison.spill import Spill

WAITING_MAX: Final = 2_000_000
"""Rows that wait in memory, of both logs together."""
_FEW: Final = 1 << 16
"""Rows that are matched with each new batch; more of them are matched now and then."""
_CHUNK_BYTES: Final = 8 << 20
_CHUNK_ROWS: Final = 1 << 14


@attrs.define(eq=False)
class MessageComparison:
    """One comparison; `run` reads both logs, then the other attributes tell what differs."""

    a: LogCursor
    b: LogCursor
    codes: QueueCodes
    spill: Spill
    physical: bool = False
    ignored: Collection[str] = ()
    waiting_max: int = WAITING_MAX
    progress: Callable[[int], None] = lambda done: None
    """Called with the bytes of both logs that were read."""

    equal_count: int = 0
    moved_count: int = 0
    changed_count: int = 0
    fields: dict[str, int] = attrs.field(factory=dict)
    changed: list[ChangedMessage] = attrs.field(factory=list)
    missing: list[MissingMessages] = attrs.field(factory=list)
    missing_count: dict[str, int] = attrs.field(factory=lambda: {"a": 0, "b": 0})
    was_spilled: bool = False
    _last_end: int = -1
    """Where the last record of ``a`` ends that was compared as bytes."""
    _joined: int = 0
    """Rows that waited when they were matched last."""
    _wants_b: bool = True
    """Whether the next step reads ``b`` as well; not while ``a`` catches up with it."""
    _wants_a: bool = True

    def run(self) -> None:
        """Read both logs to their ends."""
        first_a, first_b = self.a.position, self.b.position
        while self._step():
            done = max(self.a.position - first_a, 0) + max(self.b.position - first_b, 0)
            self.progress(done)
        for rows_a, rows_b in self._rest():
            own, its = self._match(rows_a, rows_b)
            self._miss("a", _without(rows_a, own))
            self._miss("b", _without(rows_b, its))

    def _step(self) -> bool:
        """Read a batch of each log; whether there was any."""
        a, b = self.a, self.b
        batch_a = a.next() if self._wants_a else None
        if batch_a is not None and self._same_bytes(batch_a):
            return True
        rows_a = NO_ROWS if batch_a is None else a.maker.rows(batch_a)
        batch_b = b.next() if self._wants_b else None
        rows_b = NO_ROWS if batch_b is None else b.maker.rows(batch_b)
        if batch_a is None and batch_b is None:
            if self._wants_a and self._wants_b:
                return False
            self._wants_a = self._wants_b = True
            return True
        self._take(rows_a, rows_b)
        return True

    def _same_bytes(self, batch: DispatchBatch) -> bool:
        """Whether ``b`` has the bytes of a batch of ``a`` at the same place; then it is counted."""
        a, b = self.a, self.b
        if a.waiting_count or b.waiting_count or batch.finding is not None or b.position < 0:
            return False
        start = batch.start_offset
        end = batch.base_offset + int(batch.start[-1] + batch.size[-1])
        if b.position != start and not (
            b.position == self._last_end and a.follows_blank(b, b.position, start)
        ):
            return False
        first = start - batch.base_offset
        if not b.holds(start, batch.window[first : first + end - start]):
            return False
        rows = a.maker.rows(batch)
        b.maker.repeat(rows)
        b.skip_to(end)
        self._last_end = end
        self.equal_count += len(rows)
        return True

    # ------------------------------------------------------------------ matching

    def _take(self, rows_a: npt.NDArray[np.int64], rows_b: npt.NDArray[np.int64]) -> None:
        """Match new rows with each other and with waiting ones."""
        a, b = self.a, self.b
        waited_a, waited_b = a.waiting_count, b.waiting_count
        a.wait(rows_a)
        b.wait(rows_b)
        count = a.waiting_count + b.waiting_count
        if count > _FEW and count < 2 * self._joined and count < self.waiting_max:
            return
        all_a, all_b = a.take_waiting(), b.take_waiting()
        own, its = self._match(all_a, all_b)
        rest_a, rest_b = _without(all_a, own), _without(all_b, its)
        # The log whose new rows find their like among rows that waited is behind: only this one is
        # read, until it has caught up, so that what matches is in memory at the same time.
        late_a = int(((own >= waited_a) & (its < waited_b)).sum())
        late_b = int(((own < waited_a) & (its >= waited_b)).sum())
        self._wants_b = not (late_a > len(rows_a) // 2 and len(rest_b) > len(rows_a))
        self._wants_a = not (late_b > len(rows_b) // 2 and len(rest_a) > len(rows_b))
        if not (self._wants_a or self._wants_b):
            self._wants_a = self._wants_b = True
        if len(rest_a) + len(rest_b) > self.waiting_max:
            self.was_spilled = True
            self.spill.add(0, rest_a)
            self.spill.add(1, rest_b)
            rest_a = rest_b = NO_ROWS
        a.wait(rest_a)
        b.wait(rest_b)
        self._joined = len(rest_a) + len(rest_b)

    def _match(
        self, rows_a: npt.NDArray[np.int64], rows_b: npt.NDArray[np.int64]
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Compare rows that match; return their places in both."""
        own, its = matched(rows_a, rows_b)
        self._compare(rows_a[own], rows_b[its])
        return own, its

    def _rest(self) -> Iterator[tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]]:
        rows_a, rows_b = self.a.take_waiting(), self.b.take_waiting()
        if not self.was_spilled:
            yield rows_a, rows_b
            return
        self.spill.add(0, rows_a)
        self.spill.add(1, rows_b)
        yield from self.spill.parts()

    # ------------------------------------------------------------------ comparing

    def _compare(self, rows_a: npt.NDArray[np.int64], rows_b: npt.NDArray[np.int64]) -> None:
        """Compare pairs of rows."""
        if not len(rows_a):
            return
        here = self.a.in_window(rows_a) & self.b.in_window(rows_b)
        if here.any():
            own, its = rows_a[here], rows_b[here]
            self._compare_bytes(own, its, self.a.window(own), self.b.window(its))
        for part in _chunks(rows_a[:, SIZE] + rows_b[:, SIZE], np.flatnonzero(~here)):
            own, its = rows_a[part], rows_b[part]
            self._compare_bytes(own, its, self.a.fetch(own), self.b.fetch(its))

    def _compare_bytes(
        self,
        rows_a: npt.NDArray[np.int64],
        rows_b: npt.NDArray[np.int64],
        bytes_a: tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]],
        bytes_b: tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]],
    ) -> None:
        window_a, starts_a = bytes_a
        window_b, starts_b = bytes_b
        unlike = differing(
            window_a,
            starts_a,
            rows_a[:, SIZE],
            window_b,
            starts_b,
            rows_b[:, SIZE],
            physical=self.physical,
        )
        is_moved = rows_a[:, PLACE] != rows_b[:, PLACE]
        is_moved[unlike] = False
        self.moved_count += int(is_moved.sum())
        self.equal_count += len(rows_a) - len(unlike)
        for part in _chunks(rows_a[:, SIZE] + rows_b[:, SIZE], unlike):
            self._name(
                rows_a[part],
                rows_b[part],
                _records(window_a, starts_a[part], rows_a[part, SIZE]),
                _records(window_b, starts_b[part], rows_b[part, SIZE]),
            )

    def _name(
        self,
        rows_a: npt.NDArray[np.int64],
        rows_b: npt.NDArray[np.int64],
        records_a: list[bytes],
        records_b: list[bytes],
    ) -> None:
        """Count what differs in pairs that do, and list the first ones."""
        found = changed_fields(records_a, records_b, physical=self.physical)
        found = {name: rows for name, rows in found.items() if name not in self.ignored}
        is_changed = np.zeros(len(rows_a), np.bool_)
        for name, rows in found.items():
            is_changed |= rows
            self.fields[name] = self.fields.get(name, 0) + int(rows.sum())
        count = int(is_changed.sum())
        self.changed_count += count
        self.equal_count += len(rows_a) - count
        room = LISTED_MAX - len(self.changed)
        for row in np.flatnonzero(is_changed)[: max(room, 0)].tolist():
            topic, queue_id, _ = self.codes.queues[int(rows_a[row, CODE])]
            names = tuple(name for name, rows in found.items() if rows[row])
            text = property_names(records_a[row], records_b[row]) if "properties" in names else ()
            self.changed.append(
                ChangedMessage(
                    topic=topic,
                    queue_id=queue_id,
                    queue_offset=int(rows_a[row, OFFSET]),
                    fields=names,
                    properties=text,
                    physical_offset_a=int(rows_a[row, PLACE]),
                    physical_offset_b=int(rows_b[row, PLACE]),
                )
            )

    def _miss(self, side: str, rows: npt.NDArray[np.int64]) -> None:
        """Count rows without their like, and list the first runs of them."""
        self.missing_count[side] += len(rows)
        if not len(rows):
            return
        rows = rows[np.lexsort((rows[:, OFFSET], rows[:, CODE]))]
        breaks = (rows[1:, CODE] != rows[:-1, CODE]) | (rows[1:, OFFSET] > rows[:-1, OFFSET] + 1)
        starts = [0, *(np.flatnonzero(breaks) + 1).tolist()]
        ends = [*starts[1:], len(rows)]
        listed = sum(1 for each in self.missing if each.side == side)
        for start, end in list(zip(starts, ends, strict=True))[: max(LISTED_MAX - listed, 0)]:
            topic, queue_id, in_queue = self.codes.queues[int(rows[start, CODE])]
            self.missing.append(
                MissingMessages(
                    side=side,
                    topic=topic,
                    queue_id=queue_id,
                    first=int(rows[start, OFFSET]),
                    last=int(rows[end - 1, OFFSET]),
                    count=end - start,
                    in_queue=in_queue,
                    physical_offset=int(rows[start, PLACE]),
                )
            )


def _without(rows: npt.NDArray[np.int64], places: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    left = np.ones(len(rows), np.bool_)
    left[places] = False
    return rows[left]


def _chunks(
    sizes: npt.NDArray[np.int64], places: npt.NDArray[np.int64]
) -> Iterator[npt.NDArray[np.int64]]:
    """Divide places into parts whose records fit into memory together."""
    if not len(places):
        return
    total = np.cumsum(sizes[places])
    part = np.maximum(total // _CHUNK_BYTES, np.arange(len(places)) // _CHUNK_ROWS)
    # Both numbers ascend, so their maximum does.
    breaks = np.flatnonzero(part[1:] != part[:-1]) + 1
    yield from np.split(places, breaks.tolist())


def _records(
    window: npt.NDArray[np.uint8],
    starts: npt.NDArray[np.int64],
    sizes: npt.NDArray[np.int64],
) -> list[bytes]:
    return [
        window[start : start + size].tobytes()
        for start, size in zip(starts.tolist(), sizes.tolist(), strict=True)
    ]
