"""What the tests of following share: a master's log, and a quick follower."""

from __future__ import annotations

import pytest
from fakemaster import FakeLog
from masterlogs import log_of

from reput_server.follow import FollowConfig

QUICK = {
    "report_interval": 0.05,
    "retry_interval": 0.01,
    "ask_interval": 0.01,
    "look_interval": 0.005,
    "metadata_interval": 0.01,
    "settle_time": 0.0,
    "ask_timeout": 60.0,
    "silence": 60.0,
}
"""A machine that does much else must not make a connection silent."""


@pytest.fixture(scope="session")
def log_bytes(tmp_path_factory):
    """A log of several files."""
    return log_of(tmp_path_factory.mktemp("master") / "store", 1_200)


@pytest.fixture
def log(log_bytes):
    return FakeLog(log_bytes)


@pytest.fixture
def quick():
    return lambda **options: FollowConfig(**{**QUICK, **options})
