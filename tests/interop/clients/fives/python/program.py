"""RocketMQ's client in Python for release 5, for tests of the server.

Not a test module. A line of stdin is a JSON object whose ``do`` names the work; the answer is a
line of JSON, with ``error`` where the work failed. Ends with stdin. The programs in the other
languages take the same lines.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from typing import Any

from rocketmq import (
    ClientConfiguration,
    ConsumeResult,
    Credentials,
    FilterExpression,
    Message,
    MessageListener,
    Producer,
    PushConsumer,
    SimpleConsumer,
    TransactionChecker,
    TransactionResolution,
)
from rocketmq.grpc_protocol import FilterType
from rocketmq.v5.exception import InternalErrorException

Row = dict[str, Any]


class Noted:
    """What has come so far, for a test that waits for it."""

    def __init__(self) -> None:
        self.all: list[Row] = []
        self.told = threading.Condition()

    def add(self, message: Any) -> None:
        """Note a message."""
        with self.told:
            self.all.append(row(message))
            self.told.notify_all()

    def wait(self, asked: Row) -> list[Row]:
        """Return all there is, once that are ``count`` or ``ms`` are over."""
        with self.told:
            self.told.wait_for(lambda: len(self.all) >= asked["count"], asked["ms"] / 1_000)
            return list(self.all)


class Checker(TransactionChecker):
    """Commits whatever it is asked for."""

    def __init__(self, noted: Noted) -> None:
        self.noted = noted

    def check(self, message: Any) -> Any:
        """Answer a question of the server."""
        self.noted.add(message)
        return TransactionResolution.COMMIT


class Listener(MessageListener):
    """Refuses bodies of ``fail…``, and of ``once…`` one time."""

    def __init__(self, noted: Noted) -> None:
        self.noted = noted

    def consume(self, message: Any) -> Any:
        """Take a message."""
        self.noted.add(message)
        body = message.body.decode()
        # In order, this client calls again with the same attempt.
        is_first = sum(each["body"] == body for each in self.noted.all) == 1
        refused = body.startswith("fail") or (is_first and body.startswith("once"))
        return ConsumeResult.FAILURE if refused else ConsumeResult.SUCCESS


def row(message: Any) -> Row:
    """Return a message as the tests read it."""
    return {
        "topic": message.topic,
        "body": message.body.decode(),
        "tag": message.tag,
        "keys": sorted(message.keys),
        "properties": dict(message.properties or {}),
        "attempt": message.delivery_attempt,
    }


def made(asked: Row) -> Any:
    """Return a message as the client takes it."""
    message = Message()
    message.topic, message.body = asked["topic"], asked["body"].encode()
    if "tag" in asked:
        message.tag = asked["tag"]
    if "keys" in asked:
        for key in asked["keys"]:  # the client takes one at a time, and adds it
            message.keys = key
    for name, value in asked.get("properties", {}).items():
        message.add_property(name, value)
    if "message_group" in asked:
        message.message_group = asked["message_group"]
    if "delay_s" in asked:
        message.delivery_timestamp = int(time.time()) + asked["delay_s"]
    return message


def send(producer: Any, asked: Row) -> Row:
    """Send a message, and end its transaction if asked to."""
    try:
        if "end" not in asked:
            receipt = producer.send(made(asked))
            return {"id": receipt.message_id, "handle": getattr(receipt, "recall_handle", None)}
        transaction = producer.begin_transaction()
        receipt = producer.send(made(asked), transaction)
        if asked["end"] in ("commit", "rollback"):
            getattr(transaction, asked["end"])()
        return {"id": receipt.message_id}
    except Exception as error:  # whatever the client raises is the answer
        return {"error": f"{type(error).__name__}: {error}"}


class Program:
    """Producers and consumers by name."""

    def __init__(self) -> None:
        self.config: Any = None
        self.encrypted = False
        self.clients: dict[str, Any] = {}
        self.noted: dict[str, Noted] = {}

    def begin(self, asked: Row) -> Row:
        """Have what starts from now on talk to a server."""
        keys = (asked["access_key"], asked["secret_key"]) if "access_key" in asked else ()
        self.config = ClientConfiguration(
            asked["endpoints"], Credentials(*keys), asked.get("namespace", ""), request_timeout=10
        )
        self.encrypted = "tls" in asked
        return {}

    def _started(self, asked: Row, client: Any) -> Row:
        client.startup()
        self.clients[asked["name"]] = client
        return {}

    def _filters(self, asked: Row) -> Row:
        if "sql" in asked:
            return {asked["topic"]: FilterExpression(asked["sql"], FilterType.SQL)}
        return {asked["topic"]: FilterExpression(asked.get("expression", "*"))}

    def producer(self, asked: Row) -> Row:
        """Start a producer."""
        noted = self.noted[asked["name"]] = Noted()
        checker = Checker(noted) if "checks" in asked else None
        topics = tuple(asked["topics"])
        return self._started(asked, Producer(self.config, topics, checker, self.encrypted))

    def send(self, asked: Row) -> Row:
        """Send messages one after the other."""
        return {"sent": [send(self.clients[asked["name"]], each) for each in asked["messages"]]}

    def recall(self, asked: Row) -> Row:
        """Recall a delayed message."""
        found = self.clients[asked["name"]].recall_message(asked["topic"], asked["handle"])
        return {"id": found}

    def checked(self, asked: Row) -> Row:
        """Return what the server asked about."""
        return {"checked": self.noted[asked["name"]].wait(asked)}

    def simple(self, asked: Row) -> Row:
        """Start a consumer that asks for messages."""
        filters = self._filters(asked)
        consumer = SimpleConsumer(
            self.config, asked["group"], filters, await_duration=2, tls_enable=self.encrypted
        )
        return self._started(asked, consumer)

    def receive(self, asked: Row) -> Row:
        """Receive until there are ``count`` or ``ms`` are over."""
        consumer, rows = self.clients[asked["name"]], []
        end = time.monotonic() + asked["ms"] / 1_000
        while len(rows) < asked["count"] and time.monotonic() < end:
            try:
                found = consumer.receive(16, asked["invisible_s"]) or []
            except InternalErrorException:
                # RocketMQ's proxy refuses a receive that comes before the client's settings.
                if time.monotonic() > end or rows:
                    raise
                continue
            for each in found:
                if "change_s" in asked:
                    consumer.change_invisible_duration(each, asked["change_s"])
                if asked["ack"]:
                    consumer.ack(each)
                rows.append(row(each))
        return {"taken": rows}

    def listen(self, asked: Row) -> Row:
        """Start a push consumer."""
        noted = self.noted[asked["name"]] = Noted()
        filters = self._filters(asked)
        consumer = PushConsumer(
            self.config, asked["group"], Listener(noted), filters, tls_enable=self.encrypted
        )
        return self._started(asked, consumer)

    def taken(self, asked: Row) -> Row:
        """Return what a push consumer has got."""
        return {"taken": self.noted[asked["name"]].wait(asked)}

    def stop(self, asked: Row) -> Row:
        """End a client in order."""
        self.clients.pop(asked["name"]).shutdown()
        return {}


def main() -> None:
    """Answer each line."""
    program, out = Program(), sys.stdout
    sys.stdout = sys.stderr
    for line in sys.stdin:
        asked = json.loads(line)
        try:
            answer = getattr(program, asked["do"])(asked)
        except Exception as error:  # whatever the client raises is the answer
            answer = {"error": f"{type(error).__name__}: {error}"}
        out.write(json.dumps(answer) + "\n")
        out.flush()
    for name in list(program.clients):
        program.stop({"name": name})


if __name__ == "__main__":
    main()
