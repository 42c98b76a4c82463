"""Say what stands where index files differ from the log: header fields, slots, items, messages."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Final

import attrs
import numpy as np

from reput_index.batchkeys import hash_of, keys_of_message, tag_key_of_message
from reput_index.layout import (
    DIRECTORY,
    HEADER_DTYPE,
    HEADER_SIZE,
    ITEM_DTYPE,
    ITEM_SIZE,
    SLOT_SIZE,
)
from reput_tools.offline import Comparison, Difference, TouchedMessage

if TYPE_CHECKING:
    import numpy.typing as npt

    from reput_index.files.header import Geometry

_MESSAGES_MAX: Final = 20  # named in a difference
_CHAIN_MAX: Final = 1_000  # items of a slot that are looked at
_UNWRITTEN_MAX: Final = 1 << 20  # items that a killed broker has not written
_ITEMS_MAX: Final = 1 << 16  # items of a difference that are looked at


def explain(comparison: Comparison, difference: Difference, geometry: Geometry) -> Difference:
    """Return the difference with what stands there, in the store and by the log.

    Args:
        comparison: the comparison.
        difference: one of its differences.
        geometry: the sizes of the files' parts.
    """
    if difference.found or not difference.path.startswith(f"{DIRECTORY}/"):
        return difference  # told by `reput_index.offline.compare`, or no file of the index
    built = os.path.join(comparison.built, difference.built_path or difference.path)
    own = os.path.join(comparison.root, difference.path)
    if difference.kind in ("missing", "extra"):
        return _of_file(comparison, difference, built, own, geometry)
    if difference.position < HEADER_SIZE:
        told = _in_header(comparison, difference, built, own)
        return _with_later_items(told, comparison, built, own, geometry)
    if difference.position < geometry.items_position:
        told = _in_slots(comparison, difference, built, own, geometry)
        return _with_later_items(told, comparison, built, own, geometry)
    return _in_items(comparison, difference, built, own, geometry)


def item_text(number: int, item: Any) -> str:
    """Return an item of `ITEM_DTYPE` as text."""
    key_hash, offset, seconds, previous = item.item()
    if not any((key_hash, offset, seconds, previous)):
        return f"item {number}: zeros"
    return (
        f"item {number}: key hash {key_hash}, physical offset {offset}, second {seconds}, "
        f"after item {previous}"
    )


def touched(comparison: Comparison, physical_offset: int, key_hash: int) -> TouchedMessage:
    """Return the message of an item, with that of its keys that has the item's hash."""
    found = comparison.touched(physical_offset)
    message = comparison.log.read_message(physical_offset)
    if message is None:
        return found
    keys = [*keys_of_message(message), *filter(None, [tag_key_of_message(message)])]
    own = next((key for key in keys if hash_of(message.topic, key) == key_hash), None)
    return found if own is None else attrs.evolve(found, key=own)


def _of_file(
    comparison: Comparison, difference: Difference, built: str, own: str, geometry: Geometry
) -> Difference:
    """Explain a file that only one of the two sides has."""
    path = built if difference.kind == "missing" else own
    header = np.frombuffer(_read(comparison, path, 0, HEADER_SIZE), HEADER_DTYPE)[0]
    count = max(int(header["next_item"]) - 1, 0)
    text = f"a file of {count} items"
    if difference.kind == "extra":
        told = attrs.evolve(difference, found=text, expected="no file")
        return _with_lost(told, comparison, _items(comparison, own, 1, count, geometry))
    items = _items(comparison, built, 1, min(count, _ITEMS_MAX), geometry)
    return _with_messages(
        attrs.evolve(difference, found="no file", expected=text), comparison, items
    )


def _in_header(comparison: Comparison, difference: Difference, built: str, own: str) -> Difference:
    assert HEADER_DTYPE.fields is not None
    heads = [
        np.frombuffer(_read(comparison, path, 0, HEADER_SIZE), HEADER_DTYPE)[0]
        for path in (own, built)
    ]
    end = difference.position + max(difference.size, 1)
    names = [
        name
        for name, (kind, position, *_) in HEADER_DTYPE.fields.items()
        if position < end and difference.position < position + kind.itemsize
    ]
    found, expected = (", ".join(f"{name} {int(head[name])}" for name in names) for head in heads)
    is_absent = not any(heads[0].item())
    return attrs.evolve(
        difference, kind="header", found=found, expected=expected, is_absent=is_absent
    )


def _in_slots(
    comparison: Comparison, difference: Difference, built: str, own: str, geometry: Geometry
) -> Difference:
    slot = (difference.position - HEADER_SIZE) // SLOT_SIZE
    at = HEADER_SIZE + slot * SLOT_SIZE
    found, expected = (
        int.from_bytes(_read(comparison, path, at, SLOT_SIZE), "big", signed=True)
        for path in (own, built)
    )
    last = min(difference.position + max(difference.size, 1), geometry.items_position) - 1
    last_slot = (last - HEADER_SIZE) // SLOT_SIZE
    more = last_slot - slot
    rest = f"; and {more} slots after it" if more else ""
    items: list[npt.NDArray[np.void]] = []
    number = expected
    while number > 0 and len(items) < _CHAIN_MAX:
        item = _items(comparison, built, number, 1, geometry)
        items.append(item)
        # Chains lead to older items only; one that does not is damage of its own.
        previous = int(item["previous"][0])
        number = previous if previous < number else 0
    chained = np.concatenate(items) if items else np.zeros(0, ITEM_DTYPE)
    told = attrs.evolve(
        difference,
        kind="slot",
        found=f"slot {slot}: item {found}{rest}",
        expected=f"slot {slot}: item {expected}{rest}",
        is_absent=(difference.is_absent and not found)
        or _lack_unwritten_items(comparison, built, own, (slot, last_slot), geometry),
    )
    told = _with_messages(told, comparison, chained)
    return attrs.evolve(told, message_count=None) if more else told


def _lack_unwritten_items(
    comparison: Comparison, built: str, own: str, slots: tuple[int, int], geometry: Geometry
) -> bool:
    """Whether slots are as they were before the last items, which the store's file does not have.

    A broker that is killed leaves them so.

    Args:
        comparison: the comparison.
        built: the rebuilt file.
        own: the store's file.
        slots: the first and the last one that are compared.
        geometry: of both files.
    """
    position, size = HEADER_SIZE + slots[0] * SLOT_SIZE, (slots[1] - slots[0] + 1) * SLOT_SIZE
    found, numbers = (
        np.frombuffer(_read(comparison, path, position, size), ">i4").astype(np.int64)
        for path in (own, built)
    )
    first, end = (max(_next_item(comparison, path), 1) for path in (own, built))
    if not 0 < end - first <= _UNWRITTEN_MAX:
        return False
    previous = _items(comparison, built, first, end - first, geometry)["previous"].astype(np.int64)
    # Chains of a rebuilt file lead to older items only.
    while (unwritten := (numbers >= first) & (numbers < end)).any():
        numbers[unwritten] = previous[numbers[unwritten] - first]
    return bool(np.array_equal(numbers, found))


def _next_item(comparison: Comparison, path: str) -> int:
    header = np.frombuffer(_read(comparison, path, 0, HEADER_SIZE), HEADER_DTYPE)
    return int(header["next_item"][0])


def _in_items(
    comparison: Comparison, difference: Difference, built: str, own: str, geometry: Geometry
) -> Difference:
    number = (difference.position - geometry.items_position) // ITEM_SIZE
    end = difference.position + max(difference.size, 1) - geometry.items_position
    count = min(-(-end // ITEM_SIZE) - number, _ITEMS_MAX)
    found = _items(comparison, own, number, count, geometry)
    wanted = _items(comparison, built, number, count, geometry)
    rest = f"; and {count - 1} more" if count > 1 else ""
    told = attrs.evolve(
        difference,
        kind="item",
        found=item_text(number, found[0]) + rest,
        expected=item_text(number, wanted[0]) + rest,
        is_absent=not found.view(np.uint8).any(),
    )
    told = _with_messages(told, comparison, wanted[found != wanted])
    return told if told.messages else _with_lost(told, comparison, found)


def _with_later_items(
    difference: Difference, comparison: Comparison, built: str, own: str, geometry: Geometry
) -> Difference:
    """Name the messages after the log's end to which only the store's header and slots lead.

    Args:
        difference: in a header, in slots or in both.
        comparison: the comparison.
        built: the rebuilt file.
        own: the store's file.
        geometry: of both files.
    """
    first, end = (max(_next_item(comparison, path), 1) for path in (built, own))
    if not first < end <= geometry.item_count:
        return difference
    position = max(difference.position, HEADER_SIZE)
    position -= (position - HEADER_SIZE) % SLOT_SIZE
    stop = min(difference.position + max(difference.size, 1), geometry.items_position)
    size = -(-max(stop - position, 0) // SLOT_SIZE) * SLOT_SIZE
    numbers, wanted = (
        np.frombuffer(_read(comparison, path, position, size), ">i4") for path in (own, built)
    )
    changed = numbers[numbers != wanted]
    if not ((changed >= first) & (changed < end)).all():
        return difference
    items = _items(comparison, own, first, min(end - first, _ITEMS_MAX), geometry)
    return _with_lost(difference, comparison, items)


def _with_lost(
    difference: Difference, comparison: Comparison, items: npt.NDArray[np.void]
) -> Difference:
    """Name the messages of the store's items, if all of them were after the end of the log."""
    is_after = items["physical_offset"] >= comparison.log.max_physical_offset
    if not (len(items) and is_after.all()):
        return difference
    _, rows = np.unique(items["physical_offset"], return_index=True)
    return _with_messages(difference, comparison, items[rows])


def _with_messages(
    difference: Difference, comparison: Comparison, items: npt.NDArray[np.void]
) -> Difference:
    used = items[(items["physical_offset"] > 0) | (items["key_hash"] > 0)]
    messages = tuple(
        touched(comparison, int(item["physical_offset"]), int(item["key_hash"]))
        for item in used[:_MESSAGES_MAX]
    )
    count = len(np.unique(used["physical_offset"]))
    return attrs.evolve(difference, messages=messages, message_count=count)


def _items(
    comparison: Comparison, path: str, first: int, count: int, geometry: Geometry
) -> npt.NDArray[np.void]:
    """Return ``(count,)`` items of a file; missing ones are zero."""
    data = _read(comparison, path, geometry.position_of_item(first), count * ITEM_SIZE)
    return np.frombuffer(data, ITEM_DTYPE)


def _read(comparison: Comparison, path: str, position: int, size: int) -> bytes:
    try:
        descriptor = comparison.disk.open(path)
    except (FileNotFoundError, IsADirectoryError, NotADirectoryError):
        return bytes(size)
    try:
        return comparison.disk.read(descriptor, size, position).ljust(size, b"\0")
    finally:
        comparison.disk.close(descriptor)
