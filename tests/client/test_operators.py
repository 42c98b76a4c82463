"""Operators look at our consumers from within, through a broker."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import attrs
import pytest
from wirepeer import WirePeer

import reput
from reput_client import Client
from reput_client.remoting import (
    Command,
    ConsumeDirectly,
    ConsumerStatus,
    QueueName,
    RequestCode,
    ResetOffset,
    ResponseCode,
    RunningInfo,
    parse_body,
)
from reput_consumer import Consumer, Retry
from reput_server import ServerConfig, serving
from reput_testing import ManualClock

_SMALL = {"commitlog": {"file_size": 1 << 20}, "consumequeue": {"units_per_file": 1_000}}
_PLUGINS = frozenset({"consumequeue", "consumer", "schedule"})
_ANYWHERE = ServerConfig(listen=("127.0.0.1", 0), name_server=("127.0.0.1", 0))
QUEUE = QueueName("orders", "broker-a", 0)


@attrs.frozen(eq=False)
class Served:
    """A store with three messages, a client of the server before it, and an operator."""

    store: reput.Store
    client: Client
    operator: WirePeer

    def ask(self, code: int, header: object) -> Command:
        return self.operator.ask(code, header)

    def body(self, code: int, header: object) -> dict:
        answer = self.ask(code, header)
        assert answer.code == ResponseCode.SUCCESS, answer.remark
        return parse_body(answer.body, "answer")


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    with (
        reput.open(tmp_path / "store", plugins=_PLUGINS, config=_SMALL) as store,
        serving(store, _ANYWHERE) as server,
        WirePeer(server.address) as operator,
        Client("{}:{}".format(*server.name_server), address="127.0.0.1") as client,
    ):
        for body in (b"1", b"2", b"3"):
            store.put(reput.Message("orders", body))
        store.wait_dispatched()
        yield Served(store, client, operator)


def running(consumer: Consumer, *, stacks: bool = False, group: str = "billing") -> RunningInfo:
    return RunningInfo(consumer_group=group, client_id=consumer.member, jstack_enable=stacks)


def test_what_a_consumer_holds_is_told(served: Served) -> None:
    with served.client.consumer("billing", {"orders": "*"}, start="earliest") as consumer:
        consumer.next(20)
        consumer.next(20)

        found = served.body(RequestCode.GET_CONSUMER_RUNNING_INFO, running(consumer, stacks=True))

    queue = found["mqTable"][QUEUE]
    assert (queue["commitOffset"], queue["cachedMsgCount"], queue["cachedMsgMaxOffset"]) == (
        1,
        2,
        2,
    )
    assert found["properties"]["PROP_CONSUMEORDERLY"] == "false"
    assert found["properties"]["PROP_CONSUME_TYPE"] == "CONSUME_PASSIVELY"
    assert [each["topic"] for each in found["subscriptionSet"]] == ["orders"]
    assert "test_what_a_consumer_holds_is_told" in found["jstack"]


def test_the_stacks_are_told_only_if_asked_for(served: Served) -> None:
    with served.client.consumer("billing", "orders", ordered=True, start="earliest") as consumer:
        consumer.next(20)

        found = served.body(RequestCode.GET_CONSUMER_RUNNING_INFO, running(consumer))

    assert "jstack" not in found
    assert found["properties"]["PROP_CONSUMEORDERLY"] == "true"
    assert found["mqTable"][QUEUE]["locked"]


def test_times_are_those_of_the_clock_after_it_was_set_back(served: Served) -> None:
    clock = ManualClock()
    name_servers = served.client._runtime.name_servers
    with (
        Client(name_servers, address="127.0.0.1", clock=clock) as client,
        client.consumer("billing", "orders", ordered=True, start="earliest") as consumer,
    ):
        clock.advance(-86_400_000)
        consumer.next(20)

        found = served.body(RequestCode.GET_CONSUMER_RUNNING_INFO, running(consumer))

    queue = found["mqTable"][QUEUE]
    assert queue["lastLockTimestamp"] == queue["lastConsumeTimestamp"] == clock.now


def test_how_far_a_consumer_is_is_told(served: Served) -> None:
    asked = ConsumerStatus(topic="orders", group="billing")
    with served.client.consumer("billing", "orders", start="earliest") as consumer:
        consumer.next(20)
        consumer.next(20)
        consumer.commit()

        found = served.body(RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS, asked)

    assert found["consumerTable"][consumer.member] == {QUEUE: 1}


def test_a_moved_group_reads_again(served: Served) -> None:
    with served.client.consumer("billing", "orders", start="earliest", idle=20) as consumer:
        first = [message.body for message in (consumer.next(20) for _ in range(3)) if message]
        header = ResetOffset(topic="orders", group="billing", timestamp=0, is_force=True)
        served.body(RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, header)
        again = consumer.next(20)

    assert first == [b"1", b"2", b"3"]
    assert again is not None
    assert again.body == b"1"


# --------------------------------------------------------------------------- one message at once


@contextmanager
def consuming(
    served: Served, handler: Callable[[object], object], **options: int
) -> Iterator[Consumer]:
    """A consumer whose function has handled the three messages, and waits for more."""
    handled = threading.Semaphore(0)

    def count(message: object) -> object:
        try:
            return handler(message)
        finally:
            handled.release()

    with served.client.consumer("billing", "orders", start="earliest") as consumer:
        thread = threading.Thread(target=lambda: consumer.run(count, threads=2, **options))
        thread.start()
        try:
            for _ in range(3 if options.get("batch", 1) == 1 else 1):
                assert handled.acquire(timeout=20)
            yield consumer
        finally:
            consumer.stop()
            thread.join(20)


def directly(served: Served, consumer: Consumer) -> ConsumeDirectly:
    message = served.store.read("orders", 0, 1).messages[0]
    return ConsumeDirectly(
        consumer_group="billing", client_id=consumer.member, msg_id=message.msg_id
    )


def fail_again(bodies: list[bytes]) -> Callable[[object], object]:
    def handle(message: object) -> object:
        bodies.append(message.body)  # type: ignore[attr-defined]
        if len(bodies) > 3:
            raise ValueError("no")
        return None

    return handle


def test_the_function_of_a_consumer_handles_a_message_at_once(served: Served) -> None:
    bodies: list[bytes] = []

    def handle(message: object) -> None:
        bodies.append(message.body)  # type: ignore[attr-defined]

    with consuming(served, handle) as consumer:
        code = RequestCode.CONSUME_MESSAGE_DIRECTLY
        found = served.body(code, directly(served, consumer))

    assert (found["consumeResult"], found["order"], found["autoCommit"]) == (
        "CR_SUCCESS",
        False,
        True,
    )
    assert bodies[3:] == [b"2"]
    assert sorted(bodies[:3]) == [b"1", b"2", b"3"]


def test_a_function_that_raises_is_told_and_the_message_does_not_come_again(
    served: Served,
) -> None:
    bodies: list[bytes] = []
    with consuming(served, fail_again(bodies)) as consumer:
        code = RequestCode.CONSUME_MESSAGE_DIRECTLY
        found = served.body(code, directly(served, consumer))

    assert (found["consumeResult"], found["remark"]) == ("CR_THROW_EXCEPTION", "ValueError: no")
    assert served.store.plugin("consumer").progress("billing").retry_lag == 0


@pytest.mark.parametrize("returned", [False, Retry(level=5), None])
def test_a_function_may_want_the_message_later(served: Served, returned: object) -> None:
    seen: list[object] = []

    def handle(message: object) -> object:
        seen.append(message)
        if len(seen) <= 3:
            return None
        if returned is None:
            message.retry()  # type: ignore[attr-defined]
        return returned

    with consuming(served, handle) as consumer:
        code = RequestCode.CONSUME_MESSAGE_DIRECTLY
        found = served.body(code, directly(served, consumer))

    assert found["consumeResult"] == "CR_LATER"


def test_a_function_of_batches_gets_a_batch_of_one(served: Served) -> None:
    sizes: list[int] = []

    def handle(messages: object) -> None:
        sizes.append(len(messages))  # type: ignore[arg-type]

    with consuming(served, handle, batch=32) as consumer:
        code = RequestCode.CONSUME_MESSAGE_DIRECTLY
        found = served.body(code, directly(served, consumer))

    assert found["consumeResult"] == "CR_SUCCESS"
    assert sizes[-1] == 1


def test_a_consumer_that_iterates_takes_no_message_at_once(served: Served) -> None:
    with served.client.consumer("billing", "orders", start="earliest") as consumer:
        consumer.next(20)
        answer = served.ask(RequestCode.CONSUME_MESSAGE_DIRECTLY, directly(served, consumer))

    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert "hands its messages to a loop" in (answer.remark or "")
