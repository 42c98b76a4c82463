"""What the producers of a kill loop put: the same messages for the same seed, in any process.

The writer that will be killed puts them; the process that checks the store makes them again and
compares. Each producer numbers its messages from 0 and makes one call after another, so that of the
unacknowledged messages at most those of one call can be in the log.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Iterator, Sequence
from typing import Any, Final

import attrs

from reput.errors import CorruptFileError
from reput.record import Columns, Message, MessageView, encode_property_text
from reput.record.layout import PROPERTY_CRC, TRANSACTION_PREPARED

PUT: Final = "put"
PUT_MANY: Final = "put_many"
PUT_COLUMNS: Final = "put_columns"
PUT_WHOLE: Final = "put_whole"
FLUSH: Final = "flush"
READ: Final = "read"

_KINDS = (PUT, PUT_MANY, PUT_COLUMNS, PUT_WHOLE, FLUSH, READ)
_WEIGHTS = (60, 12, 8, 8, 6, 6)
_MOST = 24  # messages of one call
_MOST_WHOLE = 12  # of a `PUT_WHOLE`, which must fit into the smallest log file
_TOPICS = ("orders", "payments", "%RETRY%orders-group")
_QUEUES = 3
_TAGS = (None, None, "paid", "TagA", "открыт")
_PROPERTIES = (None, None, {"region": "eu"}, {"empty": "", "n": "1"})
_RECORD_CRC = PROPERTY_CRC.encode()
_SENDER = struct.Struct(">QHI")  # seed, thread, sequence
_SENDER_PROPERTY: Final = b"REPUT_SENDER\x01"


@attrs.frozen
class Sender:
    """The producer of a message, as the message's body names it."""

    seed: int
    thread: int
    sequence: int

    @classmethod
    def of(cls, body: bytes) -> Sender | None:
        """Return the sender of a message with that body; None if no producer makes such a body."""
        return cls(*_SENDER.unpack_from(body)) if len(body) >= _SENDER.size else None

    @classmethod
    def of_message(cls, view: MessageView) -> Sender | None:
        """Return the sender of a message of the log; None if no producer makes such a message.

        Messages that a contract adds have bodies of their own, and name the sender in a property.
        """
        _, is_there, rest = view.properties_text.partition(_SENDER_PROPERTY)
        return cls.of(bytes.fromhex(rest[: 2 * _SENDER.size].decode()) if is_there else view.body)

    def added_to(self, message: Message) -> Message:
        """Return ``message`` with a property that names this sender."""
        name = _SENDER_PROPERTY[:-1].decode()
        value = _SENDER.pack(self.seed, self.thread, self.sequence).hex()
        if isinstance(message.properties, bytes):
            properties: Any = message.properties + f"{name}\1{value}\2".encode()
        else:
            properties = {**(message.properties or {}), name: value}
        return attrs.evolve(message, properties=properties, flag=self.sequence)


@attrs.frozen
class Call:
    """One call of one producer."""

    kind: str
    first: int
    """Sequence number of its first message."""
    messages: tuple[Message, ...] = ()

    def columns(self) -> Columns:
        """The messages as columns."""
        messages = self.messages
        return Columns(
            topic=[each.topic for each in messages],
            body=[each.body for each in messages],
            queue_id=[each.queue_id for each in messages],
            tags=[each.tags for each in messages],
            keys=[each.keys for each in messages],
            properties=[each.properties or {} for each in messages],
            flag=[each.flag for each in messages],
            sys_flag=[each.sys_flag for each in messages],
        )

    def difference(self, row: int, found: MessageView) -> str:
        """Return how ``found`` differs from message ``row`` of this call; empty if it does not."""
        message = self.messages[row]
        properties = encode_property_text(message)
        expected = {
            "topic": message.topic,
            "queue_id": found.queue_id if message.queue_id is None else message.queue_id,
            "body": message.body,
            "flag": message.flag,
            "sys_flag": message.sys_flag,
        }
        try:
            for name, value in expected.items():
                if getattr(found, name) != value:
                    return f"{name} is {getattr(found, name)!r}, {value!r} was put"
            text = found.properties_text
            rest = text[len(properties) :]
            if not text.startswith(properties) or (rest and not rest.startswith(_RECORD_CRC)):
                return f"properties are {text!r}, {properties!r} were put"
        except CorruptFileError as error:
            return str(error)
        return ""


def calls(
    seed: int, thread: int, max_body_size: int, added: Sequence[Message] = ()
) -> Iterator[Call]:
    """Return the calls of producer ``thread``, without end; every other message is an added one."""
    chance = random.Random(f"{seed}:{thread}")
    sequence = 0
    while True:
        kind = chance.choices(_KINDS, _WEIGHTS)[0]
        if kind in (FLUSH, READ):
            yield Call(kind, sequence)
            continue
        most = {PUT: 1, PUT_WHOLE: _MOST_WHOLE}.get(kind, _MOST)
        count = chance.randint(1, most)
        messages = [
            _message(chance, Sender(seed, thread, sequence + number), kind, max_body_size, added)
            for number in range(count)
        ]
        yield Call(kind, sequence, tuple(messages))
        sequence += count


def _message(
    chance: random.Random, sender: Sender, kind: str, max_body_size: int, added: Sequence[Message]
) -> Message:
    # One log file has room for all messages of a whole put, so these are small.
    if added and kind != PUT_WHOLE and chance.random() < 0.5:
        return sender.added_to(chance.choice(added))
    size = chance.randint(0, 200)
    if kind != PUT_WHOLE and chance.random() < 0.02:
        size = chance.randint(0, max_body_size - _SENDER.size)
    prepared = chance.random() < 0.03
    return Message(
        chance.choice(_TOPICS),
        _SENDER.pack(sender.seed, sender.thread, sender.sequence) + chance.randbytes(size),
        queue_id=chance.randrange(_QUEUES),
        tags=chance.choice(_TAGS),
        keys=[f"key-{sender.sequence}", "k"][: chance.randint(0, 2)] or None,
        properties=chance.choice(_PROPERTIES),
        flag=sender.sequence,
        sys_flag=TRANSACTION_PREPARED if prepared else 0,
    )
