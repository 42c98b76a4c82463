"""A cluster in this process, and clients of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from fakecluster import FakeCluster

from reput_client import Client


@pytest.fixture
def cluster() -> Iterator[FakeCluster]:
    """One broker with its name server."""
    with FakeCluster() as found:
        yield found


@pytest.fixture
def client_of() -> Iterator[Callable[..., Client]]:
    """``client_of(cluster, retries=…)``: a client, which is closed at the end."""
    made: list[Client] = []

    def make(cluster: FakeCluster, **options: Any) -> Client:
        made.append(Client(cluster.address, **{"address": "127.0.0.1", **options}))
        return made[-1]

    yield make
    for each in made:
        each.close()


@pytest.fixture
def client(cluster: FakeCluster, client_of: Callable[..., Client]) -> Client:
    """Return a client of `cluster`."""
    return client_of(cluster)
