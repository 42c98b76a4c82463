"""The plugin of pytest that brings ``rocketmq_broker``; it is there when reput-server is installed.

def test_an_order_is_sent(rocketmq_broker):
    place_order(name_server=rocketmq_broker.name_server)

    assert [message.body for message in rocketmq_broker.messages("orders")] == [b"one book"]
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from reput_server.testing.localbroker import LocalBroker


@pytest.fixture(scope="session")
def rocketmq_broker_of_session() -> Iterator[LocalBroker]:
    """A broker for all tests of a run, which nobody empties; most tests want `rocketmq_broker`."""
    from reput_server.testing.localbroker import LocalBroker  # other test runs do not pay for it

    with LocalBroker() as broker:
        yield broker


@pytest.fixture
def rocketmq_broker(rocketmq_broker_of_session: LocalBroker) -> Iterator[LocalBroker]:
    """A broker with a name server, at the same addresses in all tests, and empty in each."""
    yield rocketmq_broker_of_session
    rocketmq_broker_of_session.clear()
