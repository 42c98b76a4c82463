"""`SurvivingMessages`: what a store must hold after the deaths of its writers, and the comparison.

Acknowledged messages must be there, and so must messages that were read there before. Of messages
put without an acknowledgement there may be, for each producer, the first messages of one call.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence

import attrs

import reput
from reput.errors import NoReaderError
from reput.record import MessageView
from reput.record.layout import TRANSACTION_COMMIT
from reput.status import ReadStatus
from reput_testing.crashes.killplan import Ack, Death
from reput_testing.logs.producers import PUT_WHOLE, Call, Sender, calls

Records = Sequence[tuple[int, bytes]]
"""Physical offset and bytes of records, in log order."""


def records_of(store: reput.Store) -> list[tuple[int, bytes]]:
    """Return all records that a scan of the log shows, with verified checksums."""
    found: list[tuple[int, bytes]] = []
    for batch in store.scan(check_crc=True):
        offsets = batch.physical_offset.tolist()
        found += zip(offsets, map(batch.record, range(len(batch))), strict=True)
    return found


@attrs.define(eq=False)
class SurvivingMessages:
    """The messages of one store, as they were last read."""

    records: list[tuple[int, bytes]] = attrs.field(factory=list)
    queues: dict[tuple[str, int], list[int]] = attrs.field(factory=dict)
    """Index in `records` of each message of a queue, by queue offset."""

    # ------------------------------------------------------------------ the log

    def add(self, found: Records, death: Death, acks: Sequence[Ack]) -> None:
        """Compare with ``found``, read after the end of one more writer, and remember it."""
        self._compare_known(found)
        senders = self._compare_new(found[len(self.records) :], death, acks)
        self._compare_acks(found, senders, acks)
        self.records += found[len(self.records) :]

    def _compare_known(self, found: Records) -> None:
        known = self.records
        if found[: len(known)] == known:
            return
        for number, (now, before) in enumerate(itertools.zip_longest(found, known)):
            if now != before:
                raise AssertionError(
                    f"message number {number} of {len(known)} that were there before is "
                    + (f"another one now:\n{_told(now)}" if now else "gone")
                    + f"; it was\n{_told(before)}"
                )

    def _compare_new(
        self, new: Records, death: Death, acks: Sequence[Ack]
    ) -> dict[tuple[int, int], int]:
        """Check what the producers have put; return the index of each by thread and sequence."""
        producers = {
            thread: _Producer(death, thread, max_acked)
            for thread, max_acked in _acked_counts(death, acks).items()
        }
        places = {}
        for place, (physical_offset, record) in enumerate(new, len(self.records)):
            view = MessageView(record, physical_offset)
            sender = Sender.of_message(view)
            if sender is None or sender.seed != death.seed or sender.thread not in producers:
                raise AssertionError(f"no producer put:\n{_told((physical_offset, record))}")
            reason = producers[sender.thread].take(sender, view)
            if reason:
                raise AssertionError(f"{reason}; {sender}\n{_told((physical_offset, record))}")
            self._take_queue_offset(view, place)
            places[sender.thread, sender.sequence] = place
        return places

    def _take_queue_offset(self, view: MessageView, place: int) -> None:
        if view.transaction not in (0, TRANSACTION_COMMIT):
            expected = 0
        else:
            queue = self.queues.setdefault((view.topic, view.queue_id), [])
            expected = len(queue)
            queue.append(place)
        if view.queue_offset != expected:
            raise AssertionError(
                f"{view!r} has queue offset {view.queue_offset}; the next one was {expected}"
            )

    def _compare_acks(
        self, found: Records, places: Mapping[tuple[int, int], int], acks: Sequence[Ack]
    ) -> None:
        for ack in acks:
            place = places.get((ack.thread, ack.sequence))
            if place is None:
                lost = [each for each in acks if (each.thread, each.sequence) not in places]
                raise AssertionError(
                    f"{len(lost)} of {len(acks)} acknowledged messages are lost, the first {ack}"
                )
            physical_offset, record = found[place]
            view = MessageView(record, physical_offset)
            expected = ack.queue_offset, ack.physical_offset
            if (view.queue_offset, physical_offset) != expected:
                raise AssertionError(f"{ack} was acknowledged, and is\n{_told(found[place])}")

    # ------------------------------------------------------------------ the queues

    def compare_queues(self, store: reput.Store, first: Mapping[tuple[str, int], int]) -> None:
        """Read every queue and compare, if a plugin can read queues.

        In a read-only store queues may end early: the last messages are not dispatched there.

        Args:
            store: the store.
            first: queue offsets at which to begin; 0 for queues that are not named.
        """
        try:
            infos = store.queues()
        except NoReaderError:
            return
        found = {(info.topic, info.queue_id): info for info in infos if info.max_queue_offset}
        expected = {key for key, places in self.queues.items() if places}
        if not set(found) <= expected or (store.writable and set(found) != expected):
            raise AssertionError(f"queues {sorted(found)}; messages are in {sorted(expected)}")
        for key, info in found.items():
            count = len(self.queues[key])
            extent = info.min_queue_offset, info.max_queue_offset
            if info.min_queue_offset or info.max_queue_offset > count:
                raise AssertionError(f"queue {key} has offsets {extent}; messages are {count}")
            if store.writable and info.max_queue_offset != count:
                raise AssertionError(f"queue {key} has offsets {extent}; messages are {count}")
            self._read_queue(store, key, first.get(key, 0), info.max_queue_offset)

    def _read_queue(
        self, store: reput.Store, key: tuple[str, int], first: int, max_queue_offset: int
    ) -> None:
        places, at = self.queues[key], first
        while at < max_queue_offset:
            result = store.read(*key, at, max_count=512, max_bytes=1 << 30)
            if result.status is not ReadStatus.FOUND or result.next_queue_offset <= at:
                raise AssertionError(f"queue {key}: offset {at} reads as {result}")
            for view in result:
                if (view.physical_offset, view.record) != self.records[places[at]]:
                    raise AssertionError(
                        f"queue {key}, offset {at}:\n{_told((view.physical_offset, view.record))}\n"
                        f"is read; the log has\n{_told(self.records[places[at]])}"
                    )
                at += 1
            if result.next_queue_offset != at:
                raise AssertionError(f"queue {key}: offset {at} is skipped: {result}")


class _Producer:
    """What one producer may have put: all calls that were acknowledged, and one more."""

    def __init__(self, death: Death, thread: int, acked_count: int) -> None:
        self._calls = calls(death.seed, thread, death.max_body_size, death.added)
        self._acked_count = acked_count
        self._file_size: int = death.commitlog["file_size"]
        self._call: Call | None = None
        self._file = 0
        """Number of the log file in which the first message of that call is."""
        self._next = 0

    def take(self, sender: Sender, view: MessageView) -> str:
        """Return what is wrong with the next message found; empty if nothing is."""
        if sender.sequence != self._next:
            return f"message {self._next} of the producer comes next"
        call = self._call
        while call is None or self._next >= call.first + len(call.messages):
            call = self._call = next(self._calls)
        if call.first > self._acked_count:
            return f"{self._acked_count} messages were acknowledged; this is of a later call"
        file = view.physical_offset // self._file_size
        if self._next == call.first:
            self._file = file
        elif call.kind == PUT_WHOLE and file != self._file:
            return f"log file {file}; the put as a whole began in log file {self._file}"
        difference = call.difference(self._next - call.first, view)
        self._next += 1
        return difference


def _acked_counts(death: Death, acks: Sequence[Ack]) -> dict[int, int]:
    counts = dict.fromkeys(range(death.thread_count), 0)
    for ack in acks:
        if ack.sequence != counts[ack.thread]:
            raise AssertionError(f"{ack}: not in order, {counts[ack.thread]} came before")
        counts[ack.thread] += 1
    return counts


def _told(found: tuple[int, bytes] | None) -> str:
    if found is None:
        return "nothing"
    view = MessageView(found[1], found[0])
    return f"  {view!r} {Sender.of_message(view)} body={view.body[:40]!r}"
