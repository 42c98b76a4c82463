"""``.rocketmq_offsets/<client id>/<group>/offsets.json``: how far one broadcasting consumer is.

Each member of a broadcasting group reads everything, so each keeps its own offsets, at its client.
The keys of the table are objects, which JSON does not allow:

    {
        "offsetTable":{{
            "brokerName":"broker-a",
            "queueId":0,
            "topic":"T"
        }:12
        }
    }

Source: RocketMQ ``LocalFileOffsetStore`` and ``OffsetSerializeWrapper``.
"""

from __future__ import annotations

import json
import logging
import os
import threading
from collections.abc import Callable, Mapping
from typing import Any, Final

import attrs

from reput.files import Disk, is_safe_name
from reput_consumer.messagequeue import MessageQueue
from reput_tools.brokerfiles import (
    integer_of,
    keep_copy,
    member_of,
    offset_of,
    read_loosely,
    table_of,
    text_of,
)

logger = logging.getLogger(__name__)

DIRECTORY: Final = ".rocketmq_offsets"
FILE_NAME: Final = "offsets.json"
_SIZE_MAX: Final = 64 << 20
_TABLE: Final = "offsetTable"


@attrs.define(eq=False)
class LocalOffsets:
    """The file of one consumer. Saves are thread-safe."""

    home: str
    """Directory in which `DIRECTORY` is."""
    client_id: str
    group: str
    disk: Disk = attrs.field(factory=Disk)
    flush_messages: Callable[[], object] = lambda: None
    """Called before each write: makes the messages durable that the offsets count. Nothing where
    the messages are at a broker, which does not report when they are on its disk."""
    _saved: dict[MessageQueue, int] = attrs.field(init=False, factory=dict)
    _unreadable: dict[str, bytes] = attrs.field(init=False, factory=dict)
    """By path: the bytes of files that could not be read."""
    _saving: threading.RLock = attrs.field(init=False, factory=threading.RLock)

    def __attrs_post_init__(self) -> None:
        for name in (self.client_id, self.group):
            if not is_safe_name(name):
                raise ValueError(
                    f"{name[:100]!r}, {len(name)} characters: it becomes the name of a directory, "
                    "which has no / and at most 255 bytes"
                )

    @property
    def path(self) -> str:
        """Path of the file."""
        return os.path.join(self.home, DIRECTORY, self.client_id, self.group, FILE_NAME)

    def load(self) -> dict[MessageQueue, int]:
        """Return the saved offsets by queue; of the backup if the file is torn or empty."""
        self._unreadable = {}
        for path in (self.path, f"{self.path}.bak"):
            data = b""
            try:
                data = self.disk.read_file(path, _SIZE_MAX)
                self._saved = decode(data)
            except FileNotFoundError:
                continue
            except (OSError, ValueError) as error:
                logger.warning("offsets ignored file=%s error=%s", path, error)
                if data:
                    self._unreadable[path] = data
                continue
            return dict(self._saved)
        return {}

    def save(self, offsets: Mapping[MessageQueue, int]) -> bool:
        """Write ``offsets``, and those of other queues that the file had; return whether changed.

        A copy is kept of a file that could not be read.

        Raises:
            ReputError: the messages that they count are not on disk; the file is as it was.
            OSError: the file cannot be written; it is as it was.
        """
        with self._saving:
            merged = {**self._saved, **offsets}
            if merged == self._saved:
                return False
            self.flush_messages()
            self.disk.make_directory(os.path.dirname(self.path), durable=True)
            for path, data in self._unreadable.items():
                keep_copy(self.disk, path, data)
            self._unreadable = {}
            if self._saved:
                self.disk.replace(f"{self.path}.bak", encode(self._saved))
            self.disk.replace(self.path, encode(merged))
            self._saved = merged
            return True


def encode(offsets: Mapping[MessageQueue, int]) -> bytes:
    """Return the file's bytes."""
    entries = ",".join(f"{_key(queue)}:{offset}" for queue, offset in sorted(offsets.items()))
    table = f"{{{entries}\n\t}}" if entries else "{}"
    return f'{{\n\t"{_TABLE}":{table}\n}}'.encode()


def _key(queue: MessageQueue) -> str:
    topic, broker = (json.dumps(text, ensure_ascii=False) for text in (queue.topic, queue.broker))
    members = (f'"brokerName":{broker}', f'"queueId":{queue.queue_id}', f'"topic":{topic}')
    return "{\n\t\t" + ",\n\t\t".join(members) + "\n\t}"


def decode(data: bytes) -> dict[MessageQueue, int]:
    """Return offsets by queue.

    Raises:
        ValueError: the bytes are not such a file; the text says at which character.
    """
    try:
        document = read_loosely(data.decode("utf-8", "replace"), _queue)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error
    if not isinstance(document, dict):
        raise ValueError("it does not hold a JSON object")
    found: dict[MessageQueue, int] = {}
    table: Mapping[Any, Any] = table_of(document, _TABLE)
    for queue, value in table.items():
        offset = offset_of(value, _TABLE)
        if isinstance(queue, MessageQueue) and offset >= 0:
            found[queue] = offset
        elif isinstance(queue, MessageQueue):
            logger.warning(
                "offset ignored, as it is negative; the member begins there like a new one "
                "queue=%s/%d offset=%d",
                *(queue.topic, queue.queue_id, offset),
            )
    return found


def _queue(key: object) -> MessageQueue:
    if isinstance(key, dict):
        topic, broker = (text_of(member_of(key, name)) for name in ("topic", "brokerName"))
        queue_id = integer_of(member_of(key, "queueId"), 32)
        if topic is not None and broker is not None and queue_id is not None:
            return MessageQueue(topic, broker, queue_id)
    raise ValueError("a queue with topic, brokerName and queueId is expected")
