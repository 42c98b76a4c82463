"""Calls with any fields: each is answered with a code, and no message is lost for ever."""

from __future__ import annotations

import gc
import random
import threading
from typing import Any

import pytest
from grpcclient import GrpcClient
from leakserver import memory

from reput_consumer import ConsumerPlugin
from reput_server.grpc.messagetypes import m
from reput_server.testing.localbroker import LocalBroker
from reput_testing.casebudget import is_soak

CALLS = (
    *("QueryRoute", "QueryAssignment", "SendMessage", "RecallMessage", "AckMessage"),
    *("ChangeInvisibleDuration", "ForwardMessageToDeadLetterQueue", "EndTransaction"),
    *("Heartbeat", "NotifyClientTermination", "ReceiveMessage"),
)
TEXTS = ("", "t", "g", "orders", "%RETRY%x", "a b", "x" * 300, "\x01", "p1.0.0.0.1.1", "é")
COUNT = 100_000 if is_soak() else 500
GROWTH_MAX = 48 << 20
"""Bytes of memory that the last three quarters of many calls may add, of client and server."""
NUMBERS = (0, 1, 2, 3, -1, 10, 30, (1 << 31) - 1, -(1 << 31))


class Fuzz:
    """Fills messages with anything."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)

    def value(self, field: Any) -> Any:
        chance = self.chance
        return {
            field.TYPE_STRING: lambda: chance.choice(TEXTS),
            field.TYPE_BYTES: lambda: chance.randbytes(chance.randrange(50)),
            field.TYPE_BOOL: lambda: chance.random() < 0.5,
            field.TYPE_FLOAT: chance.random,
        }.get(field.type, lambda: chance.choice(NUMBERS))()

    def fill(self, message: Any, depth: int = 0) -> Any:
        for field in message.DESCRIPTOR.fields:
            if self.chance.random() < 0.4 or depth > 5:
                continue
            target = getattr(message, field.name)
            is_many = hasattr(target, "add") or hasattr(target, "append")
            if field.message_type is not None and field.message_type.GetOptions().map_entry:
                target[self.chance.choice(TEXTS)] = self.chance.choice(TEXTS)
            elif field.type == field.TYPE_MESSAGE:
                for _ in range(self.chance.randrange(3)) if is_many else ():
                    self.fill(target.add(), depth + 1)
                if not is_many:
                    self.fill(target, depth + 1)
            elif is_many:
                target.append(self.value(field))
            else:
                setattr(message, field.name, self.value(field))
        return message


@pytest.mark.costly
def test_any_call_is_answered_with_a_code_and_no_message_stays_out():
    fuzz, codes, out, before = Fuzz(30), set(), [], 0
    with LocalBroker(grpc=True) as broker, GrpcClient(broker.endpoints) as me:
        broker.create_topic("t", message_type="MIXED")
        for number in range(COUNT):
            if number == COUNT // 4:
                gc.collect()
                before = memory()
            if number % 20 == 0:
                me.produce("t")
                me.send("t", str(number))
                me.consume("g", "t")
            name = fuzz.chance.choice(CALLS)
            request = fuzz.fill(getattr(m, f"{name}Request")())
            if name != "ReceiveMessage":
                codes.add(me.call(name, request).status.code)
                continue
            request.long_polling_timeout.seconds = request.long_polling_timeout.nanos = 0
            if fuzz.chance.random() < 0.5:
                request.CopyFrom(me.request("g", "t"))
            poll = me.stream(request)
            if fuzz.chance.random() < 0.3:
                poll.cancel()
                continue
            codes |= {each.status.code for each in poll if each.WhichOneof("content") == "status"}
        gc.collect()
        grown = memory() - before
        broker.forward(13 * 3_600)
        popper, pause = broker.store.plugin(ConsumerPlugin).popper, threading.Event()
        for _ in range(1_000):  # the store works on a thread of its own
            out = popper.out()
            if not out:
                break
            pause.wait(0.02)

    assert 50001 not in codes, "an error that nobody expected"
    assert codes >= {20000, 40002, 40003}
    assert out == []
    assert grown < GROWTH_MAX
