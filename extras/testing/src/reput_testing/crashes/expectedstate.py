"""`ExpectedState`: remembers what was put into a store and what the store promised.

After a crash it compares: each promised message is there, unchanged and in order; nothing is there
that was never put; and the store goes on as if there had been no crash.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import attrs

import reput
from reput.errors import StoreNotFoundError
from reput.record import Message, MessageView
from reput.record.layout import (
    FILLER_TOPIC,
    TRANSACTION_COMMIT,
    TRANSACTION_MASK,
    TRANSACTION_ROLLBACK,
)
from reput_testing.disks import filedamage
from reput_testing.disks.failingdisk import QuickDisk
from reput_testing.logs.clock import NOON

if TYPE_CHECKING:
    from reput.files import Disk
    from reput_testing.disks.crashstates import CrashPoint

_TICK_MS = 1_500  # between two messages: a few of them exceed the margin of checkpoints
_LIFE_MS = 3_600_000


@attrs.frozen
class Sent:
    """One message that was put, or is being put."""

    message: Message | None
    """None for a message that was found in a store."""
    record: bytes | None = attrs.field(default=None, repr=False)
    """Its bytes in the log; None until the put has returned."""
    physical_offset: int = -1
    failed: bool = False
    """Whether its put raised an error: the message may be there or not."""

    def is_at(self, found: MessageView) -> bool:
        """Whether ``found`` is this message."""
        if self.record is not None:
            return found.physical_offset == self.physical_offset and found.record == self.record
        message = self.message
        assert message is not None
        return (
            message.queue_id in (None, found.queue_id)
            and (found.topic, found.body, found.flag) == (message.topic, message.body, message.flag)
            and found.tags == message.tags
        )


@attrs.define(eq=False)
class ExpectedState:
    """Puts messages into one store, over several openings."""

    options: Mapping[str, Any]
    """Options of `reput.open`; ``plugins`` may be a function that returns new ones each time."""
    sent: list[Sent] = attrs.field(factory=list)
    """All messages in order."""
    durable_count: int = 0
    """How many messages, counted from the first, were promised to survive."""
    ghosts: Sequence[Sent] = ()
    """Messages that an earlier life put without a promise, and that were not there at its end.
    Until the store was opened, and so recovered, another crash may bring them back."""
    opened: bool = False
    """Whether an opening has returned."""
    disk: Disk | None = None
    """The disk under the store."""
    patience: float | None = None
    """Seconds to wait for plugins: a plugin on a full disk is retried for ever."""
    born: int = NOON
    """Store time of its first message, ms; each put advances the time, so that the same run always
    writes the same bytes."""
    store: reput.Store | None = None

    def note(self) -> tuple[int, int, bool]:
        """The note of a disk: messages that may be there, messages that must be, and `opened`."""
        if self.store is not None:
            flushed = self.store.log.flushed_offset
            while self.durable_count < len(self.sent):
                sent = self.sent[self.durable_count]
                end = sent.physical_offset + len(sent.record or b"")
                if not sent.failed and (sent.record is None or end > flushed):
                    break
                self.durable_count += 1
        return len(self.sent), self.durable_count, self.opened

    def arguments(self, **more: Any) -> dict[str, Any]:
        """Return the arguments of `reput.open`."""
        given = {**more, **self.options}
        if callable(given.get("plugins")):
            given["plugins"] = given["plugins"]()
        return given

    # ------------------------------------------------------------------ doing

    def open(self, root: str | os.PathLike[str]) -> reput.Store:
        """Open the store for writing."""
        options = self.arguments(clock=self._now)
        self.store = reput.open(root, threads=False, disk=self.disk, **options)
        self.opened = True
        self.note()  # all that is there when a writer's opening returns is durable
        return self.store

    def put(self, *messages: Message) -> None:
        """Put messages one by one."""
        for message in messages:
            self._put([message], lambda store, batch: [store.put(batch[0])])

    def put_many(self, messages: Sequence[Message]) -> None:
        """Put messages in one call."""
        self._put(messages, lambda store, batch: list(store.put_many(batch)))

    def _put(self, messages: Sequence[Message], put: Any) -> None:
        assert self.store is not None
        first = len(self.sent)
        self.sent += [Sent(message) for message in messages]
        try:
            receipts = put(self.store, messages)
        except Exception:
            failed = [Sent(message, failed=True) for message in messages]
            self.sent[first:] = failed
            raise
        for number, receipt in enumerate(receipts):
            record = self.store.get(receipt.physical_offset).record
            sent = Sent(messages[number], record, receipt.physical_offset)
            self.sent[first + number] = sent
        self.note()

    def close(self) -> None:
        """Close the store; from then on everything is promised."""
        assert self.store is not None
        self.store.close()
        self.durable_count = len(self.sent)
        self.store = None

    def flush(self) -> None:
        """Flush the store."""
        assert self.store is not None
        self.store.flush()
        self.note()

    def dispatched(self) -> None:
        """Dispatch what was put."""
        assert self.store is not None
        self.store.wait_dispatched(self.patience)

    def after(self, root: str | os.PathLike[str], note: tuple[int, int, bool]) -> ExpectedState:
        """Return a witness for the next life, of the store that a crash left at ``root``."""
        must = {sent.record for sent in self.sent[: note[1]]}
        kept = [Sent(None, view.record, view.physical_offset) for view in self.look(root)]
        promised = [number for number, sent in enumerate(kept, 1) if sent.record in must]
        durable_count = max(promised, default=0)
        ghosts = [*self.ghosts, *self.sent[: note[0]]]
        return ExpectedState(self.options, kept, durable_count, ghosts, born=self.born + _LIFE_MS)

    def _now(self) -> int:
        return self.born + len(self.sent) * _TICK_MS

    # ------------------------------------------------------------------ comparing

    def compare(self, found: Sequence[MessageView], note: tuple[int, int, bool]) -> None:
        """Fail unless ``found`` is what a crash at a point with ``note`` may leave."""
        sent, place = self.sent[: note[0]], 0
        missing = [number for number in range(note[1]) if not sent[number].failed]
        for view in found:
            at = next((n for n in range(place, len(sent)) if sent[n].is_at(view)), None)
            if at is None and not note[2] and any(ghost.is_at(view) for ghost in self.ghosts):
                continue
            if at is None:
                raise AssertionError(
                    f"a message that was never put, or not in this order: {view.topic} "
                    f"{view.body!r} at {view.physical_offset}"
                )
            if at in missing:
                missing.remove(at)
            place = at + 1
        if missing:
            raise AssertionError(
                f"{len(missing)} messages are gone that were promised to stay, "
                f"the first is number {missing[0]}: {sent[missing[0]]}"
            )

    def check(self, root: str | os.PathLike[str], note: tuple[int, int, bool]) -> list[MessageView]:
        """Open what a crash has left for reading, then for writing; return its messages.

        The store is then used: a message is put into each queue that has any, dispatched and
        flushed, and the store is closed.
        """
        before = filedamage.traces(root)
        seen = self.look(root)
        assert filedamage.traces(root) == before, "a read-only opening wrote something"
        self.compare(seen, note)
        options = self.arguments(clock=lambda: self.born + _LIFE_MS)
        with reput.open(root, threads=False, disk=QuickDisk(), **options) as store:
            found = messages_of(store)
            assert _places(found) == _places(seen), (
                f"a writer finds {len(found)} messages, a reader found {len(seen)}"
            )
            next_offsets = next_queue_offsets(found)
            for topic, queue_id in sorted(next_offsets) or [("T", 0)]:
                receipt = store.put(Message(topic, b"goes on", queue_id))
                expected = next_offsets.get((topic, queue_id), 0)
                # A queue whose last messages were lost goes on after their queue offsets.
                assert receipt.queue_offset == expected or (
                    has_holes(store) and receipt.queue_offset > expected
                ), f"queue {topic}/{queue_id} goes on at {receipt.queue_offset}, not {expected}"
            store.flush()
            store.wait_dispatched()
            on = messages_of(store)
            assert _places(on[: len(found)]) == _places(found), "messages changed by a put"
            assert len(on) == len(found) + max(len(next_offsets), 1)
            for state in store.plugins():
                assert state.last_error is None, f"{state.name}: {state.last_error}"
        return found

    def check_point(self, point: CrashPoint, root: str) -> None:
        """Call `check` for one point of a disk whose note this witness made."""
        self.check(root, point.note)

    def look(self, root: str | os.PathLike[str]) -> list[MessageView]:
        """Open the store for reading, and return all messages; none if there is no store."""
        try:
            with reput.open(root, "r", **self.arguments()) as store:
                return messages_of(store)
        except StoreNotFoundError:
            return []


def messages_of(store: reput.Store) -> list[MessageView]:
    """Return all messages of a log, with verified checksums, without the fillers of damage."""
    return [view for view in _views(store) if not is_filler(view)]


def has_holes(store: reput.Store) -> bool:
    """Whether recovery filled damaged ranges of the log."""
    return any(map(is_filler, _views(store)))


def _views(store: reput.Store) -> Iterator[MessageView]:
    for batch in store.scan(check_crc=True):
        yield from map(batch.message, range(len(batch)))


def is_filler(view: MessageView) -> bool:
    """Whether recovery wrote this record into a damaged range; no producer put it."""
    rolled_back = view.sys_flag & TRANSACTION_MASK == TRANSACTION_ROLLBACK
    return rolled_back and FILLER_TOPIC.startswith(view.topic)


def next_queue_offsets(found: Sequence[MessageView]) -> dict[tuple[str, int], int]:
    """Return the queue offset of the next message, by queue."""
    offsets: dict[tuple[str, int], int] = {}
    for view in found:
        if view.sys_flag & TRANSACTION_MASK in (0, TRANSACTION_COMMIT):
            key = view.topic, view.queue_id
            offsets[key] = max(offsets.get(key, 0), view.queue_offset + 1)
    return offsets


def _places(views: Sequence[MessageView]) -> list[tuple[int, bytes]]:
    return [(view.physical_offset, view.record) for view in views]
