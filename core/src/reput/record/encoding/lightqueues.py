"""Light queues: further queues that list a message, named by a property of the message.

Source: RocketMQ 5.3 ``MultiDispatch`` / ``LmqDispatch``: each ``%LMQ%…`` name in
``INNER_MULTI_DISPATCH`` has one queue, 0, with its own queue offsets; the record carries these in
``INNER_MULTI_QUEUE_OFFSET``. Different on purpose: dead letters and messages of half topics, which
RocketMQ lists once more, are in no light queue, and neither are messages that no queue lists; and a
name that no directory can have is refused. Inner batches: one record that counts as ``INNER_NUM``
messages.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, MutableMapping
from typing import TYPE_CHECKING, NamedTuple

import attrs
import numpy as np

from reput.errors import LightQueueCountError, MessageIllegalError
from reput.record.layout import (
    DEAD_LETTER_PREFIX,
    INNER_BATCH,
    LIGHT_QUEUE_PREFIX,
    PROPERTY_INNER_BASE,
    PROPERTY_INNER_NUM,
    PROPERTY_LIGHT_QUEUE_OFFSETS,
    PROPERTY_LIGHT_QUEUES,
    RETRY_PREFIX,
    TRANSACTION_COMMIT,
    TRANSACTION_MASK,
)
from reput.record.messages.message import Message
from reput.record.text.properties import encode_properties, parse_properties

if TYPE_CHECKING:
    import numpy.typing as npt

    from reput.record.batch import DispatchBatch
    from reput.record.encoding.encoder import Encoder, Prepared

_HIDDEN_PREFIXES = (RETRY_PREFIX, DEAD_LETTER_PREFIX, "rmq_sys_", "RMQ_SYS_")
_HIDDEN_TOPICS = ("SCHEDULE_TOPIC_XXXX", "TRANS_CHECK_MAX_TIME_TOPIC")
_NAME_SIZE_MAX = 255  # bytes that a file system allows for one component of a path
_NUMBER = re.compile(r"[0-9]{1,19}")  # `str.isdigit` is true of digits that `int` does not take
_COUNT_MAX = (1 << 31) - 1


class OffsetsAhead(dict[tuple[str, int], int]):
    """Next queue offsets of messages that are about to be appended; of other queues the stored."""

    def __init__(self, stored: Callable[[tuple[str, int]], int]) -> None:
        super().__init__()
        self._stored = stored

    def __missing__(self, key: tuple[str, int]) -> int:
        return self._stored(key)


@attrs.define(eq=False, repr=False)
class LightQueueLimit:
    """How many light queues exist, and may exist."""

    max_count: int
    count: int = 0
    hidden: Mapping[str, int] = attrs.field(factory=dict)
    """Names of light queues that do not count as long as they end at this queue offset."""

    def is_counted(self, name: str, next_offset: int) -> bool:
        """Whether a light queue with that next queue offset counts."""
        return next_offset > self.hidden.get(name, 0)

    def add(self, count: int) -> None:
        """Count further light queues.

        Raises:
            LightQueueCountError: these would be more than allowed; nothing has changed.
        """
        if count and self.count + count > self.max_count:
            raise LightQueueCountError(
                PROPERTY_LIGHT_QUEUES, self.count + count, self.max_count, "light queues"
            )
        self.count += count


def light_queue_names(topic: str, properties: Mapping[str, str]) -> list[str]:
    """Return the names that ``properties`` list; none for topics that hold copies of messages."""
    listed = properties.get(PROPERTY_LIGHT_QUEUES, "")
    if not listed.strip() or topic in _HIDDEN_TOPICS or topic.startswith(_HIDDEN_PREFIXES):
        return []
    return listed.split(",")


def check_light_queue(field: str, name: str) -> None:
    """Refuse the name of a light queue that no directory can have.

    Args:
        field: what the error names.
        name: the name, which begins with ``%LMQ%``.

    Raises:
        MessageIllegalError: it has ``/`` or characters that cannot be printed, or is too long.
    """
    if "/" in name or not name.isprintable():
        raise MessageIllegalError(field, name, None, "it cannot be the name of a directory")
    size = len(name.encode())  # printable text has no lone surrogates
    if size > _NAME_SIZE_MAX:
        raise MessageIllegalError(field, size, _NAME_SIZE_MAX, "too many bytes")


def with_light_queue_offsets(
    message: Message,
    properties_text: bytes,
    next_offsets: Mapping[tuple[str, int], int],
    limit: LightQueueLimit,
    *,
    is_listed: bool,
) -> tuple[Message, dict[tuple[str, int], int]]:
    """Return ``message`` with a property of its light queues' offsets, and the offsets by queue.

    A message that is in no light queue, such as the copy of one that is, states no offsets.

    Raises:
        MessageIllegalError: a name that no light queue can have.
        LightQueueCountError: the message would create more light queues than allowed.
    """
    properties = parse_properties(properties_text)
    names = light_queue_names(message.topic, properties) if is_listed else []
    if not names:
        if properties.pop(PROPERTY_LIGHT_QUEUE_OFFSETS, None) is None:
            return message, {}
        return _with_properties(message, properties), {}
    offsets: dict[tuple[str, int], int] = {}
    texts = []
    for name in names:
        if not name.startswith(LIGHT_QUEUE_PREFIX):
            texts.append("")
            continue
        check_light_queue(PROPERTY_LIGHT_QUEUES, name)
        key = name, 0
        offsets[key] = next_offsets[key]
        texts.append(str(offsets[key]))
    limit.add(sum(not limit.is_counted(key[0], offset) for key, offset in offsets.items()))
    properties[PROPERTY_LIGHT_QUEUE_OFFSETS] = ",".join(texts)
    return _with_properties(message, properties), offsets


def _with_properties(message: Message, properties: dict[str, str]) -> Message:
    """Return ``message`` with these properties, in their order."""
    text = encode_properties(properties).encode()
    return attrs.evolve(message, keys=None, tags=None, properties=text)


def inner_message_count(prepared: Prepared) -> int:
    """Return how many messages one record counts as: 1, or ``INNER_NUM`` of an inner batch.

    Raises:
        MessageIllegalError: ``INNER_NUM`` without the flag of an inner batch, or not a number.
    """
    count = parse_properties(prepared[7]).get(PROPERTY_INNER_NUM)
    if not prepared[9] & INNER_BATCH:
        if count is not None:
            raise MessageIllegalError(
                PROPERTY_INNER_NUM, count, None, "only inner batches (sys_flag 0x80) have it"
            )
        return 1
    stated = stated_number(count, _COUNT_MAX)
    if stated is None:
        raise MessageIllegalError(PROPERTY_INNER_NUM, count, _COUNT_MAX, "a number expected")
    return max(stated, 1)


def inner_counts(batch: DispatchBatch) -> npt.NDArray[np.int64]:
    """Return how many queue offsets each record takes, ``(n,)``; 1 if it states no number."""
    counts = np.ones(len(batch), np.int64)
    is_inner = (batch.sys_flag & INNER_BATCH) != 0
    if is_inner.any():
        stated = batch.text(PROPERTY_INNER_NUM)
        for row in np.flatnonzero(is_inner & stated.present).tolist():
            counts[row] = max(stated_number(stated[row], _COUNT_MAX) or 1, 1)
    return counts


def stated_number(text: str | None, largest: int) -> int | None:
    """Return the number that a property states; None if it states none up to ``largest``."""
    # Bounded before it is converted, as a property may be any text.
    if text is None or _NUMBER.fullmatch(text) is None or int(text) > largest:
        return None
    return int(text)


class InQueues(NamedTuple):
    """A message that has its queue offsets, but no physical offset yet."""

    prepared: Prepared
    queue_offset: int
    following: Mapping[tuple[str, int], int]
    """Next queue offset of each queue that lists the message."""


def in_queues(
    prepared: Prepared,
    next_offsets: MutableMapping[tuple[str, int], int],
    encoder: Encoder,
    limit: LightQueueLimit | None,
) -> InQueues:
    """Give a message its offset in each queue that lists it.

    Args:
        prepared: the message.
        next_offsets: next offset of each queue, 0 of unknown ones; advanced past the message.
        encoder: encodes the message once more if offsets become properties.
        limit: counts new light queues; None if the store has no light queues.

    Raises:
        MessageIllegalError: ``INNER_NUM`` and the flag of an inner batch disagree, or a light queue
            has a name that it cannot have.
        LightQueueCountError: the message would create more light queues than allowed.
    """
    message, special, queue_id = prepared[4], prepared[10], prepared[11]
    count = inner_message_count(prepared) if special else 1
    light: dict[tuple[str, int], int] = {}
    counts = prepared[9] & TRANSACTION_MASK in (0, TRANSACTION_COMMIT)
    if limit is not None and special:
        message, light = with_light_queue_offsets(
            message, prepared[7], next_offsets, limit, is_listed=counts
        )
        prepared = encoder.prepare(attrs.evolve(message, queue_id=queue_id))
    key = message.topic, queue_id
    queue_offset = next_offsets[key] if counts else 0
    if prepared[9] & INNER_BATCH:
        properties = {**parse_properties(prepared[7]), PROPERTY_INNER_BASE: str(queue_offset)}
        prepared = encoder.prepare(_with_properties(prepared[4], properties))
    following = {light_key: light_offset + 1 for light_key, light_offset in light.items()}
    if counts:
        following[key] = queue_offset + count
    next_offsets.update(following)
    return InQueues(prepared, queue_offset, following)
