"""RocketMQ's own proxy in cluster mode in front of the server, and a released client of it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import realbroker
from mavenparts import JavaUnavailableError
from stock import FIVES, FiveProgram, started_five

from reput_server import LocalBroker

(PYTHON5,) = (kind for kind in FIVES if kind.name == "python5")


@pytest.fixture
def broker() -> Iterator[LocalBroker]:
    with LocalBroker() as broker:
        for name in ("NORMAL", "FIFO", "DELAY", "TRANSACTION"):
            broker.create_topic(name.lower(), message_type=name)
        broker.create_group("ordered", ordered=True)
        yield broker


@pytest.fixture
def program(broker: LocalBroker, tmp_path: Path) -> Iterator[FiveProgram]:
    try:
        with (
            realbroker.proxy(tmp_path / "proxy", broker.name_server) as endpoints,
            started_five(PYTHON5, tmp_path / "program", endpoints) as program,
        ):
            yield program
    except JavaUnavailableError as error:
        pytest.skip(str(error))


def test_a_client_of_the_proxy_does_what_it_can(broker: LocalBroker, program: FiveProgram):
    program.producer("normal", "fifo", "delay", "transaction", checks=True)
    words = ("0", "once", "2", "3")
    sent = program.send(
        {"topic": "normal", "body": "once", "tag": "paid", "keys": ["k1"]},
        {"topic": "normal", "body": "two", "tag": "open"},
        *({"topic": "fifo", "body": each, "message_group": "g"} for each in words),
        {"topic": "delay", "body": "later", "delay_s": 2},
        *({"topic": "transaction", "body": each, "end": each} for each in ("commit", "rollback")),
        {"topic": "normal", "body": "wrong", "message_group": "g"},
        {"topic": "fifo", "body": "wrong"},
        {"topic": "nowhere", "body": "wrong"},
    )
    assert ["error" in each for each in sent] == [False] * 9 + [True] * 3

    for topic, expression, body in (
        ("normal", "paid", "once"),
        ("delay", "*", "later"),
        ("transaction", "*", "commit"),
    ):
        program.simple(f"simple-{topic}", topic, topic, expression=expression)
        [row] = program.receive(1, name=topic, change_s=20)
        assert (row["body"], row["attempt"]) == (body, 1)
        if topic == "normal":
            assert (row["tag"], row["keys"]) == ("paid", ["k1"])

    program.listen("push", "normal")
    found = sorted((row["body"], row["attempt"]) for row in program.taken(3))
    assert found == [("once", 1), ("once", 2), ("two", 1)]
    (retried,) = broker.messages("%RETRY%push_normal")
    assert (retried.body, retried.reconsume_times) == (b"once", 1)

    program.listen("ordered", "fifo", "in order")
    assert [row["body"] for row in program.taken(5, name="in order")] == ["0", "once", *words[1:]]
