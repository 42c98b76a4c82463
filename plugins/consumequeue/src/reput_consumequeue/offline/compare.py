"""Compare queues with the log, as far as the log determines their units.

Three things it does not determine: units of messages that the log lost with its head, or the blank
units in their place; deliver times of delayed messages, if the delays of the levels are not known;
and bit maps of extend units, as the filters registered when a message came are recorded nowhere,
and the position of an extend unit depends on the bit maps before it. Everything else is compared,
including the contents of extend units.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

import attrs
import numpy as np

from reput.record import fixed_rows
from reput_consumequeue.extend.layout import (
    EXTEND_DIRECTORY,
    EXTEND_DTYPE,
    EXTEND_HEAD_SIZE,
    is_address,
    positions_of,
)
from reput_consumequeue.layout import DIRECTORY, PRE_BLANK_SIZE, UNIT_DTYPE, UNIT_SIZE
from reput_consumequeue.offline.aligned import aligned_differences
from reput_consumequeue.offline.batchcompare import batch_differences, is_of_batches
from reput_consumequeue.offline.explain import MESSAGES_MAX, message_of
from reput_consumequeue.queuefiles import unit_file_size
from reput_tools.offline import Compared, Comparison, Difference, TouchedMessage

if TYPE_CHECKING:
    import numpy.typing as npt

    from reput.files import Disk

    Units = npt.NDArray[np.void]
    Rows = npt.NDArray[np.bool_]

_DELAY_TOPIC: Final = "SCHEDULE_TOPIC_XXXX"
_DELAY_PLUGIN: Final = "schedule"
_TAGS_AT: Final = UNIT_DTYPE.fields["tags_code"][1]  # type: ignore[index]
_BYTES: Final = "bytes differ from the bytes that the log gives"
_EXTEND: Final = "it does not lead to an extend unit with the content that the log gives"
_NO_EXTEND: Final = "it has no extend units where units of the queue lead to"
_LOST_MAX: Final = 10_000  # messages that the log has lost, and that are named
_FILES_IN_FULL: Final = 100  # files all of whose differences are found, as far as wanted
_NOT_LED_TO: Final = "no unit of the queue leads into this file"
_TOO_MUCH: Final = "nothing in the log leads to this unit"


def weigh(comparison: Comparison, differences: Sequence[Difference]) -> Compared:
    """Compare the queues that differ unit by unit; see `reput_tools.offline.hookspecs`."""
    queues: dict[tuple[str, str], list[Difference]] = {}
    batches = [each for each in differences if is_of_batches(each)]
    counted = list(batch_differences(comparison, batches))
    for each in differences:
        if is_of_batches(each):
            continue
        steps = each.path.split("/")
        if len(steps) == 4 and len(steps[3]) == 20 and steps[3].isdigit():
            queues.setdefault((steps[1], steps[2]), []).append(each)
        else:
            counted.append(each)  # not a file of a queue
    skipped: Counter[str] = Counter()
    lost: list[TouchedMessage] = []
    left = _FILES_IN_FULL * comparison.limit
    for (topic, queue_id), own in sorted(queues.items()):
        queue = _Queue(comparison, topic, queue_id, skipped, lost, left)
        found = list(queue.differences())
        have_moved = any(each.size > UNIT_SIZE and each.kind == "unit" for each in found)
        if (
            have_moved
            and min(comparison.limit, queue.left) > 1
            and not comparison.is_partial
            and not queue.leads_to_extend
        ):
            found = [*(aligned_differences(comparison, (topic, queue_id)) or found)]
        left = min(queue.left, left - len(found))
        if queue.leads_to_extend:
            found += [] if found else queue.extend_files_after_end()
        else:
            # Extend files to which no unit leads; without addresses there should be none at all.
            strays = (each for each in own if each.path.startswith(f"{EXTEND_DIRECTORY}/"))
            found += [each for each in strays if comparison.disk.exists(_path(comparison, each))]
        counted += _limited(found, comparison.limit)
    low = comparison.log.min_physical_offset
    reasons = {
        "gone": f"units below physical offset {low}, where the log begins: its oldest files were "
        "removed",
        "times": f"deliver times in units of {_DELAY_TOPIC}: the store does not name the plugin "
        f"{_DELAY_PLUGIN}, so how long its levels delay is not known",
        "maps": "bit maps of extend units: the filters registered at that time are not known",
        "lost": "units of messages in damaged ranges of the log",
    }
    told = tuple(f"{skipped[kind]} {reason}" for kind, reason in reasons.items() if skipped[kind])
    counted.sort(key=lambda each: (each.path, each.position))
    return Compared(tuple(counted), told, tuple(lost))


def _limited(differences: Sequence[Difference], limit: int) -> Iterator[Difference]:
    """Yield the first ``limit`` differences of each file."""
    counts: Counter[str] = Counter()
    for each in differences:
        counts[each.path] += 1
        if counts[each.path] <= limit:
            yield each


def _path(comparison: Comparison, difference: Difference) -> str:
    return os.path.join(comparison.root, difference.path)


@attrs.define(eq=False)
class _Queue:
    """One queue, as it is in the store and as it was built from the log."""

    comparison: Comparison
    topic: str
    queue_id: str
    skipped: Counter[str]
    """Number of things not compared, by kind; added to."""
    lost: list[TouchedMessage]
    """Messages that the log has lost; added to."""
    left: int
    """Differences that are wanted beyond one of each file: memory is bounded over all files."""
    leads_to_extend: bool = False
    """Whether any of its units does, including units that are not compared."""
    _extend_end: int = 0
    """Position after the extend unit that was looked at last."""
    _last_offset: int = -1
    """Physical offset of the unit that led there: hole units repeat the unit after them."""
    _last_position: int = -1

    def differences(self) -> Iterator[Difference]:
        """Yield the differences of each file that count, `Comparison.limit` or a few more."""
        root, built = self.comparison.root, self.comparison.built
        found, wanted = self._files(root), self._files(built)
        first = self._first(wanted)
        for base in sorted({*found, *wanted}):
            size = max(found.get(base, 0), wanted.get(base, 0))
            size -= size % UNIT_SIZE
            own, other = self._units(root, base, size), self._units(built, base, size)
            skipped = min(max(first - base // UNIT_SIZE, 0), len(own))
            place = self._in_gone(own[:skipped], base // UNIT_SIZE)
            if place is not None:
                yield Difference(self._name(base), place, _TOO_MUCH, kind="unit", size=UNIT_SIZE)
                continue
            own, other = own[skipped:], other[skipped:]
            if base not in found:
                if other.view(np.uint8).any():
                    reason = "the file is missing"
                    yield Difference(
                        self._name(base), 0, reason, kind="missing", size=size, is_absent=True
                    )
                continue
            number = base // UNIT_SIZE + skipped
            for first_row, last, place, reason in self._in_units(own, other, number):
                if reason is _NO_EXTEND:
                    yield from self._without_extend(own[first_row : last + 1], number + first_row)
                    continue
                self.left -= 1
                yield Difference(
                    self._name(base),
                    skipped * UNIT_SIZE + place,
                    reason,
                    kind="unit",
                    size=(last + 1) * UNIT_SIZE - place,
                    is_absent=not own[first_row : last + 1].view(np.uint8).any(),
                )

    def _first(self, wanted: dict[int, int]) -> int:
        """Return the first unit that the log determines; 0 if its oldest file is there."""
        if self.comparison.log.min_physical_offset <= 0:
            return 0
        end = 0
        for base in sorted(wanted):
            units = self._units(self.comparison.built, base, wanted[base])
            there = np.flatnonzero(self._is_there(units))
            if len(there):
                return base // UNIT_SIZE + int(there[0])
            used = np.flatnonzero(units["size"])
            end = base // UNIT_SIZE + (int(used[-1]) + 1 if len(used) else 0)
        # The log has no message of the queue any more; only the queue's next offset is known.
        return end if wanted else np.iinfo(np.int64).max

    def _is_there(self, units: Units) -> Rows:
        """Return which units are of messages that the log should have."""
        rows: Rows = (units["size"] > 0) & (units["size"] != PRE_BLANK_SIZE)
        rows &= units["physical_offset"] >= self.comparison.log.min_physical_offset
        return rows

    def _in_gone(self, units: Units, number: int) -> int | None:
        """Find a unit before the first determined one that claims a message in the log.

        Args:
            units: those before it, in one file.
            number: queue offset of the first.
        """
        offsets = units["physical_offset"].astype(np.int64)
        lost = np.zeros(len(units), np.bool_)
        for start, end in self.comparison.damaged:  # files that no retention removed, perhaps
            lost |= (units["size"] > 0) & (offsets >= start) & (offsets < end)
        self._note_lost(units, np.flatnonzero(lost), number)
        self.skipped["gone"] += int(np.count_nonzero(units["size"])) - int(lost.sum())
        self.leads_to_extend |= bool(is_address(units["tags_code"].astype(np.int64)).any())
        wrong = np.flatnonzero(self._is_there(units))
        return int(wrong[0]) * UNIT_SIZE if len(wrong) else None

    def _in_units(
        self, own: Units, other: Units, number: int
    ) -> Iterator[tuple[int, int, int, str]]:
        """Yield first and last row, first byte and reason of each run of units that differ.

        Args:
            own: units of the store.
            other: units that were built.
            number: queue offset of the first.
        """
        places = (own["physical_offset"] != other["physical_offset"]) | (
            own["size"] != other["size"]
        )
        tags, absent = self._wrong_tags(own, other)
        tags &= ~places
        differs = places | tags
        if self.comparison.damaged:
            offsets = own["physical_offset"].astype(np.int64)
            lost = self.comparison.is_lost(offsets) & self._is_there(own)
            self._note_lost(own, np.flatnonzero(lost & differs), number)
            differs &= ~lost
        rows = np.flatnonzero(differs)
        if not len(rows):
            return
        breaks = np.flatnonzero(np.diff(rows) > 1)
        starts = rows[np.concatenate([[0], breaks + 1])]
        ends = rows[np.concatenate([breaks, [len(rows) - 1]])]
        limit = min(self.comparison.limit, max(self.left, 1))
        if len(starts) > limit:  # the last of them reaches to the end
            starts = starts[:limit]
            ends = np.concatenate([ends[: len(starts) - 1], ends[-1:]])
        for row, last in zip(starts.tolist(), ends.tolist(), strict=True):
            code = own["tags_code"][row : row + 1].astype(np.int64)
            if not (tags[row] and is_address(code)[0]):
                yield row, last, _first_byte(own, other, row), _BYTES
                continue
            # A file may end within the first of them.
            is_absent = absent[last] and absent[row + 1 : last + 1].all()
            reason = _NO_EXTEND if is_absent else _EXTEND
            yield row, last, row * UNIT_SIZE + _TAGS_AT, reason

    def _without_extend(self, units: Units, number: int) -> Iterator[Difference]:
        """Yield a difference for each extend file that ends, or is blank, where units lead.

        Args:
            units: ``(n,)``, one at least; they lead there.
            number: queue offset of the first.
        """
        files = self._files(self.comparison.root, EXTEND_DIRECTORY)
        queue = self.topic, self.queue_id
        positions = positions_of(units["tags_code"].astype(np.int64))
        bases = np.array(sorted(files) or [0], np.int64)
        of_file = np.maximum(np.searchsorted(bases, positions, "right") - 1, 0)
        for each in np.unique(of_file).tolist():
            rows = np.flatnonzero(of_file == each)
            base, first, last = int(bases[each]), int(positions[rows[0]]), int(positions[rows[-1]])
            size = files.get(base)
            is_cut = size is not None and first - base + EXTEND_HEAD_SIZE > size
            if size is None:
                found = "no file"
            else:
                found = f"end of file at byte {size}" if is_cut else "zeros"
            yield Difference(
                self._name(base, EXTEND_DIRECTORY),
                0 if size is None else first - base,
                _NO_EXTEND,
                kind="missing" if size is None else "unit",
                size=last - first + EXTEND_HEAD_SIZE,
                found=found,
                expected=f"{len(rows)} extend units, to which unit {number + int(rows[0])} of the "
                "queue and others lead",
                messages=tuple(
                    message_of(self.comparison, queue, units[row], number + row)
                    for row in rows[:MESSAGES_MAX].tolist()
                ),
                message_count=len(rows),
                is_absent=True,
            )

    def extend_files_after_end(self) -> Iterator[Difference]:
        """Yield extend files after the one with the queue's last extend unit, if that is known."""
        is_known = self._extend_end and not self.comparison.damaged
        files = self._files(self.comparison.root, EXTEND_DIRECTORY) if is_known else {}
        for base, size in files.items():
            if base >= self._extend_end:
                name = self._name(base, EXTEND_DIRECTORY)
                yield Difference(name, 0, _NOT_LED_TO, kind="extra", size=size)

    def _note_lost(self, own: Units, rows: npt.NDArray[np.intp], number: int) -> None:
        self.skipped["lost"] += len(rows)
        for row in rows[: _LOST_MAX - len(self.lost)].tolist():
            offset = int(own["physical_offset"][row])
            message = TouchedMessage(
                self.topic, int(self.queue_id), number + row, physical_offset=offset
            )
            self.lost.append(message)

    def _wrong_tags(self, own: Units, other: Units) -> tuple[Rows, Rows]:
        """Return which tags codes differ from what the log determines, and which lead to nothing.

        These are right, but their place in the extend files is blank or does not exist.
        """
        codes, built = (units["tags_code"].astype(np.int64) for units in (own, other))
        wrong: Rows = np.zeros(len(own), np.bool_)
        absent: Rows = np.zeros(len(own), np.bool_)
        rows = np.flatnonzero(is_address(codes) & (own["size"] > 0))
        if len(rows) or is_address(built).any():
            heads = self._heads(self.comparison.root, codes)
            built_heads = self._heads(self.comparison.built, built)
            self.leads_to_extend |= bool(len(rows))
            wrong = self._wrong_extend(own, rows, heads, built, built_heads)
            absent = is_address(codes) & (codes == built) & (heads["size"] == 0)
            codes = np.where(is_address(codes), heads["tags_code"], codes)
            built = np.where(is_address(built), built_heads["tags_code"], built)
        differs = codes != built
        if self.topic == _DELAY_TOPIC and _DELAY_PLUGIN not in self.comparison.plugins:
            self.skipped["times"] += int(np.count_nonzero(differs))
            differs = np.zeros(len(own), np.bool_)
        wrong |= differs
        return wrong, absent

    def _wrong_extend(
        self,
        own: Units,
        rows: npt.NDArray[np.intp],
        heads: Units,
        built: npt.NDArray[np.int64],
        built_heads: Units,
    ) -> Rows:
        """Return which units lead to something other than an extend unit of their message."""
        log = self.comparison.log
        wrong: Rows = np.zeros(len(own), np.bool_)
        addressed = is_address(built)
        for row in rows.tolist():
            head = heads[row]
            offset = int(own["physical_offset"][row])
            position = int(positions_of(own["tags_code"][row : row + 1].astype(np.int64))[0])
            size, map_size = int(head["size"]), int(head["bit_map_size"])
            timestamp = (
                int(built_heads["store_timestamp"][row])
                if addressed[row]
                else log.store_timestamp_at(offset)
            )
            # Extend units stand in the order of the units that lead to them.
            is_placed = position >= self._extend_end or (
                (offset, position) == (self._last_offset, self._last_position)
            )
            wrong[row] = not (
                is_placed
                and size == EXTEND_HEAD_SIZE + map_size
                and int(head["store_timestamp"]) == timestamp
            )
            if not wrong[row]:
                self._extend_end = position + size
                self._last_offset, self._last_position = offset, position
            self.skipped["maps"] += map_size > 0
        return wrong

    def _heads(self, root: str, codes: npt.NDArray[np.int64]) -> Units:
        """Return ``(n,)`` heads of extend units; zero for a unit that leads to none."""
        heads = np.zeros(len(codes), EXTEND_DTYPE)
        files = self._files(root, EXTEND_DIRECTORY)
        rows = np.flatnonzero(is_address(codes))
        positions = positions_of(codes[rows])
        for base, size in files.items():
            inside = (positions >= base) & (positions <= base + size - EXTEND_HEAD_SIZE)
            if inside.any():
                data = self._read(root, base, size, EXTEND_DIRECTORY)
                window = np.frombuffer(data.ljust(size, b"\0"), np.uint8)
                heads[rows[inside]] = fixed_rows(window, positions[inside] - base, EXTEND_DTYPE)
        return heads

    # ------------------------------------------------------------------ files

    def _name(self, base: int, kind: str = DIRECTORY) -> str:
        return f"{kind}/{self.topic}/{self.queue_id}/{base:020d}"

    def _files(self, root: str, kind: str = DIRECTORY) -> dict[int, int]:
        """Return the sizes of the queue's files, by the byte at which each begins."""
        entries = self._disk.list(os.path.join(root, kind, self.topic, self.queue_id))
        sizes = ((entry, unit_file_size(entry)) for entry in entries)
        return {int(entry.name): size for entry, size in sizes if size is not None}

    def _units(self, root: str, base: int, size: int) -> Units:
        """Return the units of a file; missing bytes count as zero."""
        data = self._read(root, base, size).ljust(size, b"\0")
        return np.frombuffer(data, UNIT_DTYPE, size // UNIT_SIZE)

    def _read(self, root: str, base: int, size: int, kind: str = DIRECTORY) -> bytes:
        try:
            descriptor = self._disk.open(os.path.join(root, self._name(base, kind)))
        except (FileNotFoundError, IsADirectoryError, NotADirectoryError):
            return b""
        try:
            return self._disk.read(descriptor, size, 0)
        finally:
            self._disk.close(descriptor)

    @property
    def _disk(self) -> Disk:
        return self.comparison.disk


def _first_byte(own: Units, other: Units, row: int) -> int:
    """Return the first byte in which two units differ, counted from the first unit of all."""
    pair = (np.frombuffer(units[row : row + 1].tobytes(), np.uint8) for units in (own, other))
    left, right = pair
    return row * UNIT_SIZE + int((left != right).argmax())
