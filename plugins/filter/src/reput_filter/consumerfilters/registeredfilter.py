"""Read filters that consumer groups have registered: checked in bit maps, then in records.

Source: RocketMQ ``ExpressionMessageFilter``, ``ExpressionForRetryMessageFilter``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import attrs
import numpy as np

from reput_filter.columns.propertycolumns import PropertyColumns
from reput_filter.columns.truthcodes import TRUE
from reput_filter.consumerfilters.consumerfilter import ConsumerFilter
from reput_filter.expression import Expression, Undecided, properties_of
from reput_filter.filterkinds import SQL92

if TYPE_CHECKING:
    import numpy.typing as npt

    from reput.record import DispatchBatch, MessageView

RETRY_PREFIX: Final = "%RETRY%"
_RETRY_TOPIC: Final = "RETRY_TOPIC"


@attrs.frozen(eq=False)
class RegisteredFilter:
    """A condition that a group has registered; thread-safe.

    Bit maps are used only while the group's registered filter is the one that this was made of: no
    bits are computed for a filter that was changed or forgotten. Pickled, it becomes the plain
    condition, as another process cannot check that.
    """

    consumer: ConsumerFilter
    _find: Callable[[str, str], ConsumerFilter | None]
    """Returns the filter that is registered now, by topic and group."""

    kind = SQL92

    def __str__(self) -> str:
        return self.consumer.expression

    def __reduce__(self) -> str | tuple[Any, ...]:
        return self.consumer.compiled.__reduce__()

    def matches(self, message: MessageView | Mapping[str, str]) -> bool:
        """Return whether the group wants a message."""
        return self.consumer.compiled.matches(message)

    def matches_batch(self, batch: DispatchBatch) -> npt.NDArray[np.bool_]:
        """Return ``(n,)``: which messages of a batch the group wants."""
        return self.consumer.compiled.matches_batch(batch)

    def may_match(
        self,
        tags_codes: npt.NDArray[np.int64],
        bit_maps: Sequence[bytes | None],
        store_timestamps: npt.NDArray[np.int64],
    ) -> npt.NDArray[np.bool_]:
        """Return ``(n,)``: which messages the group may want, as far as their bit maps tell.

        Args:
            tags_codes: not used.
            bit_maps: ``n``; None for a message without one.
            store_timestamps: ``(n,)`` ms.
        """
        # Only now, after the bit maps were read: maps computed without the filter were written
        # after it was withdrawn.
        known = self._find(self.consumer.topic, self.consumer.group)
        if known is None or not known.has_bits_of(self.consumer):
            return np.ones(len(tags_codes), np.bool_)
        return self.consumer.may_want(bit_maps, store_timestamps)


def group_of(retry_topic: str) -> str:
    """Return the group whose retries a topic holds; ``""`` for any other topic."""
    if not retry_topic.startswith(RETRY_PREFIX):
        return ""
    return retry_topic.removeprefix(RETRY_PREFIX).partition("+")[0]


@attrs.frozen(eq=False)
class RetryFilter(Undecided):
    """A group's filter of its retry topic: messages of all topics, each by that topic's filter.

    A unit does not tell from which topic its message came, so bit maps are of no use.
    """

    by_topic: Mapping[str, Expression]
    """The group's registered conditions, by topic."""

    kind = SQL92

    def matches(self, message: MessageView | Mapping[str, str]) -> bool:
        """Return whether the group wants a message; without a filter for its topic, it does."""
        properties = properties_of(message)
        wanted = self.by_topic.get(properties.get(_RETRY_TOPIC, ""))
        return wanted is None or wanted.matches(properties)

    def matches_batch(self, batch: DispatchBatch) -> npt.NDArray[np.bool_]:
        """Return ``(n,)``: which messages of a batch the group wants."""
        result = np.ones(len(batch), np.bool_)
        columns = PropertyColumns(len(batch), batch.text)
        topics = columns.texts(_RETRY_TOPIC)
        for topic, wanted in self.by_topic.items():
            rows = np.flatnonzero(topics.equals(topic))
            if len(rows):
                result[rows] = wanted.codes(columns.take(rows)) == TRUE
        return result
