"""`TheirBroker`: RocketMQ's proxy and broker, with what tests ask of our `LocalBroker`."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs
import realbroker
from plaindecoder import decode_one
from realbroker import RocketMQ
from sameanswers.administering import group, topic
from sameanswers.run import request
from sameanswers.sending import short, written
from wirepeer import WirePeer

from reput.record import Message
from reput_client.remoting import QueueName, parse_body

_OPTIONS = {
    "enablePropertyFilter": "true",
    "recallMessageEnable": "true",
    # Long enough for an answer on a slow machine: else the broker asks once more.
    "transactionCheckInterval": "5000",
    "transactionTimeOut": "6000",
}
_LONGEST_SECONDS = 17
"""Which a test really waits for: more than any of their deadlines."""
_LOOK_SECONDS = 0.1


@attrs.define(eq=False)
class TheirBroker:
    """A broker whose clock nobody can move, so that time really goes by."""

    endpoints: str
    name_server: str
    _peer: WirePeer
    delay_s: int = 15
    """Of delayed messages, for which a test waits."""
    _turn: int = 0

    def create_topic(self, name: str, *, message_type: str = "NORMAL", queues: int = 4) -> None:
        """Create a topic."""
        attributes = f"+message.type={message_type}"
        self._ask(17, topic(name, queues, queues, attributes=attributes))

    def create_group(self, name: str, *, ordered: bool = False, retries: int = 16) -> None:
        """Create a consumer group."""
        settings = {"consumeMessageOrderly": ordered, "retryMaxTimes": retries}
        self._ask(200, {}, group(name, **settings))

    def put(self, *messages: Message) -> None:
        """Store messages, as a 4.x producer does."""
        for each in messages:
            self._turn += 1
            properties = {
                **dict(each.properties or {}),
                "TAGS": each.tags,
                "UNIQ_KEY": f"{self._turn:032X}",
            }
            fields = short(each.topic, each.queue_id or 0, written(properties))
            self._ask(310, fields, bytes(each.body))

    def messages(self, name: str) -> list[Any]:
        """Return all messages of a topic that a pull finds."""
        found = []
        for queue_id in range(4):
            offset = 0
            while True:
                fields = _pull(name, queue_id, offset)
                answer = self._peer.answer_to(self._peer.send(request(11, fields, b"")))
                if answer.code != 0:
                    break
                at = 0
                while at < len(answer.body):
                    record = decode_one(answer.body[at:], at)
                    found.append(_Stored(record["body"], record["store_timestamp"]))
                    at += record["size"]
                offset = int(answer.fields["nextBeginOffset"])
        return sorted(found, key=lambda each: each.store_timestamp)

    def wait_for(self, name: str, *, seconds: float = 60.0) -> None:
        """Return when a group has consumed everything."""
        end = time.monotonic() + seconds
        while left := self._left(name):
            if time.monotonic() > end:
                raise TimeoutError(f"group {name!r} has not consumed all: {left}")
            threading.Event().wait(_LOOK_SECONDS)

    def _left(self, name: str) -> dict[str, int]:
        answer = self._peer.answer_to(self._peer.send(request(208, {"consumerGroup": name}, b"")))
        if answer.code != 0:
            return {str(answer.remark): 1}
        table = parse_body(answer.body, "offsets").get("offsetTable", {})
        left = {
            f"{queue.topic}/{queue.queue_id}": each["brokerOffset"] - each["consumerOffset"]
            for queue, each in table.items()
            if isinstance(queue, QueueName)
        }
        return {queue: count for queue, count in left.items() if count} if left else {"queues": 1}

    def forward(self, seconds: float) -> None:
        """Wait."""
        threading.Event().wait(min(seconds, _LONGEST_SECONDS))

    def _ask(self, code: int, fields: dict[str, object], body: bytes = b"") -> None:
        answer = self._peer.answer_to(self._peer.send(request(code, fields, body)))
        assert answer.code == 0, answer


@attrs.frozen
class _Stored:
    body: bytes
    store_timestamp: int


def _pull(name: str, queue_id: int, offset: int) -> dict[str, object]:
    return {
        "consumerGroup": "looks",
        "topic": name,
        "queueId": queue_id,
        "queueOffset": offset,
        "maxMsgNums": 32,
        "sysFlag": 4,
        "commitOffset": 0,
        "suspendTimeoutMillis": 0,
        "subscription": "*",
        "subVersion": 0,
        "expressionType": "TAG",
    }


@contextlib.contextmanager
def their_broker(rocketmq: RocketMQ, home: Path, **proxy: object) -> Iterator[TheirBroker]:
    """Start all three processes."""
    with (
        rocketmq.name_server(home / "names") as names,
        rocketmq.broker(home / "broker", names.address, **_OPTIONS) as broker,
        realbroker.proxy(home / "proxy", names.address, cluster="reput", **proxy) as endpoints,
        WirePeer(("127.0.0.1", broker.port)) as peer,
    ):
        yield TheirBroker(endpoints, names.address, peer)
