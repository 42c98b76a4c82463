"""RocketMQ's own proxy in cluster mode in front of the server, and a released client of it."""

from __future__ import annotations

from pathlib import Path

import pytest
import realbroker
from mavenparts import JavaUnavailableError
from test_python5 import CLIENT, EXPECTED, run

from reput_server import LocalBroker

HERE = Path(__file__).parent
pytestmark = pytest.mark.skipif(
    not (CLIENT / "rocketmq").is_dir(), reason="needs rocketmq-python-client below REPUT_PYTHON5"
)


def test_a_client_of_the_proxy_does_what_it_can(tmp_path: Path):
    with LocalBroker() as broker:
        for name in ("NORMAL", "FIFO", "DELAY", "TRANSACTION"):
            broker.create_topic(name.lower(), message_type=name)
        broker.create_group("ordered", ordered=True)
        try:
            with realbroker.proxy(tmp_path / "proxy", broker.name_server) as endpoints:
                said = run(str(HERE / "python5" / "program.py"), endpoints)
        except JavaUnavailableError as error:
            pytest.skip(str(error))
        (retried,) = broker.messages("%RETRY%push_normal")

    assert said == EXPECTED
    assert (retried.body, retried.reconsume_times) == (b"one", 1)
