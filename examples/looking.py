"""How to get what a message has, out of a batch: bodies, keys, properties, compressed bodies."""

from __future__ import annotations

import zlib

import numpy as np
import numpy.typing as npt

import reput

SYSTEM_TOPICS = ("%", "RMQ_SYS_", "rmq_sys_", "SCHEDULE_TOPIC_XXXX", "TRANS_CHECK_MAX_TIME_TOPIC")
"""What the topics begin with that RocketMQ and the plugins use for themselves."""


def rows_of_own_topics(batch: reput.DispatchBatch) -> npt.NDArray[np.int64]:
    """Return the rows of messages in own topics: ``batch.topic_code[rows]`` are their topics."""
    is_own = [not topic.startswith(SYSTEM_TOPICS) for topic in batch.topics]
    return np.flatnonzero(np.array(is_own, bool)[batch.topic_code])


def bodies(batch: reput.DispatchBatch) -> list[bytes]:
    """Return a copy of each body; the batch itself is valid only until the hook returns."""
    return [body or b"" for body in batch.body.as_bytes()]


def sizes_by_topic(batch: reput.DispatchBatch) -> dict[str, int]:
    """Return the bytes of all bodies by topic, without an object for any message."""
    sums = np.bincount(batch.topic_code, batch.body.sizes, minlength=len(batch.topics))
    return {topic: int(sums[code]) for code, topic in enumerate(batch.topics) if sums[code]}


def keys(batch: reput.DispatchBatch) -> list[tuple[str, ...]]:
    """Return the keys of each message: ``KEYS`` is one text, with spaces between the keys."""
    texts = batch.text("KEYS").tolist()
    return [tuple((text or "").split()) for text in texts]


def has_property(batch: reput.DispatchBatch, name: str) -> npt.NDArray[np.bool_]:
    """Return which messages have the property ``name``: ``(n,)``, True or False."""
    return batch.text(name).present


def unpacked(message: reput.MessageView, limit: int = 64 << 20) -> bytes:
    """Return the body as it was before the producer compressed it.

    Raises:
        ValueError: it is damaged, of another kind than zlib, or of more than ``limit`` bytes.
    """
    if message.compression is None:
        return message.body
    if message.compression != "zlib":
        raise ValueError(f"{message.msg_id} is compressed by {message.compression}")
    unpacking = zlib.decompressobj()
    try:
        body = unpacking.decompress(message.body, limit)
    except zlib.error as error:
        raise ValueError(f"{message.msg_id} is not valid zlib data: {error}") from error
    if not unpacking.eof:
        raise ValueError(f"{message.msg_id} is cut short, or has more than {limit} bytes")
    return body


def damaged_places(path: str) -> list[reput.Corruption]:
    """Return where the log of a store is damaged; what lies between is read all the same."""
    with reput.open(path, "r", plugins=[]) as store:
        findings = [batch.finding for batch in store.scan(check_crc=True)]
    return [finding for finding in findings if finding is not None]
