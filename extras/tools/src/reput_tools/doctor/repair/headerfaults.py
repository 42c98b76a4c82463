"""Finds records whose header names a wrong place in a queue, and what it should name.

A message that a queue leads to, at a queue offset that no record of the log has, must be the record
to which the queue leads: if that record is valid but for topic, queue or transaction flag, these
are what was damaged. As a queue's files may be the damage, a header is repaired only if no queue
confirms what it states now, the records around it do not either, the queue lacks exactly this
message, and the queue is right about the messages beside it.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final

import attrs

from reput.record import Corruption, CorruptionKind
from reput.record.layout import TRANSACTION_COMMIT, TRANSACTION_MASK
from reput_tools.doctor.repair.fieldrepair import FIELD_POSITIONS, FieldRepair

if TYPE_CHECKING:
    from reput.log import Damage, LogReader
    from reput.record import MessageView
    from reput_tools.doctor.repair.pluginhints import DamagePlace, PluginHints
    from reput_tools.doctor.repair.queuesequences import QueueSequences

_VISIBLE: Final = (0, TRANSACTION_COMMIT)


@attrs.frozen
class HeaderFaults:
    """Sound records with a damaged header."""

    mends: tuple[FieldRepair, ...]
    lost: tuple[Damage, ...]
    """Records of which it is only known that the header is wrong; each is a range of its own."""


def check_headers(
    log: LogReader, sequences: QueueSequences, in_gaps: Iterable[DamagePlace], near: PluginHints
) -> HeaderFaults:
    """Decide which headers are wrong.

    Args:
        log: the log up to its end.
        sequences: what the log's queue offsets say.
        in_gaps: messages that queues lead to, at queue offsets that no record has.
        near: messages that queues lead to, ``in_ranges`` at the records of ``in_gaps`` and at
            records that break the order, ``in_gaps`` at the queue offsets beside ``in_gaps``.
    """
    judging = _Judging(log, sequences, near)
    mends: dict[int, list[FieldRepair]] = {}
    for offset, places in _by_offset(in_gaps).items():
        if len(places) == 1:  # queues that contradict each other prove nothing
            found = judging.mends(places[0])
            if found:
                mends[offset] = found
    lost: list[Damage] = []
    for misfit in sequences.misfits.values():
        offset = misfit.physical_offset
        stated = misfit.topic, misfit.queue_id, misfit.queue_offset
        message = judging.sound(offset, misfit.size)
        if offset in mends or stated in judging.confirmed.get(offset, ()) or message is None:
            continue
        if misfit.expected is not None:
            mends[offset] = [_number_mend(message, "queue_offset", misfit.expected, _NEIGHBOURS)]
        else:
            detail = f"its header says {misfit.topic}/{misfit.queue_id}@{misfit.queue_offset}"
            detail += ", which another record is"
            finding = Corruption(offset, CorruptionKind.RECORD_CRC, detail)
            end, timestamp = offset + misfit.size, message.store_timestamp
            lost.append(log.finder().damage(finding, end, timestamp))
    all_mends = (mend for each in mends.values() for mend in each)
    return HeaderFaults(
        tuple(sorted(all_mends, key=lambda each: (each.physical_offset, each.position))),
        tuple(sorted(lost, key=lambda each: each.start_offset)),
    )


class _Judging:
    """The questions about single records."""

    def __init__(self, log: LogReader, sequences: QueueSequences, near: PluginHints) -> None:
        self._log = log
        self._sequences = sequences
        self._lasts = sequences.lasts()
        self.confirmed: dict[int, set[tuple[str, int, int]]] = {}
        for place in near.in_ranges:
            self.confirmed.setdefault(place.physical_offset, set()).add(_name(place))
        self._neighbours = {_name(place): place for place in near.in_gaps}

    def sound(self, offset: int, size: int) -> MessageView | None:
        """Return the record at ``offset`` if it has that size, and a valid body."""
        message = self._log.read_message(offset, size)
        return message if message is not None and message.body_matches() else None

    def mends(self, place: DamagePlace) -> list[FieldRepair]:
        """Return what makes the record there the one that a queue has at ``place``, if it is."""
        message = self.sound(place.physical_offset, place.size)
        if message is None:
            return []
        stated = message.topic, message.queue_id, message.queue_offset
        is_visible = message.sys_flag & TRANSACTION_MASK in _VISIBLE
        if is_visible and (
            stated in self.confirmed.get(place.physical_offset, ())
            or self._fits(place.physical_offset)
        ):
            return []  # the queue's unit is what is damaged
        if not self._is_next(place) or not self._is_trusted(place):
            return []
        return list(_mends(message, place))

    def _fits(self, offset: int) -> bool:
        """Whether the records before and after one in its queue say that it belongs there."""
        sequences = self._sequences
        return not (
            offset in sequences.misfits or offset in sequences.firsts or offset in self._lasts
        )

    def _is_next(self, place: DamagePlace) -> bool:
        """Whether the queue lacks exactly this message, or ends where this message would be."""
        queue = place.topic, place.queue_id
        last = self._lasts.get(place.physical_offset)
        end = self._sequences.next_offsets.get(queue, 0)
        if last is not None and last[0] == queue:
            end = last[1]
        return place.queue_offset <= end

    def _is_trusted(self, place: DamagePlace) -> bool:
        """Whether the queue is right about the messages beside this one."""
        beside = [
            neighbour
            for step in (-1, 1)
            if (neighbour := self._neighbours.get(_name(place, step))) is not None
        ]
        right = 0
        for each in beside:
            message = self.sound(each.physical_offset, each.size)
            if message is None:
                continue
            if (message.topic, message.queue_id, message.queue_offset) != _name(each):
                return False
            right += 1
        return right > 0


def _name(place: DamagePlace, step: int = 0) -> tuple[str, int, int]:
    return place.topic, place.queue_id, place.queue_offset + step


def _by_offset(places: Iterable[DamagePlace]) -> dict[int, list[DamagePlace]]:
    found: dict[int, list[DamagePlace]] = {}
    for place in places:
        found.setdefault(place.physical_offset, []).append(place)
    return found


_NEIGHBOURS: Final = "the messages before and after it in its queue leave this place"


def _mends(message: MessageView, place: DamagePlace) -> Iterator[FieldRepair]:
    """Yield what makes ``message`` the one that a queue has at ``place``."""
    reason = f"the queue {place.topic}/{place.queue_id} has it at {place.queue_offset}"
    if message.topic != place.topic:
        new = place.topic.encode()
        if len(new) != len(message.topic_bytes):
            return  # it would have another size
        old, at = message.topic_bytes, message.places()[1]
        yield FieldRepair(message.physical_offset, message.size, "topic", at, old, new, reason)
    if message.queue_id != place.queue_id:
        yield _number_mend(message, "queue_id", place.queue_id, reason)
    if message.queue_offset != place.queue_offset:
        yield _number_mend(message, "queue_offset", place.queue_offset, reason)
    if message.sys_flag & TRANSACTION_MASK not in _VISIBLE:
        yield _number_mend(message, "sys_flag", message.sys_flag & ~TRANSACTION_MASK, reason)


def _number_mend(message: MessageView, field: str, value: int, reason: str) -> FieldRepair:
    position, form = FIELD_POSITIONS[field]
    new = struct.pack(form, value)
    old = message.record[position : position + len(new)]
    return FieldRepair(message.physical_offset, message.size, field, position, old, new, reason)
