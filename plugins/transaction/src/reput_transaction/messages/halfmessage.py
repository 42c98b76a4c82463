"""`HalfMessage`: a message that waits for its transaction to end."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from reput_transaction.layout import (
    PROPERTY_CHECK_TIMES,
    PROPERTY_GROUP,
    PROPERTY_IMMUNITY,
    PROPERTY_MEMBER_OF,
    PROPERTY_REAL_QUEUE_ID,
    PROPERTY_REAL_TOPIC,
    PROPERTY_TRANSACTION_ID,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from reput.record import MessageView

QUEUE_ID_MAX = (1 << 31) - 1


@attrs.frozen(eq=False)
class HalfMessage:
    """A half message as its producer sees it, with the topic and queue of the final message."""

    record: MessageView
    """The half message as it is stored."""

    @property
    def transaction_id(self) -> str:
        """The producer's id of the message (``UNIQ_KEY``); without one its offset message id."""
        found = self.record.unique_key or self.properties.get(PROPERTY_TRANSACTION_ID)
        return found or self.msg_id

    @property
    def member_of(self) -> str | None:
        """Id of the `TransactionPlugin.transaction` that it belongs to; None if it is alone."""
        return self.properties.get(PROPERTY_MEMBER_OF)

    @property
    def group(self) -> str | None:
        """The producer group (``PGROUP``)."""
        return self.properties.get(PROPERTY_GROUP)

    @property
    def topic(self) -> str | None:
        """The real topic; None if the record does not name it."""
        return self.properties.get(PROPERTY_REAL_TOPIC)

    @property
    def queue_id(self) -> int | None:
        """The real queue id; None if the record does not name it."""
        return number_of(self.properties.get(PROPERTY_REAL_QUEUE_ID), QUEUE_ID_MAX)

    @property
    def times_checked(self) -> int:
        """How often a check asked the producer what became of the transaction."""
        return number_of(self.properties.get(PROPERTY_CHECK_TIMES), QUEUE_ID_MAX) or 0

    @property
    def immunity_ms(self) -> int | None:
        """How long it asks not to be checked, ms since its birth; None if it does not ask."""
        seconds = number_of(self.properties.get(PROPERTY_IMMUNITY), QUEUE_ID_MAX)
        return None if seconds is None else seconds * 1_000

    @property
    def body(self) -> bytes:
        """The body."""
        return self.record.body

    @property
    def keys(self) -> tuple[str, ...]:
        """The words of the ``KEYS`` property."""
        return self.record.keys

    @property
    def tags(self) -> str | None:
        """The ``TAGS`` property."""
        return self.record.tags

    @property
    def properties(self) -> Mapping[str, str]:
        """All properties."""
        return self.record.properties

    @property
    def born_timestamp(self) -> int:
        """When the producer made it, ms."""
        return self.record.born_timestamp

    @property
    def store_timestamp(self) -> int:
        """When the log took it, ms; for the copy of a check, when the copy was stored."""
        return self.record.store_timestamp

    @property
    def queue_offset(self) -> int:
        """Its place in the half queue."""
        return self.record.queue_offset

    @property
    def physical_offset(self) -> int:
        """Its physical offset, to which the committed message points."""
        return self.record.physical_offset

    @property
    def msg_id(self) -> str:
        """Offset message id."""
        return self.record.msg_id

    def age_ms(self, now: int) -> int:
        """Return the time since its birth, ms; negative if clocks disagree."""
        return now - self.born_timestamp


def number_of(text: str | None, limit: int) -> int | None:
    """Return a decimal number from 0 to ``limit``; None for any other text."""
    if text is None or not (text.isascii() and text.isdigit()) or len(text) > 19:
        return None
    number = int(text)
    return number if number <= limit else None
