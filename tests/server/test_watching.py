"""Metrics and health over HTTP: what they say, and what a peer may take."""

from __future__ import annotations

import asyncio
import http.client
import json
import re
import socket
import sys
import threading
from contextlib import closing

import pytest
import wirescript
from wirepeer import message

import reput
from reput_client.remoting import (
    ConsumerData,
    Heartbeat,
    RequestCode,
    Subscription,
    UpdateGroupOffset,
)
from reput_server.errors import ServerError
from reput_server.monitoring.httppages import HttpPages, Page
from reput_server.monitoring.serverfigures import health_of

ANYWHERE = ("127.0.0.1", 0)


@pytest.fixture
def watched(serve):
    return serve(metrics=ANYWHERE)


def get(address, path, method="GET"):
    with closing(http.client.HTTPConnection(*address, timeout=20)) as connection:
        connection.request(method, path)
        answer = connection.getresponse()
        return answer.status, dict(answer.getheaders()), answer.read().decode()


def raw(address, data):
    """What comes back for bytes that are no request, or none that a client would make."""
    with socket.create_connection(address, 20) as peer:
        peer.sendall(data)
        peer.shutdown(socket.SHUT_WR)
        found = b""
        while more := peer.recv(65_536):
            found += more
    return found


def metrics_of(text):
    from prometheus_client.parser import text_string_to_metric_families

    return {
        (sample.name, *sorted(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def work(served, topic="orders", group="billing"):
    """Send three messages, pull them, and commit one."""
    peer = served.peer()
    data = ConsumerData(group=group, subscriptions=(Subscription(topic=topic),))
    heartbeat = Heartbeat(client_id="me", producer_groups=("makers",), consumers=(data,))
    peer.ask(RequestCode.HEART_BEAT, body=heartbeat.encode())
    for _ in range(3):
        peer.ask(RequestCode.SEND_MESSAGE_V2, message(topic, 0), body=b"x")
    served.wait_counted()
    pull = wirescript.pull(topic=topic, consumer_group=group)
    peer.ask(RequestCode.PULL_MESSAGE, pull)
    update = UpdateGroupOffset(consumer_group=group, topic=topic, queue_id=0, commit_offset=1)
    peer.ask(RequestCode.UPDATE_CONSUMER_OFFSET, update)
    return peer


# --------------------------------------------------------------------------- what is said


def test_metrics_say_what_the_server_and_the_store_do(watched):
    work(watched)

    status, heads, text = get(watched.server.metrics, "/metrics")

    found = metrics_of(text)
    names = {key[0] for key in found}
    assert status == 200
    assert heads["Content-Type"].startswith("text/plain; version=")
    assert found[("reput_server_up",)] == found[("reput_up",)] == 1
    assert found[("reput_server_connections", ("port", "broker"))] == 1
    assert found[("reput_server_connections", ("port", "names"))] == 0
    assert found[("reput_server_requests_total", ("port", "broker"))] == 6
    assert found[("reput_server_producers", ("group", "makers"))] == 1
    assert found[("reput_server_put_messages_total", ("topic", "orders"))] == 3
    assert found[("reput_server_put_bytes_total", ("topic", "orders"))] > 300
    both = ("group", "billing"), ("topic", "orders")
    assert found[("reput_server_got_messages_total", *both)] == 3
    assert found[("reput_server_group_lag_messages", ("group", "billing"))] == 2
    assert found[("reput_server_group_members", ("group", "billing"))] == 1
    assert found[("reput_server_group_mixed", ("group", "billing"))] == 0
    for times, count in (("send", 3), ("put", 3), ("read", 1)):
        name = f"reput_server_{times}_seconds"
        assert found[(f"{name}_count",)] == count
        assert found[(f"{name}_bucket", ("le", "+Inf"))] == count
        assert found[(f"{name}_sum",)] > 0
    assert found[("reput_plugin_lag_bytes", ("plugin", "consumequeue"))] == 0
    assert found[("reput_topic_messages_total", ("topic", "orders"))] == 3
    assert {"reput_server_held_pulls", "reput_server_waiting_sends"} <= names


def test_members_that_subscribe_differently_are_shown(watched):
    work(watched)
    with watched.store.consumer("billing", {"orders": "paid"}, name="other", mixed=True):
        found = metrics_of(get(watched.server.metrics, "/metrics")[2])

    assert found[("reput_server_group_mixed", ("group", "billing"))] == 1


def test_every_metric_is_listed_and_told(watched):
    from reput_server.monitoring.metriclist import METRICS

    peer = work(watched)
    from reput_client.remoting import SendBack

    (stored,) = watched.store.read("orders", 0, 0).messages[:1]
    back = SendBack(offset=stored.physical_offset, group="billing", delay_level=0)
    peer.ask(RequestCode.CONSUMER_SEND_MSG_BACK, back)

    _, _, text = get(watched.server.metrics, "/metrics")

    told = set(re.findall(r"^# TYPE (reput_server_\w+) ", text, re.MULTILINE))
    assert told == set(METRICS)


def test_labels_are_bounded(watched, monkeypatch):
    monkeypatch.setattr("reput_server.monitoring.prometheus.LABELS_MAX", 2)
    watched.store.put_many(
        [reput.Message(f"topic{number}", b"x") for number in (0, 1, 1, 2, 2, 2, 3)]
    )
    watched.wait_counted()

    found = metrics_of(get(watched.server.metrics, "/metrics")[2])

    counted = {
        dict(key[1:])["topic"]: value
        for key, value in found.items()
        if key[0] == "reput_server_put_messages_total"
    }
    assert counted == {"topic2": 3, "topic1": 2, "(others)": 2}


def test_names_in_requests_are_labels_of_metrics(serve, tmp_path):
    evil = "<script>alert(1)</script>"
    reput.open(tmp_path / "store", plugins=["consumequeue", "consumer"]).close()
    offsets = tmp_path / "store" / "config" / "consumerOffset.json"
    offsets.parent.mkdir(exist_ok=True)
    offsets.write_text(json.dumps({"offsetTable": {f"orders@{evil}": {"0": 1}}}))
    watched = serve(frozenset({"consumequeue", "consumer"}), metrics=ANYWHERE)
    heartbeat = Heartbeat(client_id="me", producer_groups=(evil,))
    watched.peer().ask(RequestCode.HEART_BEAT, body=heartbeat.encode())

    _, heads, text = get(watched.server.metrics, "/metrics")

    assert heads["X-Content-Type-Options"] == "nosniff"
    assert metrics_of(text)[("reput_server_producers", ("group", evil))] == 1


def test_health_is_ok_while_messages_come_in_and_out(watched):
    status, heads, text = get(watched.server.metrics, "/health")

    assert (status, json.loads(text)) == (200, {"status": "ok", "reasons": []})
    assert heads["Content-Type"] == "application/json"
    assert get(watched.server.metrics, "/health", "HEAD")[2] == ""


def test_a_plugin_that_stands_is_told(serve):
    served = serve(metrics=ANYWHERE)
    served.store.suspend_plugin("index")
    degraded = get(served.server.metrics, "/health")
    served.server.keeper.max_age = 0
    served.store.suspend_plugin("consumequeue")

    failing = get(served.server.metrics, "/health")

    assert (degraded[0], json.loads(degraded[2])["status"]) == (200, "degraded")
    assert json.loads(degraded[2])["reasons"] == ["plugin index is suspended"]
    assert (failing[0], json.loads(failing[2])["status"]) == (503, "failing")
    assert metrics_of(get(served.server.metrics, "/metrics")[2])[("reput_server_up",)] == 0


def test_a_log_that_cannot_be_flushed_is_told():
    found = health_of([], OSError("broken"))

    assert (found.status, "nothing is stored: broken" in found.reasons[0]) == ("failing", True)


def test_a_store_for_reading_is_watched_too(serve):
    serve().store.close()
    served = serve(mode="r", metrics=ANYWHERE)

    assert get(served.server.metrics, "/metrics")[0] == 200


# --------------------------------------------------------------------------- what peers may take


def test_other_paths_and_methods_are_refused(watched):
    address = watched.server.metrics

    assert get(address, "/none")[0] == 404
    assert "/health, /metrics" in get(address, "/none")[2]
    assert get(address, "/", "POST")[0] == 405
    assert get(address, "/?a=b")[0] == 200
    assert get(address, "/../etc/passwd")[0] == 404


def test_what_is_no_request_ends_its_connection_and_nothing_else(watched):
    cases = {
        b"\r\n\r\n": [],
        b"GET / SMTP\r\n\r\n": [b"400"],
        b"GET / HTTP/3.0\r\n\r\n": [b"505"],
        b"\xff\xfe / HTTP/1.1\r\n\r\n": [b"405"],
        b"POST / HTTP/1.1\r\nContent-Length: 9\r\n\r\nquestions": [b"405"],
        b"GET /\xff HTTP/1.1\r\n\r\n": [b"404"],
        b"GET /" + b"x" * 40_000 + b" HTTP/1.1\r\n\r\n": [b"431"],
        b"GET / HTTP/1.1\r\n" + b"a: b\r\n" * 200 + b"\r\n": [b"431"],
        b"GET / HTTP/1.1\r\na: " + b"x" * 40_000 + b"\r\n\r\n": [b"431"],
        b"GET / HTTP/1.1\r\n" + (b"a: " + b"x" * 4_000 + b"\r\n") * 4 + b"\r\n": [b"200"],
        b"GET / HTTP/1.1\r\n" + (b"a: " + b"x" * 4_000 + b"\r\n") * 5 + b"\r\n": [b"431"],
        b"GET / HTTP/1.1\r\n": [b"200"],
        b"": [],
    }

    found = {data: raw(watched.server.metrics, data).split(b" ")[1:2] for data in cases}

    assert found == cases
    assert get(watched.server.metrics, "/health")[0] == 200


def test_slow_peers_are_cut_and_only_a_few_are_let_in(watched, monkeypatch):
    monkeypatch.setattr("reput_server.monitoring.httppages._CONNECTIONS_MAX", 2)
    address = watched.server.metrics
    server = watched.server.watch._pages._server
    server.seconds = 0.2
    ended = ends_of(server, monkeypatch)
    with (
        socket.create_connection(address, 20) as first,
        socket.create_connection(address, 20) as second,
        socket.create_connection(address, 20) as third,
    ):
        ends = []
        for peer in (third, first, second):
            try:
                ends.append(peer.recv(1))
            except ConnectionResetError:
                ends.append(b"")

    assert ends == [b"", b"", b""]
    assert all(ended.acquire(timeout=20) for _ in ends)
    assert get(address, "/health")[0] == 200


def ends_of(server, monkeypatch):
    """Released once for each connection whose thread has ended."""
    ended, end = threading.Semaphore(0), server.shutdown_request
    monkeypatch.setattr(server, "shutdown_request", lambda peer: (end(peer), ended.release()))
    return ended


def test_a_connection_whose_page_is_waited_for_keeps_its_place(monkeypatch):
    monkeypatch.setattr("reput_server.monitoring.httppages._CONNECTIONS_MAX", 1)

    async def run():
        begun, there = asyncio.Event(), asyncio.Event()

        async def slow():
            begun.set()
            await there.wait()
            return Page(b"fine", "text/plain")

        pages = HttpPages({"/slow": slow})
        await pages.start(ANYWHERE)
        ended = ends_of(pages._server, monkeypatch)
        first = asyncio.create_task(asyncio.to_thread(get, pages.address, "/slow"))
        await begun.wait()
        pages._server._end(float("inf"))
        with pytest.raises(ConnectionError):
            await first
        with pytest.raises(ConnectionError):
            await asyncio.to_thread(get, pages.address, "/slow")
        there.set()
        assert all([await asyncio.to_thread(ended.acquire, timeout=20) for _ in range(2)])
        found = await asyncio.to_thread(get, pages.address, "/slow")
        await pages.stop()
        return found

    assert asyncio.run(run())[0] == 200


def test_a_page_that_fails_is_answered_for(caplog):
    async def fails():
        raise RuntimeError("secret")

    async def ends():
        raise asyncio.CancelledError

    async def works():
        return Page(b"fine", "text/plain")

    async def run():
        pages = HttpPages({"/fails": fails, "/ends": ends, "/works": works})
        await pages.start(ANYWHERE)
        found = [await asyncio.to_thread(get, pages.address, path) for path in pages.by_path]
        await pages.stop()
        return found

    failed, ended, worked = asyncio.run(run())
    assert [each.exc_info[0] for each in caplog.records] == [RuntimeError]
    assert (ended[0], ended[2]) == (503, "503 Service Unavailable\n")
    assert (failed[0], failed[2]) == (500, "500 Internal Server Error: RuntimeError\n")
    assert (worked[0], worked[2]) == (200, "fine")


def test_metrics_without_the_client_of_prometheus_are_an_error_that_names_the_extra(
    serve, monkeypatch
):
    monkeypatch.setitem(sys.modules, "prometheus_client.core", None)
    monkeypatch.delitem(sys.modules, "reput_server.monitoring.prometheus", raising=False)

    with pytest.raises(ServerError, match=r"prometheus_client.*reput-tools\[prometheus\]"):
        serve(metrics=ANYWHERE)


def test_a_port_that_is_taken_is_an_error(serve):
    with (
        socket.create_server(("127.0.0.1", 0)) as taken,
        pytest.raises(OSError, match="in use"),
    ):
        serve(metrics=taken.getsockname())
