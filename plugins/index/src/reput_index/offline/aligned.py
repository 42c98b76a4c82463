"""Compare index files with rebuilt ones item by item, where an item more or less moves the others.

One changed key of a message changes the number of no other item, but the slots and chains of two
keys; a key more or less changes the number of every item after it. So the items are aligned first,
and named by their messages. Slots, chains and headers follow from the items before them: they are
compared with those of the store's own items.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

import attrs
import numpy as np

from reput_index.batchkeys import hash_of, keys_of_message, tag_key_of_message
from reput_index.files.hashchain import chain, slots_of
from reput_index.files.header import Geometry, Header
from reput_index.layout import DIRECTORY, HEADER_SIZE, ITEM_DTYPE, ITEM_SIZE, SLOT_SIZE
from reput_index.offline.explain import item_text, touched
from reput_tools.offline import Comparison, Difference, align

if TYPE_CHECKING:
    import numpy.typing as npt

    from reput_tools.offline import Unaligned

    Items = npt.NDArray[np.void]

_CHUNK: Final = 1 << 16  # items
RUNS_MAX: Final = 1_000
"""Places at which keys may be repeated in healthy files."""
_USED_SLOTS_POSITION: Final = HEADER_SIZE - 8


def aligned_differences(
    comparison: Comparison, differences: Sequence[Difference], geometry: Geometry
) -> tuple[Difference, ...] | None:
    """Return a difference for each message whose items differ, and for each wrong slot and chain.

    Args:
        comparison: of a log that has all of its records.
        differences: between the bytes of the files.
        geometry: of the files.

    Returns:
        Nothing if keys are only repeated. None if bytes say it as well or better: one difference
        is wanted, files are missing or copied, a header does not fit its items, no item differs,
        items were damaged where they stand, are missing only at the end, or too many differ.
    """
    own = _Side.of(comparison, comparison.root, geometry)
    built = _Side.of(comparison, comparison.built, geometry)
    if own is None or built is None:
        return None  # files are cut short, or a header does not fit
    if len({each.header for each in own.files}) < len(own.files):
        return None  # a file is a copy of another, and no broker has repeated its keys
    runs = align(own.keys, own.count, built.keys, built.count, max(comparison.limit, RUNS_MAX))
    if not runs:
        return None
    odd = [run for run in runs if not _is_of_copies(comparison, own, run)]
    if not odd:
        return (*_seconds(comparison, own, built, runs), *_structure(comparison, own))
    if len(odd) > comparison.limit or comparison.limit == 1:
        return None
    if len(own.files) != len(built.files) or any(each.kind != "bytes" for each in differences):
        return None  # files are missing
    last = odd[-1]
    is_at_end = last.own.stop == own.count and last.built.stop == built.count
    if is_at_end and len(last.own) != len(last.built):
        return None
    wrong = list(_structure(comparison, own))
    stands = all(len(run.own) == len(run.built) for run in runs)
    # Slots and chains that are still those of the log: items were damaged where they stand.
    if wrong and stands and len(list(_structure(comparison, own, built))) < len(wrong):
        return None
    found = [each for run in odd for each in _of_run(comparison, own, built, run)]
    found += _seconds(comparison, own, built, runs)
    return tuple([*found, *wrong][: comparison.limit * len(own.files)])


@attrs.frozen
class _File:
    path: str
    """Below the root of its side."""
    header: Header
    first: int
    """Row of its item 1 among the items of all files."""

    @property
    def count(self) -> int:
        return self.header.next_item - 1


@attrs.frozen(eq=False)
class _Side:
    """The index files of the store, or the rebuilt ones, as one run of items."""

    comparison: Comparison
    root: str
    geometry: Geometry
    files: tuple[_File, ...]

    @classmethod
    def of(cls, comparison: Comparison, root: str, geometry: Geometry) -> _Side | None:
        """Return the files below a root; None if one is a directory, or a header fits no items.

        The last file ends after its items if files grow, so an item more makes it longer.
        """
        entries = comparison.disk.list(os.path.join(root, DIRECTORY))
        if not all(entry.is_file() for entry in entries):
            return None
        side = cls(comparison, root, geometry, ())
        files: list[_File] = []
        for entry in entries:
            path, size = f"{DIRECTORY}/{entry.name}", entry.stat().st_size
            header = Header.decode(side.read(path, 0, HEADER_SIZE))
            if not 1 < header.next_item <= geometry.item_count:
                return None
            if size < geometry.position_of_item(header.next_item):
                return None
            if entry is not entries[-1] and size != geometry.file_size:
                return None
            if header.next_item < geometry.item_count:
                behind = side.read(path, geometry.position_of_item(header.next_item), ITEM_SIZE)
                if any(behind):
                    return None
            first = files[-1].first + files[-1].count if files else 0
            files.append(_File(path, header, first))
        return attrs.evolve(side, files=tuple(files))

    @property
    def count(self) -> int:
        """Items in all files."""
        return self.files[-1].first + self.files[-1].count if self.files else 0

    def keys(self, first: int, count: int) -> npt.NDArray[np.int64]:
        """Return ``(count, 2)`` key hashes and physical offsets of items, from row ``first`` on."""
        items = self.items(first, count)
        return np.column_stack(
            [items["key_hash"].astype(np.int64), items["physical_offset"].astype(np.int64)]
        )

    def items(self, first: int, count: int) -> Items:
        """Return ``(count,)`` items from row ``first`` on."""
        parts = [np.zeros(0, ITEM_DTYPE)]
        for file in self.files:
            start = max(first, file.first)
            stop = min(first + count, file.first + file.count)
            if start < stop:
                parts.append(self.items_of(file, start - file.first + 1, stop - start))
        return np.concatenate(parts)

    def items_of(self, file: _File, number: int, count: int) -> Items:
        """Return items of a file from ``number`` on."""
        position = self.geometry.position_of_item(number)
        return np.frombuffer(self.read(file.path, position, count * ITEM_SIZE), ITEM_DTYPE)

    def place(self, row: int) -> tuple[_File, int]:
        """Return the file of an item and its number; of the place after the last item, too."""
        file = next(each for each in reversed(self.files) if each.first <= row or not each.first)
        return file, row - file.first + 1

    def begins(self, first: int, count: int) -> npt.NDArray[np.int64]:
        """Return ``(count,)`` begin times of the files of items; 0 for the first item of a file."""
        begins = np.zeros(count, np.int64)
        for file in self.files:
            start, stop = max(file.first + 1 - first, 0), file.first + file.count - first
            begins[start : max(stop, start)] = file.header.begin_timestamp
        return begins

    def read(self, path: str, position: int, size: int) -> bytes:
        """Return bytes of a file, with zeros after its end."""
        disk = self.comparison.disk
        descriptor = disk.open(os.path.join(self.root, path))
        try:
            return disk.read(descriptor, size, position).ljust(size, b"\0")
        finally:
            disk.close(descriptor)


# ---------------------------------------------------------------------- items


def _is_of_copies(comparison: Comparison, own: _Side, run: Unaligned) -> bool:
    """Return whether a run repeats keys of the log's messages.

    A broker adds the keys of its last message again when it recovers, and more of them after a
    power cut. Queries return such a message once.
    """
    if len(run.built):
        return False
    return all(
        int(item["key_hash"]) in keys_by_hash(comparison, int(item["physical_offset"]))
        for item in own.items(run.own.start, len(run.own))
    )


def keys_by_hash(comparison: Comparison, physical_offset: int) -> dict[int, str]:
    """Return the keys of a message, that of its tags included, by what an item states of them."""
    record = comparison.log.read_message(physical_offset)
    if record is None:
        return {}
    texts = [*keys_of_message(record), *filter(None, [tag_key_of_message(record)])]
    return {hash_of(record.topic, each): each for each in texts}


def _of_run(
    comparison: Comparison, own: _Side, built: _Side, run: Unaligned
) -> Iterator[Difference]:
    """Yield a difference for each message whose items differ in a run."""
    found = own.items(run.own.start, len(run.own))
    wanted = built.items(run.built.start, len(run.built))
    if len(found) == len(wanted) == 1 and found["key_hash"] == wanted["key_hash"]:
        yield _moved(comparison, own, run.own.start, found[0], wanted[0])
        return
    offsets = dict.fromkeys(
        [*wanted["physical_offset"].tolist(), *found["physical_offset"].tolist()]
    )
    for offset in offsets:
        rows = np.flatnonzero(found["physical_offset"] == offset)
        hashes = Counter(found["key_hash"][rows].tolist())
        expected = Counter(wanted["key_hash"][wanted["physical_offset"] == offset].tolist())
        row = run.own.start + (int(rows[0]) if len(rows) else 0)
        yield _of_message(
            comparison, own, (row, len(rows)), offset, hashes - expected, expected - hashes
        )


def _of_message(
    comparison: Comparison,
    own: _Side,
    rows: tuple[int, int],
    physical_offset: int,
    extra: Counter[int],
    lacking: Counter[int],
) -> Difference:
    """Return what the items of one message say that its record does not, and the reverse."""
    message = comparison.touched(physical_offset)
    by_hash = keys_by_hash(comparison, physical_offset)
    missing = ", ".join(f"{by_hash.get(each, '?')} (hash {each})" for each in lacking)
    has = ", ".join(f"hash {each}" for each in extra)
    where = "?" if message.topic is None else f"{attrs.evolve(message, key=None)}"
    text = f"1 message disagrees with the index: {where} at {physical_offset}: "
    if extra:
        text += f"the index has {_keys(extra)} ({has}) that the record does not have"
    elif lacking:
        text += f"the index does not have {_keys(lacking, 'its')} {missing}"
    else:
        text += "the index has its keys in another order"
    expected = "no such item"
    if lacking:
        expected = f"{_keys(lacking)} {missing}"
    touches = attrs.evolve(message, key=by_hash.get(next(iter(lacking), -1), message.key))
    file, number = own.place(rows[0])
    return Difference(
        file.path,
        own.geometry.position_of_item(number),
        "the items of a message do not follow from the log",
        kind="item",
        size=rows[1] * ITEM_SIZE,
        found=text,
        expected=expected,
        messages=(touches,),
        message_count=1,
    )


def _keys(hashes: Counter[int], article: str = "") -> str:
    if hashes.total() == 1:
        return f"{article or 'a'} key" if article or hashes else ""
    return f"{article} keys".strip() if article else f"{hashes.total()} keys"


def _moved(
    comparison: Comparison, own: _Side, row: int, found: np.void, wanted: np.void
) -> Difference:
    """Return the difference of an item that leads to another record."""
    file, number = own.place(row)
    return Difference(
        file.path,
        own.geometry.position_of_item(number),
        "the item leads to another record than the log has",
        kind="item",
        size=ITEM_SIZE,
        found=item_text(number, found),
        expected=item_text(number, wanted),
        messages=(touched(comparison, int(wanted["physical_offset"]), int(wanted["key_hash"])),),
        message_count=1,
    )


def _seconds(
    comparison: Comparison, own: _Side, built: _Side, runs: Sequence[Unaligned]
) -> Iterator[Difference]:
    """Yield the items between the runs whose seconds are not those of the log."""
    left = right = 0
    for run in [*runs, None]:
        stop = own.count if run is None else run.own.start
        while left < stop:
            count = min(_CHUNK, stop - left)
            for row in _wrong_seconds(own, left, built, right, count)[: comparison.limit]:
                found, wanted = own.items(left + row, 1)[0], built.items(right + row, 1)[0]
                yield _moved(comparison, own, left + row, found, wanted)
            left, right = left + count, right + count
        if run is not None:
            left, right = run.own.stop, run.built.stop


def _wrong_seconds(own: _Side, left: int, built: _Side, right: int, count: int) -> list[int]:
    """Return the rows of ``count`` equal items whose seconds cannot be of one time."""
    found, wanted = (
        side.items(first, count)["seconds"].astype(np.int64)
        for side, first in ((own, left), (built, right))
    )
    begin, other = own.begins(left, count), built.begins(right, count)
    # Files that begin at other times know the time only to a second; 0 may stand for less.
    after = found - (other + 1_000 * wanted - begin) // 1_000
    is_right = np.where(begin == other, found == wanted, (after >= 0) & (after <= 1))
    is_known = (begin > 0) & (other > 0)
    is_known &= (begin == other) | ((found > 0) & (wanted > 0))
    rows: list[int] = np.flatnonzero(is_known & ~is_right).tolist()
    return rows


# ---------------------------------------------------------------------- slots and chains


def _structure(
    comparison: Comparison, own: _Side, built: _Side | None = None
) -> Iterator[Difference]:
    """Yield chains, slots and counts that do not follow from the store's items.

    Args:
        comparison: says how many are wanted of each file.
        own: the files.
        built: whose items are taken instead; the same number in each file.
    """
    for place, file in enumerate(own.files):
        slots = np.zeros(own.geometry.slot_count, np.int32)
        side, other = (own, file) if built is None else (built, built.files[place])
        used = left = 0
        for number in range(1, file.count + 1, _CHUNK):
            count = min(_CHUNK, file.count + 1 - number)
            items = own.items_of(file, number, count)
            basis = items if built is None else side.items_of(other, number, count)
            # Negative only in a damaged item.
            hashes = basis["key_hash"].astype(np.int32) & np.int32(0x7FFFFFFF)
            numbers = np.arange(number, number + count, dtype=np.int32)
            _, previous = chain(slots, slots_of(hashes, len(slots)), numbers)
            used += int(np.count_nonzero(previous == 0))
            for row in np.flatnonzero(items["previous"] != previous)[: comparison.limit].tolist():
                left += 1
                yield _wrong_chain(
                    comparison, own, file, number + row, items[row], int(previous[row])
                )
            if left > comparison.limit:
                return
        yield from _wrong_slots(comparison, own, file, slots)
        if used != file.header.used_slot_count:
            yield Difference(
                file.path,
                _USED_SLOTS_POSITION,
                "used_slot_count does not follow from the items",
                kind="header",
                size=4,
                found=f"used_slot_count {file.header.used_slot_count}",
                expected=f"used_slot_count {used}",
            )


def _wrong_chain(
    comparison: Comparison, own: _Side, file: _File, number: int, item: np.void, previous: int
) -> Difference:
    wanted = item.copy()
    wanted["previous"] = previous
    position = own.geometry.position_of_item(number) + ITEM_DTYPE.fields["previous"][1]  # type: ignore[index]
    return Difference(
        file.path,
        position,
        "the chain of the item's slot does not follow from the items",
        kind="item",
        size=4,
        found=item_text(number, item),
        expected=item_text(number, wanted),
        messages=(touched(comparison, int(item["physical_offset"]), int(item["key_hash"])),),
        message_count=1,
    )


def _wrong_slots(
    comparison: Comparison, own: _Side, file: _File, wanted: npt.NDArray[np.int32]
) -> Iterator[Difference]:
    data = own.read(file.path, HEADER_SIZE, len(wanted) * SLOT_SIZE)
    found = np.frombuffer(data, ">i4")
    for slot in np.flatnonzero(found != wanted)[: comparison.limit].tolist():
        yield Difference(
            file.path,
            HEADER_SIZE + slot * SLOT_SIZE,
            "the slot leads to another item than its newest",
            kind="slot",
            size=SLOT_SIZE,
            found=f"slot {slot}: item {int(found[slot])}",
            expected=f"slot {slot}: item {int(wanted[slot])}",
        )
