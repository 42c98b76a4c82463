"""Answers that clients do not read have a bound, per connection and in all."""

from __future__ import annotations

import asyncio
import gc
import socket
import threading
import time
import weakref

import grpc
import pytest
from grpcclient import SERVICE, WAIT, GrpcClient
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import ResponseReceived
from h2.settings import SettingCodes, Settings

import reput
from reput_server.config import Limits
from reput_server.grpc.commandqueue import CommandQueue
from reput_server.grpc.messagetypes import m
from reput_server.grpc.transport import listener as listeners
from reput_server.grpc.transport.answermemory import AnswerMemory, AnswerShare
from reput_server.grpc.transport.framing import framed
from reput_server.testing.localbroker import LocalBroker

MIB = 1 << 20


class Silent:
    """A client that asks for messages and leaves no room for them."""

    def __init__(self, endpoints: str) -> None:
        host, port = endpoints.rsplit(":", 1)
        self.socket = socket.create_connection((host, int(port)), WAIT)
        self.me = H2Connection(H2Configuration(client_side=True, header_encoding="utf-8"))
        self.me.local_settings = Settings(
            client=True, initial_values={SettingCodes.INITIAL_WINDOW_SIZE: 0}
        )
        self.me.initiate_connection()

    def ask(self, name: str, message: bytes) -> None:
        stream = self.me.get_next_available_stream_id()
        fields = {
            ":method": "POST",
            ":scheme": "http",
            ":path": SERVICE + name,
            ":authority": "a",
            "content-type": "application/grpc",
            "x-mq-client-id": "silent",
        }
        self.me.send_headers(stream, list(fields.items()))
        self.me.send_data(stream, framed(message), end_stream=True)
        self.socket.sendall(self.me.data_to_send())


@pytest.fixture
def silent_client():
    """``silent_client(broker)``: a client that reads nothing."""
    made: list[Silent] = []

    def make(broker):
        made.append(Silent(broker.endpoints))
        return made[-1]

    yield make
    for each in made:
        each.socket.close()


def receive(group: str) -> bytes:
    request = m.ReceiveMessageRequest(
        group=m.Resource(name=group),
        message_queue=m.MessageQueue(topic=m.Resource(name="big")),
        batch_size=32,
        invisible_duration=m.Duration(seconds=600),
        long_polling_timeout=m.Duration(seconds=15),
    )
    return request.SerializeToString()


@pytest.fixture
def served():
    """A broker with a topic of four messages of 2 MiB, whose answers may take 16 MiB."""
    limits = Limits(bytes_of_all=16 * MIB, unread_bytes=12 * MIB)
    with LocalBroker(grpc=True, limits=limits) as broker:
        broker.create_topic("big")
        broker.store.put_many([reput.Message("big", bytes(2 * MIB)) for _ in range(4)])
        broker.store.wait_dispatched()
        yield broker


def until(condition):
    pause, deadline = threading.Event(), time.monotonic() + WAIT
    while not condition():
        assert time.monotonic() < deadline, "it never happened"
        pause.wait(0.01)


def answers_of(broker):
    return broker._running.grpc._listener.answers


def test_messages_are_taken_for_as_many_streams_as_there_is_memory(served, silent_client):
    answers, silent = answers_of(served), silent_client(served)
    popper = served.store.plugin("consumer").popper

    for number in range(20):
        silent.ask("ReceiveMessage", receive(f"g{number}"))
    until(lambda: served._running.grpc._listener._call_count == 20)
    until(lambda: answers._waiting)

    # The stream with the memory may still read while the others wait for theirs.
    until(lambda: any(each.count for each in popper.out()))

    # A batch of four messages, and what is on its way of it, in HTTP/2.
    assert sum(each.count for each in popper.out()) <= 8
    assert answers.held_size <= 16 * MIB + 4 * MIB
    silent.socket.close()
    until(lambda: answers.held_size == 0)
    assert not answers._waiting


def test_who_leaves_answers_unread_is_cut_if_others_wait_for_the_memory(
    served, silent_client, monkeypatch
):
    monkeypatch.setattr(listeners, "_UNREAD_SECONDS", 0.0)
    answers = answers_of(served)
    silent = [silent_client(served) for _ in range(3)]
    for number, each in enumerate(silent):
        each.ask("ReceiveMessage", receive(f"silent{number}"))
    until(lambda: answers.limit - answers.held_size < 5 * MIB)

    with GrpcClient(served.endpoints) as me:
        me.consume("me", "big")
        code, found = me.receive("me", "big", long_polling_timeout=m.Duration(seconds=15))

    assert code == 20000
    assert found
    for each in silent:
        each.socket.close()
    until(lambda: answers.held_size == 0)


@pytest.mark.costly
def test_a_connection_that_ends_leaves_nothing_to_the_collector(served, silent_client, monkeypatch):
    seen: list[weakref.ref] = []
    pop = type(served.store.plugin("consumer").popper).pop

    def noted(self, request):
        found = pop(self, request)
        seen.extend(weakref.ref(each) for each in found)
        return found

    monkeypatch.setattr(type(served.store.plugin("consumer").popper), "pop", noted)
    gc.collect()
    gc.disable()
    try:
        silent = silent_client(served)
        silent.ask("ReceiveMessage", receive("g"))
        until(lambda: len(seen) == 4)
        silent.socket.close()
        until(lambda: not [each for each in seen if each() is not None])
    finally:
        gc.enable()


def test_calls_are_refused_once_too_many_answers_are_left_unread(silent_client):
    with LocalBroker(grpc=True, limits=Limits(unread_bytes=10)) as broker:
        broker.create_topic("orders")
        route = m.QueryRouteRequest(topic=m.Resource(name="orders")).SerializeToString()
        silent = silent_client(broker)
        codes: list[str] = []

        silent.ask("QueryRoute", route)  # there is no room for its answer
        while len(codes) < 2:
            for event in silent.me.receive_data(silent.socket.recv(1 << 16)):
                if isinstance(event, ResponseReceived):
                    codes.append(dict(event.headers).get("grpc-status", "begun"))
                    if len(codes) == 1:
                        silent.ask("QueryRoute", route)
        silent.socket.close()

        assert codes == ["begun", "8"]
        with GrpcClient(broker.endpoints) as other:
            assert other.call("QueryRoute", m.QueryRouteRequest.FromString(route)).status.code


def test_room_is_given_to_connections_in_turn_and_what_is_too_large_goes_alone():
    async def trial():
        memory = AnswerMemory(limit=100, limit_of_one=60)
        one, other = AnswerShare(memory), AnswerShare(memory)
        assert await one.take(10, 40, 0) == 40
        assert await one.take(10, 40, 0) == 20  # what is left to the connection
        assert await one.take(1, 40, 0) == 0
        assert await other.take(10, 40, 0) == 40
        assert (memory.held_size, memory.is_full) == (100, True)

        waiting = [asyncio.ensure_future(share.take(10, 40, 60)) for share in (one, one, other)]
        await asyncio.sleep(0)
        one.note(-30)
        assert await waiting[0] == 30
        await asyncio.sleep(0)
        assert not waiting[1].done()
        other.note(-40)
        assert await waiting[2] == 40
        waiting[1].cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
        assert not memory._waiting

        one.note(-one.held_size)
        assert await one.take(500, 600, 0) == 0  # others hold some
        other.note(-other.held_size)
        assert await one.take(500, 600, 0) == 500
        assert memory.held_size == 500

    asyncio.run(trial())


def test_who_is_cancelled_while_room_was_given_gives_it_back():
    async def trial():
        memory = AnswerMemory(limit=10, limit_of_one=10)
        share = AnswerShare(memory)
        await share.take(10, 10, 0)
        waiting = asyncio.ensure_future(share.take(5, 10, 60))
        await asyncio.sleep(0)

        share.note(-10)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)

        assert memory.held_size == 0

    asyncio.run(trial())


def test_commands_that_a_client_does_not_read_count_as_its_answers():
    async def trial():
        memory = AnswerMemory(limit=1_000, limit_of_one=200)
        share = AnswerShare(memory)
        queue = CommandQueue(share)
        command = m.TelemetryCommand(status=m.Status(message="x" * 150))

        assert not queue.is_full(10)
        queue.put(command)
        assert not queue.is_full(10)
        queue.put(command)
        assert queue.is_full(10)
        assert memory.held_size == 2 * command.ByteSize()
        assert await queue.get() == command
        assert memory.held_size == command.ByteSize()
        queue.put(ValueError())
        queue.close()
        assert memory.held_size == 0

    asyncio.run(trial())


def test_the_settings_of_all_clients_have_a_bound():
    topics = [f"topic-{number:020d}" for number in range(700)]  # 23 KB
    with LocalBroker(grpc=True, limits=Limits(bytes_of_all=60_000)) as broker:
        clients = broker._running.grpc.clients
        with GrpcClient(broker.endpoints, "one") as one, GrpcClient(broker.endpoints, "two") as two:
            for each in (one, two, one):  # the same settings once more take nothing
                each.produce(*topics)
            assert clients._settings_size == sum(
                each.settings.ByteSize() for each in clients.by_id.values()
            )
            with GrpcClient(broker.endpoints, "three") as three:
                refused = three.produce(*topics)
                assert isinstance(refused, grpc.RpcError)
                assert "too much memory" in refused.details()
        until(lambda: not clients.by_id)
        assert clients._settings_size == 0
