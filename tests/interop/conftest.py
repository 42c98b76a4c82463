"""Fixtures of the tests against Apache RocketMQ's own store."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import realbroker

# `--import-mode=importlib` puts no folder on the path; the modules beside this one are helpers of
# this folder's tests only.
sys.path.insert(0, str(Path(__file__).parent))

from java_store import VERSIONS, JavaStore, build
from mavenparts import JavaUnavailableError


@pytest.fixture(scope="session", params=VERSIONS, ids=lambda version: f"rocketmq-{version}")
def java(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> JavaStore:
    """RocketMQ's store, in each version."""
    try:
        return build(request.param, tmp_path_factory.mktemp("java-home"))
    except JavaUnavailableError as error:
        pytest.skip(str(error))


@pytest.fixture(
    scope="session", params=realbroker.VERSIONS, ids=lambda version: f"broker-{version}"
)
def rocketmq(request: pytest.FixtureRequest) -> realbroker.RocketMQ:
    """RocketMQ's name server, broker, admin tool and client, in each version."""
    return _fetched(request.param)


@pytest.fixture(scope="session")
def fetch_release() -> Callable[[str], realbroker.RocketMQ]:
    """Gets a version, for modules that have versions of their own."""
    return _fetched


@pytest.fixture(scope="session")
def newest() -> realbroker.RocketMQ:
    """The version whose answers ours are compared with."""
    return _fetched("5.3.3")


def _fetched(version: str) -> realbroker.RocketMQ:
    try:
        return realbroker.fetch(version)
    except JavaUnavailableError as error:  # no Java or no Maven: the tests say so, and go on
        pytest.skip(str(error))
