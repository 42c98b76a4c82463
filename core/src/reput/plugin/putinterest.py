"""`PutInterest`: the properties and topics of messages for which a plugin's `reput_put` is called.

Other messages and columns go to the log without that call.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np

from reput.engine import kernel
from reput.record.layout import NAME_END, PROPERTY_KEYS, PROPERTY_TAGS

if TYPE_CHECKING:
    from reput.record.encoding.batchencoder import Columns
    from reput.record.messages.message import Message


@attrs.frozen
class PutInterest:
    """Messages for which a plugin's `reput_put` must be called; it may be called for others, too.

    A message is of interest if it has one of the properties or is of one of the topics.
    """

    properties: frozenset[str] = frozenset()
    """Names of properties."""
    topics: frozenset[str] = frozenset()

    def covers_message(self, message: Message) -> bool:
        """Whether ``message`` may be of interest, even if its values are of a caller's own classes.

        Every put asks this, so the usual message, which has no properties, is decided first.
        """
        try:
            topic, given = message.topic, message.properties
        except AttributeError:
            return True  # no message: the encoder refuses it
        if type(topic) is not str or topic in self.topics or self.properties & _OF_FIELDS:
            return True
        if given is None or not self.properties:
            return False
        if type(given) is bytes:
            return self._is_in(given)
        if type(given) is not dict:
            return True
        names = self.properties
        for name in given:  # noqa: SIM110  # a loop takes half the time of `any`
            # A name of a caller's own class may define an `__eq__` that equals nothing.
            if type(name) is not str or name in names:
                return True
        return False

    def names(self) -> tuple[frozenset[str], frozenset[str]] | None:
        """Return topics and properties as exact `str`; None if they do not decide it alone."""
        if self.properties & _OF_FIELDS:
            return None
        topics, properties = map(_plain, (self.topics, self.properties))
        return topics, properties

    def covers(self, columns: Columns) -> bool:
        """Whether any row of ``columns`` may be of interest."""
        return self._names_a_topic(columns.topic) or self._has_property(columns)

    def _names_a_topic(self, topic: Any) -> bool:
        if not self.topics:
            return False
        if isinstance(topic, str):
            return topic in self.topics
        if _is_pair(topic):
            return any(name.encode() in bytes(topic[1]) for name in self.topics)
        return not self.topics.isdisjoint(topic)

    def _has_property(self, columns: Columns) -> bool:
        if self.properties & _OF_FIELDS:
            return True
        found = columns.properties
        if not self.properties or found is None:
            return False
        if isinstance(found, bytes):
            return self._is_in(found)
        if isinstance(found, Mapping):
            return not self.properties.isdisjoint(found)
        if _is_pair(found):
            return self._is_in(bytes(found[1]))
        rows: Any = found
        kinds = set(map(type, rows))
        if kinds <= _MAPPINGS:  # without a step of Python for each row
            return not all(map(self.properties.isdisjoint, filter(None, rows)))
        return any(
            self._is_in(row) if isinstance(row, bytes) else not self.properties.isdisjoint(row)
            for row in rows
            if row
        )

    def _is_in(self, text: bytes) -> bool:
        """Whether ``text``, one property text or several, may hold one of the names."""
        return any(name.encode() + _END in text for name in self.properties)


@kernel
def concerns_any(
    messages: Sequence[Message], topics: frozenset[str], properties: frozenset[str]
) -> bool:
    """Return whether any message may be of one of these topics, or have one of these properties."""
    return any(map(PutInterest(properties, topics).covers_message, messages))


@kernel
def concerns_columns(columns: Columns, topics: frozenset[str], properties: frozenset[str]) -> bool:
    """Return whether any row may be of one of these topics, or have one of these properties."""
    return PutInterest(properties, topics).covers(columns)


def united(interests: Iterable[PutInterest | None]) -> PutInterest | None:
    """Return the interest of any of several plugins; None (everything) if one is None."""
    properties: frozenset[str] = frozenset()
    topics: frozenset[str] = frozenset()
    for each in interests:
        if each is None:
            return None
        properties, topics = properties | each.properties, topics | each.topics
    return PutInterest(properties, topics)


def _plain(names: frozenset[str]) -> frozenset[str]:
    return frozenset(map(str.__str__, names))


def _is_pair(column: Any) -> bool:
    """Whether ``column`` is an ``(offsets, data)`` pair, as Arrow has them."""
    return isinstance(column, tuple) and len(column) == 2 and isinstance(column[0], np.ndarray)


_END = bytes([NAME_END])
_MAPPINGS = frozenset({dict, type(None)})
_OF_FIELDS = frozenset({PROPERTY_KEYS, PROPERTY_TAGS})
