"""A broker that registers at name servers of others."""

from __future__ import annotations

import os
import socket
import threading
import time
from contextlib import ExitStack, contextmanager
from functools import partial

import attrs
import pytest
from wirepeer import WirePeer, message

import reput_server.server
from reput_client.remoting import (
    BrokerData,
    ClusterInfo,
    RegisterBroker,
    Registration,
    RequestCode,
    TopicRoute,
    TopicRouteOf,
    TopicSettings,
)
from reput_server import ServerConfig, serving
from reput_server.nameserver.registrar import Registrar

ANYWHERE = ("127.0.0.1", 0)
OWN_HOST = f"127.77.{os.getpid() >> 8 & 255}.{os.getpid() & 255}"
"""An address of loopback on which nobody else takes a port that was free a moment ago."""


@contextmanager
def name_server(address=ANYWHERE):
    with serving(None, ServerConfig(listen=None, name_server=address)) as server:
        yield server


@pytest.fixture
def stack():
    with ExitStack() as found:
        yield found


@pytest.fixture
def others(stack):
    """Two name servers without a broker."""
    return [stack.enter_context(name_server()).name_server for _ in range(2)]


@pytest.fixture
def soon(monkeypatch):
    """Failed registrations are tried again soon."""
    monkeypatch.setattr(reput_server.server, "Registrar", partial(Registrar, retry_seconds=0.02))


def asked(address, code, header=None):
    with WirePeer(address) as peer:
        return peer.ask(code, header)


def route(address, topic):
    answer = asked(address, RequestCode.GET_ROUTEINFO_BY_TOPIC, TopicRouteOf(topic=topic))
    return TopicRoute.decode(answer.body) if answer.code == 0 else None


def brokers(address):
    answer = asked(address, RequestCode.GET_BROKER_CLUSTER_INFO)
    return ClusterInfo.decode(answer.body).brokers


def until(what, seconds=20):
    """Ask until there is an answer."""
    end, pause = time.monotonic() + seconds, threading.Event()
    while not (found := what()):
        assert time.monotonic() < end, f"not in {seconds} s"
        pause.wait(0.002)
    return found


def own(served):
    return "{}:{}".format(*served.server.address)


def test_all_name_servers_learn_of_the_broker_and_of_new_topics(serve, others):
    served = serve(register=tuple(others), cluster="shops")
    data = BrokerData(cluster="shops", broker="broker-a", addresses={0: own(served)})
    for each in others:
        assert until(lambda each=each: brokers(each)) == {"broker-a": data}

    served.peer().ask(RequestCode.SEND_MESSAGE_V2, message("orders"), body=b"x")

    for each in others:
        found = until(lambda each=each: route(each, "orders"))
        assert found.brokers == (data,)
        assert [queue.write_queues for queue in found.queues] == [4]


def test_a_broker_that_ends_is_forgotten_at_once(serve, others, stack):
    served = serve(register=tuple(others))
    until(lambda: brokers(others[0]) and brokers(others[1]))

    served._open.close()

    assert [brokers(each) for each in others] == [{}, {}]


def test_one_that_is_not_there_keeps_nobody_waiting_and_is_tried_again(
    serve, others, stack, soon, caplog
):
    with socket.create_server((OWN_HOST, 0)) as free:
        later = free.getsockname()
    served = serve(register=(later, others[0]))
    until(lambda: brokers(others[0]))
    assert served.peer().ask(RequestCode.SEND_MESSAGE_V2, message("t"), body=b"x").code == 0
    until(
        lambda: [each for each in caplog.messages if f"name_server={OWN_HOST}:{later[1]}" in each]
    )

    with name_server(later):
        until(lambda: brokers(later))

    with name_server(later):  # another one, which knows nothing
        assert until(lambda: route(later, "t")).brokers[0].addresses == {0: own(served)}


def test_a_name_that_another_broker_has_is_warned_of(serve, others, caplog):
    header = RegisterBroker(
        broker_name="broker-a", broker_addr="10.0.0.2:10911", cluster_name="C", broker_id=0
    )
    with WirePeer(others[0]) as theirs:
        theirs.ask(RequestCode.REGISTER_BROKER, header, body=Registration().encode())
        serve(register=(others[0],))
        until(lambda: caplog.messages)

    assert "address=10.0.0.2:10911" in caplog.text
    assert "give this one another with --name" in caplog.text


def test_one_topic_does_not_come_alone_as_name_servers_of_5_refuse_it(serve, others):
    serve(register=(others[0],), creates_topics=False)

    found = until(lambda: brokers(others[0]))

    assert set(found) == {"broker-a"}
    assert route(others[0], "SELF_TEST_TOPIC").queues[0].write_queues == 1


def test_what_may_only_be_read_is_registered_so(serve, others):
    first = serve()
    first.peer().ask(RequestCode.SEND_MESSAGE_V2, message("orders"), body=b"x")
    first.store.flush()
    served = serve(mode="r", register=(others[0],))

    found = until(lambda: route(others[0], "orders"))

    assert [queue.permissions for queue in found.queues] == [4]
    assert route(served.server.name_server, "orders").queues == found.queues


def test_the_version_tells_whether_topics_have_changed():
    registrar = Registrar(None, (), None, lambda: 7)
    registrar.start()
    one = {name: TopicSettings(topic=name) for name in ("a", "b")}
    other = {**one, "a": attrs.evolve(one["a"], read_queues=1)}

    found = [registrar._registration(topics).version for topics in (one, dict(one), other)]

    assert [each["counter"] for each in found] == [1, 1, 2]
    assert {each["timestamp"] for each in found} == {7}
