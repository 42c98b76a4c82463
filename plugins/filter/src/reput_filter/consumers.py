"""Registered filters: what each consumer group wants of a topic, and its bits in the bit maps.

A filter that is registered has a *born timestamp*: bit maps of messages stored later were computed
with it, and only those say anything about it. A consumer that leaves is dead and not gone: its bits
are computed for a day longer, so that nothing is lost when it comes back.

Source: RocketMQ ``ConsumerFilterManager``, ``ConsumerFilterData``, ``ExpressionMessageFilter``.
Different on purpose: the born timestamp is taken when the filter is in place, so that no message
stored later can have been indexed without it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

import attrs
import numpy as np

from reput_filter._columns import Columns
from reput_filter._nodes import TRUE
from reput_filter.bloom import BloomFilter, bits_of
from reput_filter.errors import ExpressionError
from reput_filter.expression import SQL92, TAG, Expression, properties_of

if TYPE_CHECKING:
    import numpy.typing as npt

    from reput.batch import DispatchBatch
    from reput.view import MessageView

__all__ = ["BIT_MAP", "BIT_MAP_SIZE", "Consumer", "Consumers", "RetryFilter"]

BIT_MAP: Final = "bit_map"
"""Column of a batch: ``(n,)`` items of some bytes, a bit map each."""
BIT_MAP_SIZE: Final = "bit_map_size"
"""Column of a batch: ``(n,)`` bytes that each bit map has; 0 where there is none."""

RETRY_PREFIX: Final = "%RETRY%"
_RETRY_TOPIC: Final = "RETRY_TOPIC"


@attrs.frozen
class Consumer:
    """One group's filter of one topic. Also a filter: by its bits first, then by its condition."""

    group: str
    topic: str
    expression: str
    version: int
    """The client's; a newer one may change the expression."""
    born_timestamp: int
    """ms; bit maps of messages stored later know this filter."""
    dead_timestamp: int
    """ms; 0 while it lives."""
    positions: tuple[int, ...]
    """Its bits, in the order of their hashes."""
    bit_count: int
    """Bits of the maps that these are positions in."""
    compiled: Expression = attrs.field(eq=False)

    kind = SQL92

    @property
    def is_dead(self) -> bool:
        """Whether the group has left."""
        return self.dead_timestamp >= self.born_timestamp

    @property
    def member(self) -> str:
        """What its bits are hashes of."""
        return f"{self.group}#{self.topic}"

    def matches(self, message: MessageView | Mapping[str, str]) -> bool:
        """Whether the group wants a message."""
        return self.compiled.matches(message)

    def matches_batch(self, batch: DispatchBatch) -> npt.NDArray[np.bool_]:
        """``(n,)``: which messages of a batch the group wants."""
        return self.compiled.matches_batch(batch)

    def may_match(
        self,
        tags_codes: npt.NDArray[np.int64],
        bit_maps: Sequence[bytes | None],
        store_timestamps: npt.NDArray[np.int64],
    ) -> npt.NDArray[np.bool_]:
        """``(n,)``: which messages the group may want, as far as their bit maps tell.

        Args:
            tags_codes: ``(n,)``; not looked at.
            bit_maps: ``n``; None where a message has none.
            store_timestamps: ``(n,)`` ms.
        """
        result = np.ones(len(tags_codes), np.bool_)
        if not self.positions or max(self.positions) >= self.bit_count:
            return result
        size = self.bit_count // 8
        rows = [
            row
            for row in np.flatnonzero(store_timestamps > self.born_timestamp).tolist()
            if bit_maps[row] is not None and len(bit_maps[row] or b"") == size
        ]
        if rows:
            joined = b"".join(bit_maps[row] or b"" for row in rows)
            maps = np.frombuffer(joined, np.uint8).reshape(len(rows), size)
            wanted = np.frombuffer(bits_of(self.positions, size), np.uint8)
            result[rows] = ((maps & wanted) == wanted).all(axis=1)
        return result


@attrs.define(eq=False)
class Consumers:
    """The filters of all groups; thread-safe."""

    bloom: BloomFilter
    clock: Callable[[], int]
    _by_topic: dict[str, dict[str, Consumer]] = attrs.field(factory=dict)
    """By topic and group; dictionaries are replaced, never changed: readers need no lock."""
    _lock: threading.Lock = attrs.field(factory=threading.Lock)
    _newest: int = 0
    """Store timestamp of the newest message of which a bit map was computed, ms."""

    def everyone(self) -> list[Consumer]:
        """All filters, the dead ones too."""
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
        """Take a group's filter; whether that changed anything.

        Args:
            group: the consumer group.
            topic: the topic.
            expression: what it wants.
            kind: tags need no registration, and are not taken.
            version: of the client; an older one than that known, or the same while it is alive,
                changes nothing.
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
                    return True
            if kind != SQL92:
                self._remove(known)
                return False
            try:
                compiled = Expression(expression)
            except ExpressionError:
                self._remove(known)
                return False
            positions = self.bloom.positions(f"{group}#{topic}")
            made = Consumer(
                group,
                topic,
                expression,
                version,
                _NOT_YET,
                0,
                positions,
                self.bloom.bit_count,
                compiled,
            )
            # In place first: what is stored from now on gets its bit, and then it is said since
            # when. In the meantime no bit map counts for it.
            self._put(made)
            born = max(self.clock(), self._newest)  # clocks go back
            self._put(attrs.evolve(made, born_timestamp=born))
            return True

    def register_group(
        self, group: str, subscriptions: Mapping[str, str], *, version: int = 0
    ) -> None:
        """Take all of a group's filters, by topic; those of other topics are dead from now on."""
        for topic, expression in subscriptions.items():
            self.register(group, topic, expression, version=version)
        self._bury(group, keep=subscriptions)

    def unregister(self, group: str) -> None:
        """Note that a group has left."""
        self._bury(group, keep=())

    def _bury(self, group: str, keep: Iterable[str]) -> None:
        with self._lock:
            for topic, groups in self._by_topic.items():
                known = groups.get(group)
                if known is not None and topic not in keep and not known.is_dead:
                    self._put(attrs.evolve(known, dead_timestamp=self.clock()))

    def forget_dead(self, since: int) -> bool:
        """Remove filters that are dead since that time, ms, or longer; whether there were any."""
        with self._lock:
            old = [
                each for each in self.everyone() if each.is_dead and each.dead_timestamp <= since
            ]
            for each in old:
                self._remove(each)
        return bool(old)

    def load(self, consumers: Iterable[Consumer]) -> None:
        """Take what was saved."""
        with self._lock:
            for each in consumers:
                self._put(each)

    def _put(self, consumer: Consumer) -> None:
        groups = {**self._by_topic.get(consumer.topic, {}), consumer.group: consumer}
        self._by_topic = {**self._by_topic, consumer.topic: groups}

    def _remove(self, consumer: Consumer | None) -> None:
        if consumer is not None:
            groups = dict(self._by_topic[consumer.topic])
            del groups[consumer.group]
            self._by_topic = {**self._by_topic, consumer.topic: groups}

    # ------------------------------------------------------------------ asking

    def find(self, topic: str, group: str) -> Consumer | None:
        """A group's filter of a topic."""
        return self._by_topic.get(topic, {}).get(group)

    def of_topic(self, topic: str) -> list[Consumer]:
        """All filters of a topic, the dead ones too."""
        return list(self._by_topic.get(topic, {}).values())

    def with_expression(self, topic: str, expression: str) -> Consumer | None:
        """The filter of that expression which has been there longest; its bits answer for it."""
        same = [each for each in self.of_topic(topic) if each.expression == expression]
        return min(same, key=lambda each: each.born_timestamp, default=None)

    # ------------------------------------------------------------------ bit maps

    def bit_maps(self, batch: DispatchBatch) -> dict[str, npt.NDArray[np.generic]] | None:
        """Columns `BIT_MAP` and `BIT_MAP_SIZE` of a batch; None where no group wants any of it."""
        if len(batch):
            self._newest = max(self._newest, int(batch.store_timestamp.max()))
        wanted = [
            (code, groups)
            for code, topic in enumerate(batch.topics)
            if (groups := self.of_topic(topic))
        ]
        if not wanted:
            return None
        maps = np.zeros((len(batch), self.bloom.size), np.uint8)
        sizes = np.zeros(len(batch), np.int16)
        columns = Columns(len(batch), batch.text)
        for code, groups in wanted:
            rows = np.flatnonzero(batch.topic_code == code)
            if len(rows) == 0:
                continue
            sizes[rows] = self.bloom.size
            part = columns if len(rows) == len(batch) else columns.take(rows)
            for consumer in groups:
                hits = rows[consumer.compiled.codes(part) == TRUE]
                maps[hits] |= np.frombuffer(self.bloom.bits(consumer.positions), np.uint8)
        items = maps.view(np.dtype((np.void, self.bloom.size))).reshape(len(batch))
        return {BIT_MAP: items, BIT_MAP_SIZE: sizes}


_NOT_YET: Final = (1 << 63) - 1


@attrs.frozen
class RetryFilter:
    """A group's filter of its retry topic: messages of all topics, each by that topic's filter.

    Source: RocketMQ ``ExpressionForRetryMessageFilter``.
    """

    consumers: Consumers = attrs.field(eq=False)
    retry_topic: str

    kind = SQL92

    @property
    def group(self) -> str:
        """The group whose retries these are."""
        name = self.retry_topic.removeprefix(RETRY_PREFIX)
        return name.partition("+")[0]

    def matches(self, message: MessageView | Mapping[str, str]) -> bool:
        """Whether the group wants a message; it wants those for which it has no filter."""
        properties = properties_of(message)
        consumer = self.consumers.find(properties.get(_RETRY_TOPIC, ""), self.group)
        return consumer is None or consumer.matches(properties)

    def matches_batch(self, batch: DispatchBatch) -> npt.NDArray[np.bool_]:
        """``(n,)``: which messages of a batch the group wants."""
        result = np.ones(len(batch), np.bool_)
        topics = batch.text(_RETRY_TOPIC)
        columns = Columns(len(batch), batch.text)
        origins = topics.tolist()
        for origin in set(origins):
            consumer = self.consumers.find(origin or "", self.group)
            if consumer is not None:
                rows = np.array([row for row, each in enumerate(origins) if each == origin])
                result[rows] = consumer.compiled.codes(columns.take(rows)) == TRUE
        return result

    def may_match(
        self,
        tags_codes: npt.NDArray[np.int64],
        bit_maps: Sequence[bytes | None],
        store_timestamps: npt.NDArray[np.int64],
    ) -> npt.NDArray[np.bool_]:
        """Everything may: a unit does not say from which topic its message came."""
        return np.ones(len(tags_codes), np.bool_)
