"""What was derived from a log is compared with what follows from it."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

import reput
from reput_tools.cli.kit.exitcodes import ExitCode
from reput_tools.cli.root import reput as command
from reput_tools.offline import LocalEngine, run_rebuild

pytest.importorskip("pyarrow")

from reput_spark.command import engines

pytestmark = pytest.mark.shows("commands")


@pytest.fixture
def path(tmp_path):
    root = tmp_path / "store"
    config = {"commitlog": {"file_size": 1 << 16}}
    with reput.open(root, plugins=["consumequeue", "index"], config=config) as store:
        store.put_many([reput.Message("T", b"x%d" % n, keys=[f"k{n}"]) for n in range(500)])
        store.wait_dispatched()
    return root


def spoil(root):
    """Change one byte of a unit."""
    with open(root / "consumequeue" / "T" / "0" / f"{0:020d}", "r+b") as file:
        file.seek(123)
        file.write(b"\xee")


def compared(root):
    """What `reput_spark.jobs.rebuild.rebuild` finds with ``check``, in this process."""
    with LocalEngine(1) as engine:
        return run_rebuild(root, (), engine, check=True)


@pytest.fixture
def session(lasting, monkeypatch):
    """Commands run in the session of all tests."""
    monkeypatch.setattr(engines, "session_of", lambda *_, **__: lasting)


@pytest.mark.usefixtures("session")
def test_the_command_compares_when_asked_and_says_so_by_its_exit_code(path):
    arguments = ["spark", "verify", str(path)]
    sound = CliRunner().invoke(command, [*arguments, "--derived"])
    assert (sound.exit_code, "the same" in sound.stdout) == (0, True), sound.output
    spoil(path)

    plain = CliRunner().invoke(command, arguments)
    table = CliRunner().invoke(command, [*arguments, "--derived"])
    document = CliRunner().invoke(command, [*arguments, "--derived", "--json"])

    assert plain.exit_code == 0  # the log is sound
    assert table.exit_code == document.exit_code == ExitCode.DAMAGED
    assert f"consumequeue/T/0/{0:020d}, byte 123" in table.stdout
    (store,) = json.loads(document.stdout)["derived"]
    assert [bool(each["differences"]) for each in store["plugins"]] == [True, False]


@pytest.mark.usefixtures("session")
def test_nothing_is_compared_where_the_log_is_damaged(path):
    with open(path / "commitlog" / f"{0:020d}", "r+b") as file:
        file.seek(88)  # the first body
        file.write(b"\xee\xee")

    done = CliRunner().invoke(command, ["spark", "verify", str(path), "--derived", "--json"])

    assert done.exit_code == ExitCode.DAMAGED
    found = json.loads(done.stdout)
    assert (len(found["damages"]), found["derived"]) == (1, [])


def test_a_path_that_is_no_store_is_refused_before_anything_is_read(tmp_path):
    done = CliRunner().invoke(command, ["spark", "verify", str(tmp_path), "--derived"])

    assert done.exit_code not in (0, ExitCode.DAMAGED)
    assert "commitlog" in done.stderr
