"""Filters of reads that consumer groups have registered: looked for in bit maps, then in records.

Source: RocketMQ ``ExpressionMessageFilter``, ``ExpressionForRetryMessageFilter``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import attrs
import numpy as np

from reput_filter.columns._codes import TRUE
from reput_filter.columns._columns import Columns
from reput_filter.consumers.consumer import Consumer
from reput_filter.expression import SQL92, Expression, Undecided, properties_of

if TYPE_CHECKING:
    import numpy.typing as npt

    from reput.record import DispatchBatch, MessageView

__all__ = ["RETRY_PREFIX", "RegisteredFilter", "RetryFilter", "group_of"]

RETRY_PREFIX: Final = "%RETRY%"
_RETRY_TOPIC: Final = "RETRY_TOPIC"


@attrs.frozen(eq=False)
class RegisteredFilter:
    """A condition that a group has registered; thread-safe.

    Bit maps are believed as long as the group's filter is the one that this was made of: they are
    not computed any more when it is changed or forgotten. Pickled it is the plain condition, as
    nobody elsewhere can tell.
    """

    consumer: Consumer
    _find: Callable[[str, str], Consumer | None]
    """The filter that is registered now, by topic and group."""

    kind = SQL92

    def __str__(self) -> str:
        return self.consumer.expression

    def __reduce__(self) -> str | tuple[Any, ...]:
        return self.consumer.compiled.__reduce__()

    def matches(self, message: MessageView | Mapping[str, str]) -> bool:
        """Whether the group wants a message."""
        return self.consumer.compiled.matches(message)

    def matches_batch(self, batch: DispatchBatch) -> npt.NDArray[np.bool_]:
        """``(n,)``: which messages of a batch the group wants."""
        return self.consumer.compiled.matches_batch(batch)

    def may_match(
        self,
        tags_codes: npt.NDArray[np.int64],
        bit_maps: Sequence[bytes | None],
        store_timestamps: npt.NDArray[np.int64],
    ) -> npt.NDArray[np.bool_]:
        """``(n,)``: which messages the group may want, as far as their bit maps tell.

        Args:
            tags_codes: not looked at.
            bit_maps: ``n``; None where a message has none.
            store_timestamps: ``(n,)`` ms.
        """
        # Asked now, behind the reading of the bit maps: those that were computed without the
        # filter were written after it was taken back.
        known = self._find(self.consumer.topic, self.consumer.group)
        if known is None or not known.has_bits_of(self.consumer):
            return np.ones(len(tags_codes), np.bool_)
        return self.consumer.may_want(bit_maps, store_timestamps)


def group_of(retry_topic: str) -> str:
    """The group whose retries a topic holds; ``""`` for a topic of another kind."""
    if not retry_topic.startswith(RETRY_PREFIX):
        return ""
    return retry_topic.removeprefix(RETRY_PREFIX).partition("+")[0]


@attrs.frozen(eq=False)
class RetryFilter(Undecided):
    """A group's filter of its retry topic: messages of all topics, each by that topic's filter.

    Of a unit nobody knows from which topic its message came: bit maps say nothing.
    """

    by_topic: Mapping[str, Expression]
    """What the group has registered, by topic."""

    kind = SQL92

    def matches(self, message: MessageView | Mapping[str, str]) -> bool:
        """Whether the group wants a message; it wants those for which it has no filter."""
        properties = properties_of(message)
        wanted = self.by_topic.get(properties.get(_RETRY_TOPIC, ""))
        return wanted is None or wanted.matches(properties)

    def matches_batch(self, batch: DispatchBatch) -> npt.NDArray[np.bool_]:
        """``(n,)``: which messages of a batch the group wants."""
        result = np.ones(len(batch), np.bool_)
        columns = Columns(len(batch), batch.text)
        topics = columns.texts(_RETRY_TOPIC)
        for topic, wanted in self.by_topic.items():
            rows = np.flatnonzero(topics.equals(topic))
            if len(rows):
                result[rows] = wanted.codes(columns.take(rows)) == TRUE
        return result
