"""One script of calls, to RocketMQ's proxy and broker 5.3.3 and to our gRPC: the same answers.

What may differ is listed, with its reason, in `samecalls.allowed`.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
import realbroker
from realbroker import RocketMQ
from sameanswers.allowed import unexpected, unused
from sameanswers.comparing import Difference, compare
from samecalls import script
from samecalls.allowed import ALLOWED
from samecalls.comparing import parts_of
from samecalls.making import make
from samecalls.run import CallExchange, CallRun

import reput
from reput_server import ServerConfig, serving

CLUSTER = "reput"
PLUGINS = frozenset({"consumequeue", "consumer", "filter", "index", "schedule", "transaction"})
HOST = "127.0.0.1"
Exchanges = Mapping[str, CallExchange]


def play_with_theirs(rocketmq: RocketMQ, home: Path, port: int) -> Exchanges:
    options = {
        "enablePropertyFilter": "true",
        "enableMixedMessageType": "true",
        "recallMessageEnable": "true",
        # A message of 4 MiB fits.
        "mappedFileSizeCommitLog": 16 << 20,
    }
    with (
        rocketmq.name_server(home / "names") as names,
        rocketmq.broker(home / "broker", names.address, **options) as broker,
    ):
        make((HOST, broker.port))
        with (
            realbroker.proxy(home / "proxy", names.address, cluster=CLUSTER, port=port) as proxy,
            CallRun(proxy) as run,
        ):
            script.play(run)
    return run.exchanges


def play_with_ours(home: Path, port: int) -> Exchanges:
    config = ServerConfig(
        listen=(HOST, 0),
        name_server=None,
        cluster=CLUSTER,
        grpc=(HOST, port),
        grpc_from_beginning=True,
    )
    with (
        reput.open(home / "store", plugins=PLUGINS) as store,
        serving(store, config) as server,
        CallRun(f"{HOST}:{port}") as run,
    ):
        make(server.address)
        script.play(run)
    return run.exchanges


@pytest.fixture(scope="module")
def played(
    newest: RocketMQ, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Exchanges, Exchanges]:
    """What became of the script there, and here, on the same port."""
    port = realbroker.free_ports()
    return (
        play_with_theirs(newest, tmp_path_factory.mktemp("theirs"), port),
        play_with_ours(tmp_path_factory.mktemp("ours"), port),
    )


@pytest.fixture(scope="module")
def differences(played: tuple[Exchanges, Exchanges]) -> list[Difference]:
    theirs, ours = played
    return compare(theirs, ours, parts_of)


def test_the_answers_are_the_same_but_for_what_is_listed(differences: list[Difference]):
    assert [str(each) for each in unexpected(differences, ALLOWED)] == []


def test_each_listed_difference_is_there(differences: list[Difference]):
    assert unused(differences, ALLOWED) == []


def test_the_script_asks_for_everything(played: tuple[Exchanges, Exchanges]):
    theirs, ours = played

    assert len(theirs) > 1_000
    assert list(theirs) == list(ours)
