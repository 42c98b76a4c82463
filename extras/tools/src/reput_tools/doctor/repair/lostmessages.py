"""Names what a damaged range of the log has lost, message by message.

A record whose lengths are readable tells by its header, and by its properties, who it was. Where
nothing is readable, the consume queues know topic, queue, queue offset and size of each message,
and the key index knows hashes of its keys, and when it was stored.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

import attrs

from reput.log import Damage
from reput.record import RECORD_SIZE_MAX, Corruption, CorruptionKind, message_at
from reput.record.layout import RECORD_MIN_SIZE

if TYPE_CHECKING:
    from reput.log import LogReader
    from reput.record import MessageView
    from reput_tools.doctor.repair.pluginhints import DamagePlace, PluginHints

PARTS_MAX: Final = 1_000
"""Parts into which one range is divided; the last one has the rest."""
_KEYS_SIZE_MAX: Final = 1_024


@attrs.frozen
class LostPart(Damage):
    """Bytes of the log that are lost: those of one message, as far as known.

    Its store timestamp is that of the message before it, which is also the time of the record that
    takes its place.
    """

    keys: str = ""
    """Keys, with spaces in between; empty if the message has none, or they are unreadable."""
    key_hashes: tuple[int, ...] = ()
    """Hashes of its keys, where only the key index knows of them."""
    indexed_timestamp: int | None = None
    """When the message was stored, ms, by the key index; None if not known."""
    message_count: int | None = 1
    """Messages that are lost; None if not known."""


def parts_of(
    log: LogReader, lost: Damage, known: PluginHints, leads: Sequence[DamagePlace]
) -> list[LostPart]:
    """Divide a lost range into its messages.

    Args:
        log: the log.
        lost: a range of one file.
        known: what plugins know.
        leads: ``known.in_ranges``, ascending.
    """
    found: list[LostPart] = []
    for start, end, place, message in _steps(log, lost, leads):
        if found and end - start < RECORD_MIN_SIZE and end != _file_end(log, start):
            found[-1] = attrs.evolve(found[-1], end_offset=end)  # too small to be filled alone
            continue
        found.append(_part(log, lost, known, start, end, place, message))
        if len(found) == PARTS_MAX and end < lost.end_offset:
            rest = _count(leads, end, lost.end_offset)
            part = _part(log, lost, known, end, lost.end_offset, None, None)
            found.append(attrs.evolve(part, message_count=rest or None))
            break
    return found


def _steps(
    log: LogReader, lost: Damage, leads: Sequence[DamagePlace]
) -> Iterator[tuple[int, int, DamagePlace | None, MessageView | None]]:
    """Yield beginning and end of each part, and what is known of it."""
    position, stop = lost.start_offset, lost.end_offset
    while position < stop:
        row = bisect.bisect_left(leads, position, key=lambda each: each.physical_offset)
        place = leads[row] if row < len(leads) else None
        message = _message(log, position, stop)
        if message is not None:
            end = position + message.size
        elif place is not None and place.physical_offset == position:
            end = position + place.size
        elif place is not None and place.physical_offset < stop:
            end = place.physical_offset
        else:
            end = stop
        is_here = place is not None and place.physical_offset == position
        if end > stop or 0 < stop - end < RECORD_MIN_SIZE:
            end = stop  # no record fits between this one and where the log goes on
        yield position, end, place if is_here else None, message
        position = end


def _message(log: LogReader, position: int, stop: int) -> MessageView | None:
    """Return the record at ``position`` if its lengths add up, whatever its checksum says."""
    size = log.size_at(position)
    if not RECORD_MIN_SIZE <= size <= min(RECORD_SIZE_MAX, stop - position):
        return None
    return message_at(log.files.read(position, size), position)


def _part(
    log: LogReader,
    lost: Damage,
    known: PluginHints,
    start: int,
    end: int,
    place: DamagePlace | None,
    message: MessageView | None,
) -> LostPart:
    hashes, is_first = known.hashes.get(start, ()), start == lost.start_offset
    kind, detail = CorruptionKind.BAD_MAGIC, f"no sound record before {lost.end_offset}"
    if is_first or lost.reason == CorruptionKind.TRUNCATED.name:
        kind, detail = CorruptionKind[lost.reason], lost.detail
    if kind is not CorruptionKind.TRUNCATED and message is not None and not message.body_matches():
        kind = CorruptionKind.BODY_CRC
        detail = detail if is_first else "the body does not match its checksum"
    damage = log.finder().damage(Corruption(start, kind, detail), end, lost.store_timestamp)
    keys = ""
    if message is not None:
        keys = " ".join(message.keys) or message.unique_key or ""
        keys = keys if len(keys) <= _KEYS_SIZE_MAX and keys.isprintable() else ""
    is_message = place is not None or message is not None or bool(hashes)
    is_message = is_message or damage.topic is not None
    if place is not None:
        # A unit and a header that differ: the header is part of what is damaged.
        damage = attrs.evolve(
            damage,
            topic=place.topic,
            queue_id=place.queue_id,
            queue_offset=place.queue_offset,
        )
    return LostPart(
        **attrs.asdict(damage),
        keys=keys,
        key_hashes=() if keys else hashes,
        indexed_timestamp=known.timestamps.get(start),
        message_count=1 if is_message else None,
    )


def _count(leads: Sequence[DamagePlace], start: int, stop: int) -> int:
    first = bisect.bisect_left(leads, start, key=lambda each: each.physical_offset)
    last = bisect.bisect_left(leads, stop, key=lambda each: each.physical_offset)
    return len({each.physical_offset for each in leads[first:last]})


def _file_end(log: LogReader, offset: int) -> int:
    base = offset - offset % log.file_size
    return base + log.file_size
