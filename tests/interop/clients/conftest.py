"""Fixtures of the tests with stock clients: the client, and the broker that it talks to.

A test says with ``@pytest.mark.scenario(title, clients)`` what it is about and whose it is: words
of ``java`` (both releases), ``java-4.9.8``, ``java-5.3.3``, ``go``, ``node``. It runs once for
each. ``scenario5`` is the same for clients for release 5: ``java5``, ``python5``, ``node5``,
``go5``, ``rust5``. With ``no``, a marker names clients with which it fails. The site fills the
tables of docs/stock-clients.md from these markers.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from reput_server import LocalBroker

# `--import-mode=importlib` puts no folder on the path.
sys.path.insert(0, str(Path(__file__).parent))

from stock import CLIENTS, FIVES, Kind, Program, have_topic, started


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    for word, clients in (("scenario", CLIENTS), ("scenario5", FIVES)):
        marker = metafunc.definition.get_closest_marker(word)
        if marker is not None and "kind" in metafunc.fixturenames:
            _parametrize(metafunc, marker.args[1].split(), clients)


def _parametrize(metafunc: pytest.Metafunc, words: Sequence[str], clients: Sequence[Kind]) -> None:
    kinds = [kind for kind in clients if kind.name in words or kind.name.split("-")[0] in words]
    assert kinds, f"no client has one of these names: {words}"
    metafunc.parametrize("kind", kinds, ids=lambda kind: kind.name, scope="session")


@pytest.fixture
def client(kind: Kind, tmp_path: Path, broker: LocalBroker) -> Iterator[Program]:
    """A program with the stock client of the test's turn, which talks to `broker`."""
    with started(kind, tmp_path / "program", broker) as program:
        yield program


@pytest.fixture
def broker() -> Iterator[LocalBroker]:
    """The server, with a store and a clock of its own, and the topic ``orders``."""
    with LocalBroker() as found:
        have_topic(found, "orders")
        yield found
