"""`Wheel`: the slots in memory, how records change them, and their file.

Times are ticks here: ms divided by the precision. The wheel is 38.7 MB of zeros, of which the
system gives memory only to pages that are used.

A slot belongs to one tick. In RocketMQ the last record takes the slot, and pending messages of the
tick that had it are lost. Here the later tick gets the slot, and pending chains of the other tick
are kept `aside` in memory; the timer log can restore them. So the wheel is a function of the log
alone.

Not thread-safe: the timer's lock is held around every call.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from reput.files import create_temporary_file
from reput_schedule.timerwheel.layout import NO_POSITION, SLOT_COUNT, SLOT_DTYPE, SLOT_SIZE

if TYPE_CHECKING:
    import numpy.typing as npt

    from reput.files import Disk

    Integers = npt.NDArray[np.int64]

_PAGE_SIZE = 4096
_SLOTS_PER_PAGE = _PAGE_SIZE // SLOT_SIZE
_LOOK_AHEAD = (256, 1 << 16)  # slots examined in order before the whole wheel is


class Chain(NamedTuple):
    """Records of one tick, each of which leads to the next older one."""

    first: int
    """Timer-log position of the oldest record."""
    last: int
    """Timer-log position of the newest record."""
    message_count: int
    """Messages less cancellations."""


class Undo(NamedTuple):
    """The state of slots before records were put on them."""

    slots: Integers
    held: npt.NDArray[np.void]
    aside: dict[int, list[Chain]]


class Wheel:
    """The slots of the timer.

    Args:
        slot_count: how many slots; by default as many as RocketMQ has.
    """

    def __init__(self, slot_count: int = SLOT_COUNT) -> None:
        self.slot_count = slot_count
        self.read_tick = 0
        """Ticks below this one are delivered; their chains are not kept aside."""
        self.aside: dict[int, list[Chain]] = {}
        """Pending chains of ticks whose slot belongs to a later tick, oldest first."""
        self.clear()

    def clear(self) -> None:
        """Empty all slots; the next flush rewrites the file."""
        pages = -(-self.slot_count // _SLOTS_PER_PAGE)
        self._slots = np.zeros(pages * _SLOTS_PER_PAGE, SLOT_DTYPE)
        self._dirty = np.zeros(pages, np.bool_)
        self._used = np.zeros(pages, np.bool_)  # pages that may hold anything but zeros
        self._is_new = True
        self.aside.clear()

    @property
    def file_size(self) -> int:
        """Bytes of the file."""
        return self.slot_count * SLOT_SIZE

    # ------------------------------------------------------------------ adding

    def add(self, ticks: Integers, positions: Integers, deltas: Integers) -> Integers:
        """Put records on the wheel, in the order of the log.

        Args:
            ticks: ``(n,)``, 1 or more.
            positions: ``(n,)`` timer-log positions, ascending.
            deltas: ``(n,)``: 1, or -1 for a cancellation.

        Returns:
            ``(n,)`` int64: position of the previous record of each one's slot, or `NO_POSITION`.
        """
        slots = ticks % self.slot_count
        order = np.argsort(slots, kind="stable")
        slots, sorted_ticks, places = slots[order], ticks[order], positions[order]
        is_head = np.ones(len(order), np.bool_)
        is_head[1:] = slots[1:] != slots[:-1]
        heads = np.flatnonzero(is_head)
        sizes = np.diff(heads, append=len(order))
        previous = np.empty(len(order), np.int64)
        previous[1:] = places[:-1]
        wanted = sorted_ticks[heads]
        held = self._slots["tick"][slots[heads]].astype(np.int64)
        # Plain: all records of the slot are of one tick, and no chain of another tick is in it.
        plain = np.logical_and.reduceat(sorted_ticks == np.repeat(wanted, sizes), heads)
        plain &= (held == wanted) | ((held < wanted) & (held < self.read_tick)) | (held == 0)
        count = np.add.reduceat(deltas[order], heads)
        ends = heads + sizes - 1
        self._add_plain(
            slots[heads][plain],
            wanted[plain],
            (held == wanted)[plain],
            places[heads[plain]],
            places[ends[plain]],
            count[plain],
            previous,
            heads[plain],
        )
        for group in np.flatnonzero(~plain).tolist():
            for at in range(int(heads[group]), int(ends[group]) + 1):
                previous[at] = self._add_one(
                    int(sorted_ticks[at]), int(places[at]), int(deltas[order[at]])
                )
        answer = np.empty(len(order), np.int64)
        answer[order] = previous
        return answer

    def remember(self, ticks: Integers) -> Undo:
        """Return the parts of the wheel that `add` of these ticks may change."""
        slots = np.unique(ticks % self.slot_count)
        aside = {tick: list(chains) for tick, chains in self.aside.items()}
        return Undo(slots, self._slots[slots], aside)

    def restore(self, undo: Undo) -> None:
        """Set the wheel back to ``undo``."""
        self._slots[undo.slots] = undo.held
        self.aside = undo.aside

    def _add_plain(
        self,
        slots: Integers,
        ticks: Integers,
        goes_on: npt.NDArray[np.bool_],
        firsts: Integers,
        lasts: Integers,
        counts: Integers,
        previous: Integers,
        heads: Integers,
    ) -> None:
        found = self._slots[slots]
        previous[heads] = np.where(goes_on, found["last"], NO_POSITION)
        fresh = np.zeros(len(slots), SLOT_DTYPE)
        fresh["tick"] = ticks
        fresh["first"] = np.where(goes_on, found["first"], firsts)
        fresh["last"] = lasts
        fresh["count"] = counts + np.where(goes_on, found["count"], 0)
        self._slots[slots] = fresh
        self._dirty[slots // _SLOTS_PER_PAGE] = self._used[slots // _SLOTS_PER_PAGE] = True

    def _add_one(self, tick: int, position: int, delta: int) -> int:
        """Put one record on the wheel, and return the position of the one before it."""
        index = tick % self.slot_count
        held, first, last, count, _ = self._slots[index].item()
        previous = NO_POSITION
        if held > tick:
            if tick >= self.read_tick:
                self.aside.setdefault(tick, []).append(Chain(position, position, delta))
            return previous
        if held == tick:
            previous, delta = last, count + delta
        else:
            if held >= self.read_tick and held > 0:
                self.aside.setdefault(held, []).insert(0, Chain(first, last, count))
            first = position
        self._slots[index] = (tick, first, position, delta, 0)
        self._dirty[index // _SLOTS_PER_PAGE] = self._used[index // _SLOTS_PER_PAGE] = True
        return previous

    # ------------------------------------------------------------------ asking

    def chains(self, tick: int) -> list[Chain]:
        """Return the chains of ``tick``, the oldest first."""
        held, first, last, count, _ = self._slots[tick % self.slot_count].item()
        chains = list(self.aside.get(tick, ()))
        if held == tick and tick > 0:
            # A chain aside came when its tick had lost the slot, or did not have it yet.
            chains.append(Chain(first, last, count))
        return sorted(chains)

    def next_tick(self, tick: int) -> int | None:
        """Return the earliest tick from ``tick`` on that has records; None without one."""
        aside = min((each for each in self.aside if each >= tick), default=None)
        # Where few pages are in use, all their slots are looked at sooner than so many ticks.
        used_count = int(np.count_nonzero(self._used)) * _SLOTS_PER_PAGE
        for ahead in _LOOK_AHEAD[: 1 + (used_count > _LOOK_AHEAD[1])]:
            wanted = np.arange(tick, tick + min(ahead, self.slot_count))
            hits = np.flatnonzero(self._slots["tick"][wanted % self.slot_count] == wanted)
            hits = hits[wanted[hits] > 0]
            if len(hits):
                return _earlier(int(wanted[hits[0]]), aside)
        ticks = self._used_slots()["tick"].astype(np.int64)
        ticks = ticks[(ticks >= tick) & (ticks > 0)]
        return _earlier(int(ticks.min()) if len(ticks) else None, aside)

    def advance(self, tick: int) -> None:
        """Forget chains aside below ``tick``: these are delivered, or looked for elsewhere."""
        self.read_tick = tick
        for each in [each for each in self.aside if each < tick]:
            del self.aside[each]

    def turn_back(self, tick: int) -> None:
        """Make chains from ``tick`` on pending again; `rejoin` restores dropped ones."""
        self.read_tick = tick

    def rejoin(self, ticks: Integers, positions: Integers, deltas: Integers) -> None:
        """Put records aside again that were late before the clock was set back.

        Chains that have a slot kept their records; chains aside were dropped entirely.
        """
        others = self._slots["tick"][ticks % self.slot_count] != ticks
        for row in np.flatnonzero(others & (ticks >= self.read_tick)).tolist():
            chain = Chain(int(positions[row]), int(positions[row]), int(deltas[row]))
            self.aside.setdefault(int(ticks[row]), []).append(chain)

    def pending(self) -> tuple[Integers, Integers, Integers]:
        """Return ``(n,)`` pending ticks, ascending, message counts, and first positions."""
        slots = self._used_slots()
        ticks = slots["tick"].astype(np.int64)
        rows = np.flatnonzero((ticks >= self.read_tick) & (ticks > 0))
        found = slots[rows]
        chains = [(tick, chain) for tick, every in self.aside.items() for chain in every]
        extra = np.array([(t, c.message_count, c.first) for t, c in chains], np.int64).reshape(
            -1, 3
        )
        all_ticks = np.concatenate([ticks[rows], extra[:, 0]])
        counts = np.concatenate([found["count"].astype(np.int64), extra[:, 1]])
        firsts = np.concatenate([found["first"].astype(np.int64), extra[:, 2]])
        order = np.argsort(all_ticks, kind="stable")
        return all_ticks[order], counts[order], firsts[order]

    def _used_slots(self) -> npt.NDArray[np.void]:
        """Return a copy of the pages in use; reading the other pages would give them memory."""
        used: npt.NDArray[np.void] = self._slots.reshape(-1, _SLOTS_PER_PAGE)[self._used]
        return used.reshape(-1)

    # ------------------------------------------------------------------ the file

    def load(self, disk: Disk, path: str) -> bool:
        """Read the slots from their file; False, with an empty wheel, without one of that size."""
        self.clear()
        try:
            descriptor = disk.open(path)
        except FileNotFoundError:
            return False
        try:
            if disk.size(descriptor) != self.file_size:
                return False
            memory = memoryview(self._slots.view(np.uint8).data)
            for start, end in disk.data_ranges(descriptor, 0, self.file_size):
                disk.read_into(descriptor, memory[start:end], start)
                self._used[start // _PAGE_SIZE : -(-end // _PAGE_SIZE)] = True
        finally:
            disk.close(descriptor)
        self._is_new = False
        return True

    def is_sound(self, log_end: int) -> bool:
        """Return whether all slots agree with a timer log that ends at ``log_end``."""
        pages = np.flatnonzero(self._used)
        numbers = (pages[:, None] * _SLOTS_PER_PAGE + np.arange(_SLOTS_PER_PAGE)).reshape(-1)
        is_set = self._slots["tick"][numbers] != 0
        rows = numbers[is_set]
        found = self._slots[rows]
        tick, first, last = (found[name].astype(np.int64) for name in ("tick", "first", "last"))
        good = (tick > 0) & (tick % self.slot_count == rows) & (found["magic"] == 0)
        return bool((good & (first >= 0) & (first <= last) & (last < log_end)).all())

    def unlisted(self, ticks: Integers, positions: Integers) -> npt.NDArray[np.intp]:
        """Return the rows of pending records that no slot leads to.

        A slot that a later tick has taken says nothing about the records of an earlier one.

        Args:
            ticks: ``(n,)`` of records of the timer log, in its order.
            positions: ``(n,)`` timer-log positions of the records.
        """
        slots = self._slots[ticks % self.slot_count]
        is_right = (slots["tick"] > ticks) | (ticks < self.read_tick)
        is_right |= (slots["tick"] == ticks) & (slots["last"] >= positions)
        return np.flatnonzero(~is_right)

    def take_dirty(self) -> Pages:
        """Return the pages that changed since the last call."""
        pages = np.flatnonzero(self._dirty)
        self._dirty[pages] = False
        cuts = np.flatnonzero(np.diff(pages) != 1) + 1
        runs = np.split(pages, cuts) if len(pages) else []
        is_new, self._is_new = self._is_new, False
        parts = tuple((int(run[0]) * _PAGE_SIZE, self._bytes(run)) for run in runs)
        return Pages(is_new, self.file_size, parts)

    def put_back(self, pages: Pages) -> None:
        """Have pages that could not be written be taken once more."""
        for position, data in pages.parts:
            first, end = position // _PAGE_SIZE, -(-(position + len(data)) // _PAGE_SIZE)
            self._dirty[first:end] = True
        self._is_new |= pages.is_new

    def _bytes(self, pages: Integers) -> bytes:
        start, end = int(pages[0]) * _SLOTS_PER_PAGE, int(pages[-1] + 1) * _SLOTS_PER_PAGE
        return self._slots[start : min(end, self.slot_count)].tobytes()

    @property
    def is_dirty(self) -> bool:
        """Whether there is anything to write."""
        return bool(self._dirty.any())


class Pages(NamedTuple):
    """Parts of a wheel's file."""

    is_new: bool
    """Whether all other bytes are zero, whatever the file holds."""
    file_size: int
    parts: tuple[tuple[int, bytes], ...]
    """File position and bytes of each."""

    def write(self, disk: Disk, path: str, scratch: str) -> None:
        """Write the parts to the file, and flush it.

        A file whose other bytes are zero is written to ``scratch`` and renamed: half of a wheel
        would look to readers like a wheel with fewer messages.
        """
        if self.is_new:
            create_temporary_file(disk, scratch, self.file_size)
            self._write_parts(disk, scratch)
            disk.rename(scratch, path)
            disk.flush_directory(os.path.dirname(path))
        else:
            self._write_parts(disk, path)

    def _write_parts(self, disk: Disk, path: str) -> None:
        descriptor = disk.open(path, create=True)
        try:
            if disk.size(descriptor) != self.file_size:
                disk.truncate(descriptor, 0)
                disk.truncate(descriptor, self.file_size)
            for position, data in self.parts:
                disk.write(descriptor, data, position)
            disk.flush(descriptor)
        finally:
            disk.close(descriptor)


def _earlier(one: int | None, other: int | None) -> int | None:
    if one is None or other is None:
        return one if other is None else other
    return min(one, other)
