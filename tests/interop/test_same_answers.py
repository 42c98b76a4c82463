"""One script of requests, to a broker of RocketMQ 5.3.3 and to ours: the same answers.

What may differ is listed, with its reason, in `sameanswers.allowed`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import attrs
import pytest
import realbroker
from realbroker import RocketMQ
from sameanswers import allowed, script
from sameanswers.comparing import Difference, compare
from sameanswers.run import Exchange, Run
from sameanswers.stores import differing_files, differing_records

import reput
from reput_server import ServerConfig, serving

CLUSTER = "reput"
PLUGINS = frozenset({"consumequeue", "consumer", "filter", "index", "schedule", "transaction"})
HOST = "127.0.0.1"


@attrs.frozen
class Played:
    """What the script has left: answers, and a store."""

    exchanges: Mapping[str, Exchange]
    store: Path


@attrs.frozen
class Ports:
    """Both brokers listen on the same ports, one after the other: so addresses are the same."""

    names: int
    broker: int

    @contextmanager
    def run(self) -> Iterator[Run]:
        with Run((HOST, self.broker), (HOST, self.names)) as run:
            yield run


def play_with_java(rocketmq: RocketMQ, ports: Ports, home: Path) -> Played:
    options = {"store": home / "store", "port": ports.broker, "enablePropertyFilter": "true"}
    with (
        rocketmq.name_server(home / "names", ports.names) as names,
        rocketmq.broker(home / "broker", names.address, **options),
        ports.run() as run,
    ):
        script.play(run)
    return Played(run.exchanges, home / "store")


def play_with_ours(ports: Ports, home: Path) -> Played:
    log = {"file_size": 1 << 20, "store_address": f"{HOST}:{ports.broker}"}
    store_config = {**realbroker.STORE_CONFIG, "commitlog": log}
    config = ServerConfig(
        listen=(HOST, ports.broker), name_server=(HOST, ports.names), cluster=CLUSTER
    )
    with (
        reput.open(home / "store", plugins=PLUGINS, config=store_config) as store,
        serving(store, config),
        ports.run() as run,
    ):
        script.play(run)
    return Played(run.exchanges, home / "store")


@pytest.fixture(scope="module")
def played(newest: RocketMQ, tmp_path_factory: pytest.TempPathFactory) -> tuple[Played, Played]:
    """What became of the script there, and here."""
    ports = Ports(realbroker.free_ports(), realbroker.free_ports(1, -2))
    return (
        play_with_java(newest, ports, tmp_path_factory.mktemp("theirs")),
        play_with_ours(ports, tmp_path_factory.mktemp("ours")),
    )


@pytest.fixture(scope="module")
def differences(played: tuple[Played, Played]) -> list[Difference]:
    theirs, ours = played
    return compare(theirs.exchanges, ours.exchanges)


def test_the_answers_are_the_same_but_for_what_is_listed(differences: list[Difference]):
    assert [str(each) for each in allowed.unexpected(differences)] == []


def test_each_listed_difference_is_there(differences: list[Difference]):
    assert allowed.unused(differences) == []


def test_the_script_asks_for_everything(played: tuple[Played, Played]):
    theirs, _ = played

    codes = {each.answer.code for each in theirs.exchanges.values() if each.answer is not None}

    assert len(theirs.exchanges) > 500
    assert codes >= {0, 1, 3, 13, 16, 17, 19, 20, 21, 22, 24, 25, 26, 29}


def test_the_logs_hold_the_same_records(played: tuple[Played, Played]):
    theirs, ours = played

    assert differing_records(theirs.store, ours.store) == []


def test_the_brokers_files_say_the_same(played: tuple[Played, Played]):
    theirs, ours = played

    assert differing_files(theirs.store, ours.store) == []
