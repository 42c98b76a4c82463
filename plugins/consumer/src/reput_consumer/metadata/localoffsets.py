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

logger = logging.getLogger(__name__)

__all__ = ["DIRECTORY", "LocalOffsets", "decode", "encode"]

DIRECTORY: Final = ".rocketmq_offsets"
FILE_NAME: Final = "offsets.json"
_SIZE_MAX: Final = 64 << 20
_TABLE: Final = "offsetTable"
_OFFSET_MAX: Final = (1 << 63) - 1
_SPACE: Final = " \t\r\n"


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
    the messages are at a broker, which tells nobody when they are on its disk."""
    _saved: dict[MessageQueue, int] = attrs.field(init=False, factory=dict)
    _saving: threading.RLock = attrs.field(init=False, factory=threading.RLock)

    def __attrs_post_init__(self) -> None:
        for name in (self.client_id, self.group):
            if not is_safe_name(name):
                raise ValueError(f"{name!r}: it becomes the name of a directory, and cannot be one")

    @property
    def path(self) -> str:
        """Path of the file."""
        return os.path.join(self.home, DIRECTORY, self.client_id, self.group, FILE_NAME)

    def load(self) -> dict[MessageQueue, int]:
        """Return the saved offsets by queue; of the backup if the file is torn or empty."""
        for path in (self.path, f"{self.path}.bak"):
            try:
                self._saved = decode(self.disk.read_file(path, _SIZE_MAX))
            except FileNotFoundError:
                continue
            except (OSError, ValueError) as error:
                logger.warning("offsets ignored file=%s error=%s", path, error)
                continue
            return dict(self._saved)
        return {}

    def save(self, offsets: Mapping[MessageQueue, int]) -> bool:
        """Write ``offsets``, and those of other queues that the file had; return whether changed.

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
    reader = _Reader(data.decode("utf-8"))
    offsets: dict[MessageQueue, int] = {}
    reader.take("{")
    while not reader.takes("}"):
        name = reader.value()
        reader.take(":")
        if name == _TABLE:
            offsets = _table(reader)
        else:
            reader.value()  # of another release
        reader.takes(",")
    return offsets


def _table(reader: _Reader) -> dict[MessageQueue, int]:
    found = {}
    reader.take("{")
    while not reader.takes("}"):
        key = reader.value()
        reader.take(":")
        offset = reader.value()
        reader.takes(",")
        queue = _queue(key)
        if queue is not None and type(offset) is int and 0 <= offset <= _OFFSET_MAX:
            found[queue] = offset
    return found


def _queue(key: Any) -> MessageQueue | None:
    if not isinstance(key, dict):
        return None
    topic, broker, queue_id = key.get("topic"), key.get("brokerName"), key.get("queueId")
    if isinstance(topic, str) and isinstance(broker, str) and type(queue_id) is int:
        return MessageQueue(topic, broker, queue_id)
    return None


class _Reader:
    """Reads JSON values and signs one after the other, so that an object may be a key."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._decoder = json.JSONDecoder()

    def takes(self, sign: str) -> bool:
        """Read ``sign`` if it comes next, and return whether it did."""
        while self._text[self._at : self._at + 1] in tuple(_SPACE):
            self._at += 1
        if not self._text.startswith(sign, self._at):
            return False
        self._at += 1
        return True

    def take(self, sign: str) -> None:
        if not self.takes(sign):
            found = self._text[self._at : self._at + 20]
            raise ValueError(f"character {self._at}: {sign!r} expected, found {found!r}")

    def value(self) -> Any:
        self.takes("\0")  # skips spaces
        try:
            found, self._at = self._decoder.raw_decode(self._text, self._at)
        except RecursionError as error:
            raise ValueError(f"character {self._at}: nested too deeply") from error
        return found
