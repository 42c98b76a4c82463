"""A broker with gRPC, and clients of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from grpcclient import GrpcClient

from reput_server.testing.localbroker import LocalBroker


@pytest.fixture(scope="module")
def running() -> Iterator[LocalBroker]:
    """One broker for the tests of a module; each uses topics and groups of its own."""
    with LocalBroker(grpc=True) as broker:
        yield broker


@pytest.fixture
def broker(running: LocalBroker, request: pytest.FixtureRequest) -> LocalBroker:
    """The broker."""
    return running


@pytest.fixture
def client(broker: LocalBroker) -> Iterator[Callable[..., GrpcClient]]:
    """``client("id")``: a client of the broker, closed at the end."""
    made: list[GrpcClient] = []

    def make(client_id: str = "test", **metadata: str) -> GrpcClient:
        made.append(GrpcClient(broker.endpoints, client_id, **metadata))
        return made[-1]

    yield make
    for each in made:
        each.__exit__()
