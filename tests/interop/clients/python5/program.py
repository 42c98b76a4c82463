"""Sends and consumes with RocketMQ's client for release 5: program.py ENDPOINTS.

Not a test module. Topics are named like their types, and the group ``ordered`` reads in order.
"""

from __future__ import annotations

import sys
import threading
import time
from typing import Any

from rocketmq import (
    ClientConfiguration,
    ConsumeResult,
    Credentials,
    FilterExpression,
    MessageListener,
    Producer,
    PushConsumer,
    SimpleConsumer,
    TransactionChecker,
    TransactionResolution,
)
from rocketmq import Message as ClientMessage

SECONDS = 60


def say(*words: object) -> None:
    """Print a line."""
    sys.stdout.write(" ".join(map(str, words)) + "\n")


def message(topic: str, body: str, **more: Any) -> Any:
    """Return a message."""
    made = ClientMessage()
    made.topic, made.body = topic, body.encode()
    for name, value in more.items():
        setattr(made, name, value)
    return made


class Checker(TransactionChecker):
    """Commits whatever it is asked for."""

    def check(self, message: Any) -> Any:
        """Answer a question of the server."""
        return TransactionResolution.COMMIT


class Listener(MessageListener):
    """Notes messages, and refuses those that `refuses` says."""

    def __init__(self, count: int, refuses: Any) -> None:
        self.found: list[tuple[str, int]] = []
        self.count, self.refuses, self.done = count, refuses, threading.Event()

    def consume(self, message: Any) -> Any:
        """Take a message."""
        self.found.append((message.body.decode(), message.delivery_attempt))
        result = self.refuses(self.found)
        if len(self.found) == self.count:
            self.done.set()
        return ConsumeResult.FAILURE if result else ConsumeResult.SUCCESS


def send_all(producer: Any) -> None:
    """Send messages of each type, and some that are refused."""
    producer.send(message("normal", "one", tag="paid", keys="k1"))
    producer.send(message("normal", "two", tag="open"))
    for number in range(4):
        producer.send(message("fifo", str(number), message_group="g"))
    producer.send(message("delay", "later", delivery_timestamp=int(time.time()) + 2))
    for end in ("commit", "rollback"):
        transaction = producer.begin_transaction()
        producer.send(message("transaction", f"{end}ted"), transaction)
        getattr(transaction, end)()
    for topic, more in (("normal", {"message_group": "g"}), ("fifo", {}), ("nowhere", {})):
        try:
            producer.send(message(topic, "wrong", **more))
        except Exception:
            say("refused", topic)


def receive(config: Any, group: str, subscription: Any, count: int) -> list[Any]:
    """Receive and acknowledge messages."""
    consumer = SimpleConsumer(config, group, subscription, await_duration=5)
    consumer.startup()
    found: list[Any] = []
    end, pause = time.monotonic() + SECONDS, threading.Event()
    while len(found) < count and time.monotonic() < end:
        try:
            received = consumer.receive(16, 15) or []
        except Exception as error:
            # RocketMQ's proxy fails so until the client's settings have come; the client may
            # receive before that.
            if "settings" not in str(error):
                raise
            pause.wait(0.2)
            continue
        for each in received:
            found.append(each)
            consumer.change_invisible_duration(each, 20)
            consumer.ack(each)
    consumer.shutdown()
    return found


def push(config: Any, group: str, topic: str, listener: Listener) -> list[tuple[str, int]]:
    """Have a function called with each message."""
    consumer = PushConsumer(config, group, listener, {topic: FilterExpression()})
    consumer.startup()
    assert listener.done.wait(SECONDS), listener.found
    consumer.shutdown()
    return listener.found


def main(endpoints: str) -> None:
    """Do it all."""
    config = ClientConfiguration(endpoints, Credentials(), request_timeout=5)
    producer = Producer(config, ("normal", "fifo", "delay", "transaction"), checker=Checker())
    producer.startup()
    send_all(producer)
    for each in receive(config, "simple", {"normal": FilterExpression("paid")}, 1):
        say("simple", each.tag, each.delivery_attempt, sorted(each.keys))
    both = {"delay": FilterExpression(), "transaction": FilterExpression()}
    for body in sorted(each.body.decode() for each in receive(config, "late", both, 2)):
        say("late", body)
    refuse_first = Listener(3, lambda found: found[-1] == ("one", 1))
    for body, attempt in sorted(push(config, "push", "normal", refuse_first)):
        say("push", body, attempt)
    refuse_second = Listener(5, lambda found: len(found) == 2)
    say("fifo", *(body for body, _ in push(config, "ordered", "fifo", refuse_second)))
    producer.shutdown()


if __name__ == "__main__":
    main(sys.argv[1])
