"""Put the due messages that the store accepts and skip the others; for both engines."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from reput.errors import MessageIllegalError, PropertiesSizeError

if TYPE_CHECKING:
    from reput.plugin import StoreAccess
    from reput.record import Message

logger = logging.getLogger(__name__)


def put_storable(
    store: StoreAccess, messages: Sequence[Message]
) -> Iterator[tuple[Sequence[Message], int | None]]:
    """Put messages in their order, and skip each message that the store refuses for good.

    Yields:
        Stored messages with the physical offset after the last of them, after each write; a
        refused message alone, with None.
    """
    if not messages:
        return
    try:
        receipt = store.put_many(messages)
    except (MessageIllegalError, PropertiesSizeError) as error:
        if len(messages) == 1:
            logger.warning(
                "delayed message cannot be stored and is dropped topic=%r reason=%s",
                messages[0].topic,
                error,
            )
            yield messages, None
            return
    else:
        yield messages, receipt.end_offset
        return
    # The refused batch stored nothing. Halving it finds the message to blame.
    half = len(messages) // 2
    yield from put_storable(store, messages[:half])
    yield from put_storable(store, messages[half:])
