"""What each package loads when it is imported: nothing that takes long, nothing of others."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import entry_points

import pytest

import reput

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
    loaded = loaded_by(program)

    assert program.split(";")[0].split()[1].split(".")[0] in loaded
    assert loaded & others == set()


def loaded_by(program):
    code = f"{program}\nimport sys\nprint(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_a_reader_loads_nothing_that_writes(tmp_path):
    """No appender, encoder, flush, recovery of a writer, loop or put."""
    reput.open(tmp_path, plugins=()).close()

    loaded = loaded_by(f"import reput\nwith reput.open({str(tmp_path)!r}, 'r', plugins=()): pass")

    assert {name for name in loaded if name.startswith("reput.log.writer.")} == {
        "reput.log.writer.queueoffsets"
    }
    assert (
        loaded
        & {
            "reput.dispatch.logtrimmer",
            "reput.dispatch.pluginlifecycle",
            "reput.dispatch.runtime.pluginflusher",
            "reput.dispatch.runtime.reputloop",
            "reput.log.recovery.repair",
            "reput.record.encoding.batchencoder",
            "reput.record.encoding.encoder",
            "reput.store.opening.writeropening",
            "reput.store.operations.puts",
        }
        == set()
    )


def test_the_testing_kit_is_no_pytest_plugin():
    # The server is one: it has a broker for everybody's tests.
    found = entry_points(group="pytest11")
    assert [each for each in found if each.value.startswith("reput_testing")] == []
