"""Putting what is due: each message that a store takes, and no other; for both engines."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from reput.errors import MessageIllegalError, PropertiesSizeError

if TYPE_CHECKING:
    from reput.plugin import StoreAccess
    from reput.record import Message

logger = logging.getLogger(__name__)

__all__ = ["put_storable"]


def put_storable(
    store: StoreAccess, messages: Sequence[Message]
) -> Iterator[tuple[Sequence[Message], int | None]]:
    """Put messages in their order, without those that no store takes.

    Yields:
        Messages with the physical offset after the last of them, as soon as they are stored; a
        single message with None, as soon as it is refused.
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
    # Nothing of it was stored. The message to blame is found by halves.
    half = len(messages) // 2
    yield from put_storable(store, messages[:half])
    yield from put_storable(store, messages[half:])
