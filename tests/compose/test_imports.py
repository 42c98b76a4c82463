"""What each package loads when it is imported: nothing that takes long, nothing of others."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import entry_points

import pytest

HEAVY = {"attr", "attrs", "click", "numpy", "pluggy", "rich"}
FOR_TESTS = {"hypothesis", "pytest", "reput_testing"}
BROKER = "from reput_server.testing.localbroker import LocalBroker\nwith LocalBroker(): pass"


@pytest.mark.parametrize(
    ("program", "others"),
    [
        ("import reput", HEAVY | FOR_TESTS),
        ("import reput; reput.open", FOR_TESTS),
        ("import reput; reput.Plugin", FOR_TESTS),
        ("import reput_client", {"asyncio", "numpy", "rich", "ssl"}),
        ("import reput_server", {"asyncio", "numpy", "rich", "ssl"}),
        ("from reput_client.remoting import *", {"socket", "asyncio", "selectors"}),
        (BROKER, {"grpc", "google", "reput_server.grpc"}),  # without the option
    ],
)
def test_what_is_not_asked_for_is_not_loaded(program, others):
    code = f"{program}\nimport sys\nprint(*sys.modules)"

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    loaded = set(done.stdout.split())
    assert program.split(";")[0].split()[1].split(".")[0] in loaded
    assert loaded & others == set()


def test_the_testing_kit_is_no_pytest_plugin():
    # The server is one: it has a broker for everybody's tests.
    found = entry_points(group="pytest11")
    assert [each for each in found if each.value.startswith("reput_testing")] == []
