"""Names of the core that another distribution brings, where that one is not installed."""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec

import pytest

pytestmark = pytest.mark.skipif(
    find_spec("reput_server") is not None, reason="reput-server is installed"
)


def test_the_broker_for_tests_says_what_to_install() -> None:
    from reput import testing

    with pytest.raises(ImportError, match=r"pip install \./server"):
        _ = testing.LocalBroker


def test_its_command_does_so_too() -> None:
    command = [sys.executable, "-m", "reput.testing.broker"]

    done = subprocess.run(command, capture_output=True, text=True, timeout=60)

    assert done.returncode == 5
    assert "pip install ./server" in done.stderr
