"""Sends that are answered at once: as those that have a task, and only where nothing must wait."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest

import reput
from reput.errors import ServiceNotAvailableError
from reput_consumer import PopRequest
from reput_consumer.group.membersettings import Start
from reput_server.config import ServerConfig
from reput_server.grpc.messagetypes import m
from reput_server.grpc.service import GrpcService
from reput_server.grpc.transport.answermemory import AnswerMemory, AnswerShare
from reput_server.grpc.transport.methods import CallHead, Method
from reput_server.server import serving

PLUGINS = {"consumequeue", "consumer", "schedule"}
PATH = "/apache.rocketmq.v2.MessagingService/"
ANSWERS = AnswerShare(AnswerMemory(1 << 20, 1 << 20))
HEAD = CallHead({"x-mq-client-id": "test"}, "127.0.0.1:1000", 3.0, ANSWERS)


def message(topic="orders", body=b"body", properties=None, **system: Any) -> Any:
    system = {"message_id": "id", **system}
    return m.Message(
        topic=m.Resource(name=topic),
        body=body,
        user_properties=properties or {},
        system_properties=m.SystemProperties(**system),
    )


REQUESTS = {
    "one": [message()],
    "several": [message(message_id="a"), message(message_id="b", tag="t")],
    "none": [],
    "two topics": [message(), message("others")],
    "properties": [message(properties={"color": "red", "größe": "3"}, tag="t", keys=["a", "b"])],
    "no body": [message(body=b"")],
    "no id": [message(message_id=" ")],
    "a reserved property": [message(properties={"KEYS": "a"})],
    "a property without a name": [message(properties={"": "a"})],
    "control characters": [message(properties={"a": "\x02"})],
    "too many properties": [message(properties={str(each): "" for each in range(129)})],
    "large properties": [message(properties={"a": "ß" * 9_000})],
    "a blank tag": [message(tag=" ")],
    "a tag of two": [message(tag="a|b")],
    "a tag with a control character": [message(tag="a\x07")],
    "a blank key": [message(keys=["a", "  "])],
    "an empty key": [message(keys=["a", ""])],
    "a key with a control character": [message(keys=["a\x7f"])],
    "another type": [message(message_group="g")],
    "a system topic": [message("SCHEDULE_TOPIC_XXXX")],
}


class Served:
    """The service of a store, asked without a connection."""

    def __init__(self, service: GrpcService, store: reput.Store) -> None:
        assert service.broker is not None
        self.service, self.store = service, store
        self.method: Method = service._methods(("127.0.0.1", 1))[PATH + "SendMessage"]

    def run(self, work: Callable[[], Any]) -> Any:
        """Return what a function returns on the broker's event loop; it may return a coroutine."""

        async def here() -> Any:
            found = work()
            return await found if asyncio.iscoroutine(found) else found

        loop = self.service.broker.context.loop
        return asyncio.run_coroutine_threadsafe(here(), loop).result(20)

    def stored(self) -> list[reput.MessageView]:
        """Return all messages."""
        batches = self.store.scan()
        return [batch.message(row) for batch in batches for row in range(len(batch))]

    def at_once(self, request: Any) -> Any:
        assert self.method.at_once is not None
        answer = self.run(lambda: self.method.at_once(HEAD, request))
        return None if answer is None else m.SendMessageResponse.FromString(answer)

    def later(self, request: Any) -> Any:
        answer = self.run(lambda: self.method.answer(HEAD, request))
        return m.SendMessageResponse.FromString(answer)


@pytest.fixture
def serve(tmp_path) -> Iterator[Callable[..., Served]]:
    """``serve(flush)``: serve a new store with a topic of one queue."""
    opened: list[Any] = []

    def start(flush: str = "async") -> Served:
        config = {"commitlog": {"flush": flush}}
        store = reput.open(tmp_path / flush, plugins=PLUGINS, config=config)
        opened.append(store)
        store.put(reput.Message("orders", b"first"))
        store.wait_dispatched()
        addresses = {"listen": ("127.0.0.1", 0), "grpc": ("127.0.0.1", 0)}
        block = serving(store, ServerConfig(name_server=None, **addresses))
        server = block.__enter__()
        opened.append(block)
        assert isinstance(server.grpc, GrpcService)
        return Served(server.grpc, store)

    yield start
    for each in reversed(opened):
        each.__exit__(None, None, None)


@pytest.mark.parametrize("given", REQUESTS.values(), ids=REQUESTS)
def test_an_answer_at_once_is_that_of_the_longer_way(serve, given):
    served, request = serve(), m.SendMessageRequest(messages=given)

    first, second = served.at_once(request), served.later(request)

    if len(given) > 1:
        assert first is None or first.status.code == 40016
        return
    for number, entry in enumerate(first.entries):  # each send has stored messages of its own
        if entry.transaction_id:
            assert second.entries[number].offset == entry.offset + len(given)
            entry.offset = second.entries[number].offset
    assert first == second
    stored = [(bytes(each.body), each.properties) for each in served.stored()][1:]
    assert len(stored) == 2 * len([each for each in first.entries if each.transaction_id])
    half = len(stored) // 2
    assert stored[:half] == stored[half:]


def test_requests_of_this_test_are_stored_and_refused(serve):
    served = serve()

    codes = {
        name: served.at_once(m.SendMessageRequest(messages=given)).status.code
        for name, given in REQUESTS.items()
        if len(given) < 2
    }

    assert {name for name, code in codes.items() if code == 20000} == {
        "one",
        "properties",
        "an empty key",
    }
    assert len(set(codes.values())) > 8


def test_nothing_is_done_at_once_where_a_send_must_wait(serve):
    served, request = serve("sync"), m.SendMessageRequest(messages=[message()])
    unknown = m.SendMessageRequest(messages=[message("others")])

    assert served.at_once(request) is None
    assert serve("async").at_once(unknown) is None
    assert len(served.stored()) == 1
    assert served.later(request).entries[0].offset == 1


def test_a_send_that_comes_after_one_that_waits_is_stored_after_it(serve):
    served = serve()

    def both() -> list[Any]:
        waiting = asyncio.ensure_future(
            served.method.answer(HEAD, m.SendMessageRequest(messages=[message(message_id="a")]))
        )
        found: list[Any] = [waiting]

        async def then() -> list[Any]:
            await asyncio.sleep(0)  # the first send waits for its round
            request = m.SendMessageRequest(messages=[message(message_id="b")])
            found.append(served.method.at_once(HEAD, request))
            await waiting
            return found

        return then()

    found = served.run(both)

    assert found[1] is None
    assert found[0].done()


def test_a_slow_store_is_left_to_a_thread_whether_it_stores_or_fails(serve, monkeypatch):
    served = serve()
    sends, now = served.service.broker.sends, [1_000.0]
    monkeypatch.setattr(sends, "clock", lambda: now[0])
    request = m.SendMessageRequest(messages=[message()])
    put = sends.puts.put_one

    def slow(message: reput.Message, *, fails: bool) -> Any:
        now[0] += 0.06
        if fails:
            raise ServiceNotAvailableError("store", None, None, "the disk is full")
        return put(message)

    for fails in (False, True):
        now[0] += 10
        monkeypatch.setattr(sends.puts, "put_one", partial(slow, fails=fails))
        found = served.at_once(request)
        assert found.status.code == (50001 if fails else 20000)
        assert served.at_once(request) is None  # for the next second
        assert sends.times.failed_count == int(fails)


# ------------------------------------------------------------------ acknowledgements


def test_an_acknowledgement_at_once_is_answered_as_on_the_longer_way(serve):
    served = serve()
    popper = served.service.broker.context.plugin.popper
    for _ in range(3):
        served.at_once(m.SendMessageRequest(messages=[message()]))
    served.store.wait_dispatched()
    start = Start("earliest")
    popped = popper.pop(
        PopRequest(group="g", topic="orders", max_count=4, invisible_ms=60_000, start=start)
    )
    handles = [str(each.handle) for each in popped]
    ack = served.service._methods(("127.0.0.1", 1))[PATH + "AckMessage"]

    def request(*handles: str) -> Any:
        entries = [m.AckMessageEntry(message_id="id", receipt_handle=each) for each in handles]
        return m.AckMessageRequest(
            group=m.Resource(name="g"), topic=m.Resource(name="orders"), entries=entries
        )

    def at_once(*handles: str) -> Any:
        return m.AckMessageResponse.FromString(
            served.run(lambda: ack.at_once(HEAD, request(*handles)))
        )

    def later(*handles: str) -> Any:
        return m.AckMessageResponse.FromString(
            served.run(lambda: ack.answer(HEAD, request(*handles)))
        )

    one, other, *rest = handles
    answers = [at_once(one), at_once(one), at_once(rest[0], "void"), at_once()]
    assert [each.status.code for each in answers] == [20000, 40013, 30000, 40000]
    expected = [later(other), later(other), later(rest[1], "void"), later()]
    for found, by_thread in zip(answers, expected, strict=True):
        for each in (*found.entries, *by_thread.entries):
            each.receipt_handle = ""
        assert found == by_thread
    assert popper.out("g") == []
