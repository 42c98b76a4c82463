"""Bodies of consumption by pop: acknowledgements of many messages, and who gets which queue.

Source: RocketMQ ``BatchAckMessageRequestBody``, ``BatchAck``, ``QueryAssignmentRequestBody``,
``QueryAssignmentResponseBody``, ``SetMessageRequestModeRequestBody``.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable, Sequence
from typing import Any, Final

import attrs

from reput_client.remoting.bodies.bodyobject import BodyObject
from reput_client.remoting.bodies.loosejson import write_body
from reput_client.remoting.bodies.queuename import QueueName
from reput_client.remoting.errors import BodyError

_MODES: Final = ("PULL", "POP")
_MODELS: Final = ("BROADCASTING", "CLUSTERING")
_BITS_MAX: Final = 1 << 16
"""Messages of one queue from the first one acknowledged to the last one."""


@attrs.frozen(kw_only=True)
class AckedQueue:
    """Messages of one queue that one request was handed, to be counted as consumed."""

    group: str
    topic: str
    """The topic of the request, also of messages that came from the retry topic."""
    kind: str
    """``0``: the messages came from the topic; ``1``: from its retry topic."""
    queue_id: int
    pop_time: int
    revive_qid: int
    invisible_time: int = 0
    start_offset: int = 0
    queue_offsets: Sequence[int]


def encode_acks(broker: str, acks: Iterable[AckedQueue]) -> bytes:
    """Return the body that acknowledges messages."""
    return write_body({"acks": [_written(each) for each in acks], "brokerName": broker})


def _written(ack: AckedQueue) -> dict[str, Any]:
    bits = sum(1 << (offset - ack.start_offset) for offset in set(ack.queue_offsets))
    data = bits.to_bytes((bits.bit_length() + 7) // 8, "little")
    return {
        "b": base64.b64encode(data).decode(),
        "c": ack.group,
        "it": ack.invisible_time,
        "pt": ack.pop_time,
        "q": ack.queue_id,
        "r": ack.kind,
        "rq": ack.revive_qid,
        "so": ack.start_offset,
        "t": ack.topic,
    }


def decode_acks(body: bytes) -> list[AckedQueue]:
    """Return what a body acknowledges.

    Raises:
        BodyError: it is not such a body.
    """
    found, count = [], 0
    for each in BodyObject.of(body, "acknowledgements").objects("acks"):
        found.append(_read(each))
        count += len(found[-1].queue_offsets)
        if count > _BITS_MAX:
            raise BodyError(each.what, 0, f"more than {_BITS_MAX} messages are acknowledged")
    return found


def _read(found: BodyObject) -> AckedQueue:
    def name(short: str, long: str) -> str:
        return short if short in found.found else long

    start = found.integer(name("so", "startOffset"), 0)
    return AckedQueue(
        group=found.text(name("c", "consumerGroup")),
        topic=found.text(name("t", "topic")),
        kind=found.text(name("r", "retry"), "0"),
        queue_id=found.integer(name("q", "queueId"), 0, bits=32),
        pop_time=found.integer(name("pt", "popTime"), 0),
        revive_qid=found.integer(name("rq", "reviveQueueId"), 0, bits=32),
        invisible_time=found.integer(name("it", "invisibleTime"), 0),
        start_offset=start,
        queue_offsets=[start + place for place in _bits(found, name("b", "bitSet"))],
    )


def _bits(found: BodyObject, name: str) -> list[int]:
    text = found.text(name, "")
    try:
        data = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise BodyError(found.what, 0, f"{name} is {text[:40]!r}; Base64 expected") from None
    if len(data) * 8 > _BITS_MAX:
        raise BodyError(found.what, 0, f"{name} has {len(data) * 8} bits; {_BITS_MAX} at most")
    return [
        at * 8 + bit for at, byte in enumerate(data) if byte for bit in range(8) if byte >> bit & 1
    ]


@attrs.frozen(kw_only=True)
class AssignmentOf:
    """Requests which queues of a topic a member of a group is to read, and how."""

    topic: str
    group: str
    client_id: str
    strategy: str
    is_broadcasting: bool = False

    def encode(self) -> bytes:
        """Return the body."""
        return write_body(
            {
                "clientId": self.client_id,
                "consumerGroup": self.group,
                "messageModel": _MODELS[not self.is_broadcasting],
                "strategyName": self.strategy,
                "topic": self.topic,
            }
        )

    @classmethod
    def decode(cls, body: bytes) -> AssignmentOf:
        """Return the request in a body.

        Raises:
            BodyError: it is not such a body.
        """
        found = BodyObject.of(body, "query of an assignment")
        return cls(
            topic=found.text("topic"),
            group=found.text("consumerGroup"),
            client_id=found.text("clientId"),
            strategy=found.text("strategyName", "AVG"),
            is_broadcasting=found.name("messageModel", _MODELS, "CLUSTERING") == "BROADCASTING",
        )


def encode_assignments(queues: Iterable[QueueName] | None, *, pops: bool) -> bytes:
    """Return the body that names a member's queues; None: the member keeps those it has."""
    assigned = None
    if queues is not None:
        mode = _MODES[pops]
        assigned = [
            {
                "messageQueue": {"brokerName": broker, "queueId": queue_id, "topic": topic},
                "mode": mode,
            }
            for topic, broker, queue_id in queues
        ]
    return write_body({} if assigned is None else {"messageQueueAssignments": assigned})


@attrs.frozen(kw_only=True)
class ModeOf:
    """How a group is to take the messages of a topic."""

    topic: str
    group: str
    pops: bool
    share_queues: int = 0
    """See RocketMQ's ``popShareQueueNum``."""

    def encode(self) -> bytes:
        """Return the body."""
        return write_body(
            {
                "consumerGroup": self.group,
                "mode": _MODES[self.pops],
                "popShareQueueNum": self.share_queues,
                "topic": self.topic,
            }
        )

    @classmethod
    def decode(cls, body: bytes) -> ModeOf:
        """Return what a body says.

        Raises:
            BodyError: it is not such a body.
        """
        found = BodyObject.of(body, "mode of a group")
        return cls(
            topic=found.text("topic"),
            group=found.text("consumerGroup"),
            pops=found.name("mode", _MODES, "PULL") == "POP",
            share_queues=found.integer("popShareQueueNum", 0, bits=32),
        )
