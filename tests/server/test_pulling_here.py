"""Pulls that are read on the event loop: their answers are those of pulls that are not."""

from __future__ import annotations

import os
import random
import threading
from contextlib import ExitStack

import attrs
import pytest
import wiremutants
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from wirepeer import WirePeer

import reput
from reput_aio import ReadPlacement
from reput_client.remoting import Command, HeaderKind, RequestCode, ResponseCode
from reput_client.remoting import encode_frame as encoded
from reput_consumer import TopicSettings
from reput_server import Server, ServerConfig, serving

PULL = RequestCode.PULL_MESSAGE
MUTANTS = 1_000_000 if os.environ.get("REPUT_SOAK") else 300
COUNTS = {"orders": 120, "bills": 5, "%RETRY%billing": 3}
FIELDS = {
    "consumerGroup": "billing",
    "topic": "orders",
    "queueId": "0",
    "queueOffset": "0",
    "maxMsgNums": "32",
    "sysFlag": "4",
    "commitOffset": "0",
    "suspendTimeoutMillis": "0",
    "subscription": "*",
    "subVersion": "0",
    "expressionType": "TAG",
}


@attrs.frozen(eq=False)
class Filled:
    """A server that all tests of pulls ask."""

    server: Server
    stack: ExitStack

    def peer(self):
        return self.stack.enter_context(WirePeer(self.server.address))


@pytest.fixture(autouse=True)
def no_read_is_slow(monkeypatch, request):
    """A busy machine may hold a thread up within a read, which would spare the loop for a while."""
    if {"served", "filled"} & set(request.fixturenames):
        monkeypatch.setattr("reput_aio.readplacement.SLOW_SECONDS", 1e9)
        monkeypatch.setattr("reput_aio.readplacement._TURN_SECONDS", 1e9)


def here_of(served) -> ReadPlacement:
    return served.server.service._handlers.from_bytes[1].__self__.pulls.here


def fill(store):
    topics = store.plugin("consumer").topics
    for topic, count in COUNTS.items():
        topics.put(TopicSettings(topic=topic, read_queue_nums=2, write_queue_nums=2))
        for at in range(count):
            store.put(
                reput.Message(
                    topic,
                    bytes([at]) * (at % 7 * 40),
                    queue_id=at % 9 == 8,
                    tags=(None, "a", "b", "Aa", "BB")[at % 5],  # the last two have one hash
                    sys_flag=at % 3 == 2,  # said to be compressed: handed out as it stands
                )
            )
    store.put_many([reput.Message("orders", b"x" * 5_000, 0, tags="a")] * 20)
    assert store.wait_dispatched(timeout=20)


@pytest.fixture(scope="module")
def filled(tmp_path_factory):
    """A server over topics of several queues, read once each."""
    plugins = {"consumequeue", "consumer", "filter"}
    path = tmp_path_factory.mktemp("pulls") / "store"
    with ExitStack() as stack:
        store = stack.enter_context(
            reput.open(path, plugins=plugins, config={"commitlog": {"file_size": 1 << 20}})
        )
        fill(store)
        config = ServerConfig(listen=("127.0.0.1", 0), name_server=None)
        served = Filled(stack.enter_context(serving(store, config)), stack)
        with pytest.MonkeyPatch.context() as patch:  # this fixture comes before `no_read_is_slow`
            patch.setattr("reput_aio.readplacement.SLOW_SECONDS", 1e9)
            for topic in COUNTS:
                for queue_id in range(2):
                    assert ask(served.peer(), {"topic": topic, "queueId": str(queue_id)})
        yield served


def ask(peer, changed, code=PULL, kind=HeaderKind.JSON, body=b""):
    """Return the answer to a pull, as it is after its length."""
    fields = {name: each for name, each in {**FIELDS, **changed}.items() if each is not None}
    peer.socket.sendall(encoded(Command(code, fields, body, 77), kind))
    found = b""
    while len(found) < 4 or len(found) < 4 + int.from_bytes(found[:4], "big"):
        data = peer.socket.recv(1 << 20)
        assert data
        found += data
    return found


def both(served, peer, changed, **options):
    """Return the answer to a pull, which is the same by both ways, and whether one was used."""
    here = here_of(served)
    here.is_possible = False
    expected = ask(peer, changed, **options)
    here.is_possible = True
    before = here.count
    assert ask(peer, changed, **options) == expected
    return expected, here.count - before


@pytest.fixture(scope="module")
def peer(filled):
    return filled.peer()


PULLS = st.fixed_dictionaries(
    {
        "topic": st.sampled_from([*COUNTS, "unknown"]),
        "queueId": st.sampled_from(["0", "1", "2", "-1", "00"]),
        "queueOffset": st.integers(-2, 140).map(str),
        "maxMsgNums": st.sampled_from(["0", "1", "31", "32", "1024", "2000", "-5", "1.5"]),
        "sysFlag": st.integers(0, 31).map(str),
        "commitOffset": st.integers(-1, 140).map(str),
        "subscription": st.sampled_from(["*", "", "a", "a || b", "Aa", "z", "||", None, "a = 'b'"]),
        "subVersion": st.sampled_from(["0", "1", "9223372036854775807"]),
        "expressionType": st.sampled_from(["TAG", "SQL92", None, "X"]),
        "maxMsgBytes": st.sampled_from([None, "1", "300", "4194304", "0", "-1", "x"]),
        "more": st.sampled_from([None, "x"]),
    }
)


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    changed=PULLS,
    code=st.sampled_from([PULL, RequestCode.LITE_PULL_MESSAGE]),
    kind=st.sampled_from(list(HeaderKind)),
    body=st.sampled_from([b"", b"", b"body"]),
)
def test_any_pull_is_answered_with_the_same_bytes_by_both_ways(
    filled, peer, changed, code, kind, body
):
    both(filled, peer, changed, code=code, kind=kind, body=body)


def test_seeded_mutants_are_answered_with_the_same_bytes_by_both_ways(filled, peer):
    chance = random.Random(29)
    nasty = [each for each in wiremutants.NASTY if len(each) <= 300]
    names = sorted(set(FIELDS) - {"suspendTimeoutMillis"})
    used = 0
    for _ in range(MUTANTS):
        changed = {
            name: chance.choice([None, *nasty, str(chance.randrange(150))])
            for name in chance.sample(names, chance.randrange(3))
        }
        used += both(filled, peer, changed, kind=chance.choice(list(HeaderKind)))[1]
    assert used > MUTANTS / 5


@pytest.mark.parametrize(
    ("changed", "is_here"),
    [
        ({}, True),
        ({"queueId": "1"}, True),
        ({"queueOffset": "9999"}, True),
        ({"subscription": "a || b"}, True),
        ({"sysFlag": "5", "commitOffset": "7"}, True),
        ({"topic": "unknown"}, False),
        ({"subscription": "TAGS = 'a'", "expressionType": "SQL92"}, False),
        ({"maxMsgNums": "many"}, False),
        ({"sysFlag": "0"}, False),
    ],
)
def test_ordinary_pulls_are_read_on_the_loop_and_others_are_not(filled, peer, changed, is_here):
    assert bool(both(filled, peer, changed)[1]) == is_here


def test_many_pulls_at_once_are_all_answered(filled):
    peer = filled.peer()
    for opaque in range(1, 301):
        command = Command(PULL, {**FIELDS, "queueOffset": str(opaque % 100)}, b"", opaque)
        peer.socket.sendall(encoded(command))

    answers = [peer.receive() for _ in range(300)]

    assert {each.opaque for each in answers} == set(range(1, 301))
    assert {each.code for each in answers} == {ResponseCode.SUCCESS}


@pytest.mark.parametrize("first", [{"expressionType": "SQL92", "subscription": "a = 1"}, {}])
def test_no_pull_overtakes_one_that_goes_the_longer_way(filled, first):
    peer, group = filled.peer(), f"ordered{len(first)}"
    offsets = {"consumerGroup": group, "sysFlag": "5"}
    ask(peer, offsets)
    early = {**FIELDS, **offsets, **first, "queueOffset": "10", "commitOffset": "10"}
    late = {**FIELDS, **offsets, "queueOffset": "60", "commitOffset": "60"}

    peer.socket.sendall(
        encoded(Command(PULL, early, b"", 1)) + encoded(Command(PULL, late, b"", 2))
    )
    for _ in range(2):
        peer.receive()

    asked = {"consumerGroup": group, "topic": "orders", "queueId": "0"}
    peer.socket.sendall(encoded(Command(RequestCode.QUERY_CONSUMER_OFFSET, asked, b"", 3)))
    assert peer.receive().fields["offset"] == "60"


def test_a_pull_that_waits_is_held_and_answered_on_the_loop(served):
    served.store.put(reput.Message("orders", b"first", 0))
    assert served.store.wait_dispatched(timeout=20)
    served.store.plugin("consumer").topics.put(TopicSettings(topic="orders"))
    peer, here, held = served.peer(), here_of(served), served.server.broker.held
    waiting = {**FIELDS, "sysFlag": "6", "suspendTimeoutMillis": "20000"}
    ask(peer, {})
    before = here.count

    for at in (1, 2):
        fields = {**waiting, "queueOffset": str(at)}
        peer.socket.sendall(encoded(Command(PULL, fields, b"", at)))
        pause = threading.Event()
        while not len(held):
            pause.wait(0.001)
        served.store.put(reput.Message("orders", b"next", 0))
        answer = peer.receive()
        assert (answer.opaque, answer.code) == (at, ResponseCode.SUCCESS)

    assert here.count - before >= 4
    assert served.server.service._taken_count == 0


def test_a_signature_is_asked_for_here_too(serve):
    served = serve(access_keys={"me": "secret"})
    served.store.put(reput.Message("orders", b"first", 0))
    here_of(served)._near["orders", 0] = 0, 0
    served.store.plugin("consumer").topics.put(TopicSettings(topic="orders"))

    answer = ask(served.peer(), {})

    assert b"no known access key" in answer
    assert here_of(served).count == 0
