"""Registered filters: what each consumer group wants of a topic, and the bit maps that say so.

A registered filter has a *born timestamp*: bit maps of messages stored later were computed with it,
and only these tell anything about it. A consumer that leaves is dead, not removed: its bits are
computed for a day longer, so that nothing is lost when it comes back.

Source: RocketMQ ``ConsumerFilterManager``, ``CommitLogDispatcherCalcBitMap``. Different on purpose:
the born timestamp is taken when the filter is in place, so that no message stored later can have
been indexed without it; and a filter is removed from the file before its bits are left out, so that
a crash cannot bring back a filter that bit maps do not know.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

import attrs
import numpy as np

from reput_filter.consumerfilters.bloomfilter import BloomFilter, bits_of
from reput_filter.consumerfilters.consumerfilter import NOT_YET, ConsumerFilter
from reput_filter.filterkinds import SQL92, TAG

if TYPE_CHECKING:
    import numpy.typing as npt

    from reput.record import DispatchBatch
    from reput_filter.columns.propertycolumns import PropertyColumns
    from reput_filter.expression import Expression

BIT_MAP: Final = "bit_map"
"""Column of a batch: ``(n,)`` items of fixed size, each a bit map."""
BIT_MAP_SIZE: Final = "bit_map_size"
"""Column of a batch: ``(n,)`` bytes that each bit map has; 0 without a bit map."""
_WORD: Final = np.dtype("<u8")  # the lowest bit of the first byte is the lowest of the word


def _nowhere(consumers: Sequence[ConsumerFilter]) -> None:
    """Save nothing."""


@attrs.define(eq=False, repr=False)
class FilterRegistry:
    """The filters of all groups; thread-safe."""

    bloom: BloomFilter
    clock: Callable[[], int]
    write: Callable[[Sequence[ConsumerFilter]], None] = _nowhere
    """Saves all filters, durably; never called twice at once."""
    _by_topic: dict[str, dict[str, ConsumerFilter]] = attrs.field(init=False, factory=dict)
    """By topic and group; dictionaries are replaced, not changed, so that readers need no lock."""
    _lock: threading.Lock = attrs.field(init=False, factory=threading.Lock)
    """Held to change or save filters."""
    _newest: int = attrs.field(init=False, default=0)
    """Store timestamp of the newest message with a computed bit map, ms."""

    def everyone(self) -> list[ConsumerFilter]:
        """Return all filters, including dead ones."""
        return [each for groups in self._by_topic.values() for each in groups.values()]

    # ------------------------------------------------------------------ registering

    def register(
        self,
        group: str,
        topic: str,
        expression: str | None,
        *,
        kind: str | None = SQL92,
        version: int = 0,
    ) -> bool:
        """Register a group's filter, and save it before returning.

        Args:
            group: the consumer group.
            topic: the topic.
            expression: what the group wants.
            kind: tags need no registration, and are ignored.
            version: of the client; a version older than the known one, or the same while the filter
                is alive, changes nothing.

        Returns:
            Whether that changed anything.
        """
        if kind in (None, "", TAG) or not expression:
            return False
        with self._lock:
            known = self.find(topic, group)
            if known is not None:
                if version < known.version or (version == known.version and not known.is_dead):
                    return False
                if version == known.version or known.expression == expression:
                    self._put(attrs.evolve(known, version=version, dead_timestamp=0))
                    self.write(self.everyone())
                    return True
                self._forget([known])
            compiled = _compiled(expression, kind)
            if compiled is None:
                return False
            self._put_new(group, topic, version, compiled)
            self.write(self.everyone())
            return True

    def _put_new(self, group: str, topic: str, version: int, compiled: Expression) -> None:
        bits = self.bloom.positions(f"{group}#{topic}"), self.bloom.bit_count
        made = ConsumerFilter(group, topic, compiled.text, version, NOT_YET, 0, *bits, compiled)
        # The filter first: messages stored from now on get its bit. Then its born timestamp; until
        # that is set, no bit map counts for the filter.
        self._put(made)
        born = max(self.clock(), self._newest)  # the clock may have gone back
        self._put(attrs.evolve(made, born_timestamp=born))

    def register_group(
        self, group: str, subscriptions: Mapping[str, str], *, version: int = 0
    ) -> None:
        """Register all filters of a group, by topic; its filters of other topics become dead."""
        for topic, expression in subscriptions.items():
            self.register(group, topic, expression, version=version)
        self._bury(group, keep=subscriptions)

    def unregister(self, group: str) -> None:
        """Make all filters of a group dead, as the group has left."""
        self._bury(group, keep=())

    def _bury(self, group: str, keep: Container[str]) -> None:
        with self._lock:
            for topic, groups in self._by_topic.items():
                known = groups.get(group)
                if known is not None and topic not in keep and not known.is_dead:
                    self._put(attrs.evolve(known, dead_timestamp=self.clock()))
            self.write(self.everyone())

    def save(self, *, forget_before: int) -> None:
        """Save changes, and forget filters that have been dead since ``forget_before`` (ms)."""
        with self._lock:
            self._forget(
                [
                    each
                    for each in self.everyone()
                    if each.is_dead and each.dead_timestamp <= forget_before
                ]
            )
            self.write(self.everyone())

    def load(self, consumers: Iterable[ConsumerFilter]) -> None:
        """Take filters that were saved."""
        with self._lock:
            for each in consumers:
                self._put(each)

    def _put(self, consumer: ConsumerFilter) -> None:
        groups = {**self._by_topic.get(consumer.topic, {}), consumer.group: consumer}
        self._by_topic = {**self._by_topic, consumer.topic: groups}

    def _forget(self, consumers: Sequence[ConsumerFilter]) -> None:
        if not consumers:
            return
        gone = {(each.topic, each.group) for each in consumers}
        left = [each for each in self.everyone() if (each.topic, each.group) not in gone]
        # Saved before a bit map is computed without these filters: a filter that came back after a
        # crash would seem not to want those messages.
        self.write(left)
        by_topic: dict[str, dict[str, ConsumerFilter]] = {}
        for each in left:
            by_topic.setdefault(each.topic, {})[each.group] = each
        self._by_topic = by_topic

    # ------------------------------------------------------------------ asking

    def find(self, topic: str, group: str) -> ConsumerFilter | None:
        """Return a group's filter of a topic."""
        return self._by_topic.get(topic, {}).get(group)

    def of_topic(self, topic: str) -> list[ConsumerFilter]:
        """Return all filters of a topic, including dead ones."""
        return list(self._by_topic.get(topic, {}).values())

    def of_group(self, group: str) -> dict[str, Expression]:
        """Return the conditions of a group, by topic."""
        return {each.topic: each.compiled for each in self.everyone() if each.group == group}

    def with_expression(self, topic: str, expression: str) -> ConsumerFilter | None:
        """Return the oldest filter with that expression; its bits answer for the expression."""
        same = [each for each in self.of_topic(topic) if each.expression == expression]
        return min(same, key=lambda each: each.born_timestamp, default=None)

    # ------------------------------------------------------------------ bit maps

    def bit_maps(self, batch: DispatchBatch) -> dict[str, npt.NDArray[np.generic]] | None:
        """Return the columns `BIT_MAP` and `BIT_MAP_SIZE`; None if no group wants the topics."""
        if len(batch):
            self._newest = max(self._newest, int(batch.store_timestamp.max()))
        wanted = [
            (code, groups)
            for code, topic in enumerate(batch.topics)
            if (groups := self.of_topic(topic))
        ]
        if not wanted:
            return None
        from reput_filter.columns.propertycolumns import PropertyColumns

        maps = np.zeros((len(batch), self.bloom.size), np.uint8)
        sizes = np.zeros(len(batch), np.int16)
        columns = PropertyColumns(len(batch), batch.text)
        for code, groups in wanted:
            rows = np.flatnonzero(batch.topic_code == code)
            if len(rows) == 0:
                continue
            sizes[rows] = self.bloom.size
            part = columns if len(rows) == len(batch) else columns.take(rows)
            maps[rows] = self._maps_of(groups, part, len(rows))
        items = maps.view(np.dtype((np.void, self.bloom.size))).reshape(len(batch))
        return {BIT_MAP: items, BIT_MAP_SIZE: sizes}

    def _maps_of(
        self, groups: Sequence[ConsumerFilter], columns: PropertyColumns, count: int
    ) -> npt.NDArray[np.uint8]:
        """Return ``(count, bloom.size)``: the bit maps of messages of one topic."""
        from reput_filter.columns.truthcodes import TRUE

        # By words: eight bytes of all messages at once take no longer than one byte of one message.
        words = np.zeros((-(-self.bloom.size // _WORD.itemsize), count), _WORD)
        for consumer in groups:
            selected = consumer.compiled.codes(columns) == TRUE
            if not selected.any():
                continue
            bits = bits_of(consumer.positions, words.shape[0] * _WORD.itemsize)
            for number, word in enumerate(np.frombuffer(bits, _WORD)):
                if word:
                    words[number] |= selected * word
        return np.ascontiguousarray(words.T).view(np.uint8)[:, : self.bloom.size]


def _compiled(expression: str, kind: str | None) -> Expression | None:
    """Return the condition; None if the expression cannot be compiled."""
    from reput_filter.errors import ExpressionError
    from reput_filter.expression import Expression

    try:
        return Expression(expression) if kind == SQL92 else None
    except ExpressionError:
        return None
