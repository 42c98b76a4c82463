"""A store that is followed, and served: which errors are those of the server."""

from __future__ import annotations

import socket

import pytest

import reput
from reput_server.follow.command.serving import served
from reput_tools.cli.kit import ExitCode, Failure

ANYWHERE = ("127.0.0.1", 0)


@pytest.fixture
def replica(tmp_path):
    with reput.open(
        tmp_path / "store", plugins=["consumequeue"], master="cluster/broker-a"
    ) as store:
        yield store


@pytest.mark.parametrize("error", [BrokenPipeError(32, "Broken pipe"), OSError(5, "disk")])
def test_an_error_beside_the_server_stays_what_it_is(replica, error):
    def serve_and_fail():
        with served(replica, ANYWHERE, ANYWHERE):
            raise error

    with pytest.raises(OSError) as caught:
        serve_and_fail()

    assert caught.value is error


def test_an_address_that_is_taken_says_what_to_choose(replica):
    with socket.create_server(ANYWHERE) as taken:
        with pytest.raises(Failure, match="choose other addresses with --serve") as caught:
            with served(replica, taken.getsockname(), None):
                raise AssertionError("it listens where another server does")

    assert caught.value.exit_code == ExitCode.UNAVAILABLE
