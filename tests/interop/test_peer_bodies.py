"""What a broker 5.3.3 reads into members of another type, beside what was recorded, and ours."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
from peerbodies import Servers, differing, read_recorded, table, unexpected, unused
from realbroker import RocketMQ

from reput_client.remoting import parse_address
from reput_server import LocalBroker

HOST = "127.0.0.1"


def test_a_real_broker_answers_as_recorded(newest: RocketMQ, tmp_path: Path):
    with (
        newest.name_server(tmp_path / "names") as names,
        newest.broker(tmp_path / "broker", names.address, enablePropertyFilter="true") as broker,
    ):
        theirs = table(Servers((HOST, broker.port), (HOST, names.port)))

    assert differing(read_recorded(), theirs) == []


def test_our_server_differs_from_it_only_as_listed(caplog: pytest.LogCaptureFixture):
    caplog.set_level(logging.CRITICAL)

    with LocalBroker() as broker:
        servers = Servers(parse_address(broker.address), parse_address(broker.name_server))
        differences = differing(read_recorded(), table(servers))

    assert list(unexpected(differences)) == []
    assert unused(differences) == []
