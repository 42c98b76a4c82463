from __future__ import annotations

import importlib
import json
import os
import signal
import subprocess
import sys
import threading

import pytest
from openstores import is_written, only_hangs, until

import reput
from reput.files import Disk
from reput.log import ProgressEntry, StateFile
from reput_tools.cli.kit.exitcodes import ExitCode
from reput_tools.cli.kit.storeplugins import used_plugins

pytestmark = pytest.mark.sizes(dispatch={"close_timeout_ms": 200})

MODULE = [sys.executable, "-m", "reput_tools.cli", "backfill"]


def places(path, plugin="NotesPlugin"):
    """Where the batches began that the plugin has seen, in the order in which it saw them."""
    return [int(line) for line in (path / plugin).read_text(encoding="utf-8").split()]


def end_of(path):
    with reput.open(path, mode="r", plugins=()) as store:
        return store.log.max_physical_offset


@pytest.fixture
def backfill():
    """``backfill(path, "slow")``: the command in a process of its own, under way."""
    started = []

    def start(*arguments):
        # Tests that run in the background of a shell have Ctrl-C ignored, and so would the child.
        heard = signal.signal(signal.SIGINT, signal.default_int_handler)
        try:
            process = subprocess.Popen(
                [*MODULE, *map(str, arguments)],
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
        finally:
            signal.signal(signal.SIGINT, heard)
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


# --------------------------------------------------------------------------- in this process


def test_an_installed_plugin_is_added_and_brought_to_the_end(run, plugin_store) -> None:
    path = plugin_store("first")

    outcome = run("backfill", path, "notes")

    assert outcome.code == ExitCode.OK
    assert "the store now uses the plugin 'notes'" in outcome.err
    assert outcome.out.startswith("notes: ")
    assert f"it now has the whole log, up to physical offset {end_of(path)}" in outcome.out
    assert used_plugins(str(path)) == ("first", "notes")
    assert places(path)[0] == 0


def test_the_document_has_what_was_done(run, plugin_store) -> None:
    path = plugin_store("first")

    document = run("backfill", path, "notes", "--json").json

    end = end_of(path)
    assert document.pop("seconds") > 0
    assert document == {
        "path": str(path),
        "plugin": "notes",
        "is_added": True,
        "is_followed": False,
        "is_complete": True,
        "is_interrupted": False,
        "start_offset": 0,
        "dispatched_to": end,
        "end_offset": end,
        "size": end,
    }


def test_a_plugin_that_has_everything_is_given_nothing(run, plugin_store) -> None:
    path = plugin_store("notes")
    before = places(path)

    outcome = run("backfill", path, "notes")

    assert "it already had the whole log" in outcome.out
    assert places(path) == before
    assert outcome.err == ""


def test_from_the_start_everything_is_derived_again(run, plugin_store) -> None:
    path = plugin_store("notes", count=2000)
    first_time = places(path)
    (path / "NotesPlugin").unlink()

    outcome = run("backfill", path, "notes", "--from-start", "--json")

    assert outcome.json["start_offset"] == 0
    assert outcome.json["is_complete"] is True
    assert places(path)[0] == 0
    assert len(places(path)) >= 4  # one at least for each file of the log
    assert set(places(path)) & set(first_time)


def test_a_plugin_that_fails_ends_it_with_the_reason(run, plugin_store) -> None:
    path = plugin_store("first", key="broken", dispatch={"retry_count": 0})

    outcome = run("backfill", path, "broken")

    assert outcome.code == ExitCode.UNAVAILABLE
    assert (
        "'broken' is suspended: message orders/0@50: ValueError: this one cannot be taken"
        in outcome.err
    )
    assert f"`reput resume {path} broken`" in outcome.err


@pytest.mark.shows("plugin-flush")
def test_a_plugin_has_all_of_the_log_when_its_files_are_on_disk(
    run, plugin_store, monkeypatch
) -> None:
    path = plugin_store("first", dispatch={"stall_ms": 100})
    hangs = only_hangs(monkeypatch, ("notes", "reput_flush"))
    plugins, may_return = importlib.import_module("cli_test_plugins"), threading.Event()
    hang = reput.hookimpl(lambda self: may_return.wait(60))
    monkeypatch.setattr(plugins.NotesPlugin, "reput_flush", hang, raising=False)

    hanging = run("backfill", path, "notes")
    hangs.clear()
    may_return.set()
    until(lambda: not is_written(path))
    again = run("backfill", path, "notes")

    assert hanging.code == ExitCode.UNAVAILABLE
    assert "known to be on disk only to 0" in hanging.err
    assert again.code == ExitCode.OK
    assert f"it now has the whole log, up to physical offset {end_of(path)}" in again.out


def test_a_plugin_that_was_suspended_is_not_resumed_behind_anybodys_back(run, plugin_store) -> None:
    path = plugin_store("notes")
    run("suspend", path, "notes")

    outcome = run("backfill", path, "notes")

    assert outcome.code == ExitCode.UNAVAILABLE
    assert f"`reput resume {path} notes` lets it go on" in outcome.err


def test_a_plugin_that_is_not_installed_changes_nothing(run, plugin_store) -> None:
    path = plugin_store("first")

    outcome = run("backfill", path, "nothing")

    assert outcome.code == ExitCode.UNAVAILABLE
    assert "'nothing'" in outcome.err
    assert "notes" in outcome.err
    assert used_plugins(str(path)) == ("first",)


def test_what_it_requires_must_be_there(run, plugin_store) -> None:
    path = plugin_store("notes")

    outcome = run("backfill", path, "second")

    assert outcome.code == ExitCode.UNAVAILABLE
    assert "'second'" in outcome.err
    assert "needs first" in outcome.err
    assert used_plugins(str(path)) == ("notes",)


@pytest.mark.costly
def test_ctrl_c_keeps_what_was_done_and_the_next_one_goes_on(plugin_store, backfill) -> None:
    path = plugin_store("first", count=12_000)
    end = end_of(path)
    os.mkfifo(path / "begun")
    (path / "paced").touch()  # twenty seconds for all: it is not done when the signal comes

    process = backfill(path, "slow", "--json")
    (path / "begun").read_bytes()  # it is in its first batch
    process.send_signal(signal.SIGINT)
    try:
        out, err = process.communicate(timeout=6)
    except subprocess.TimeoutExpired:
        # CPython drops the exception of a signal that comes inside of a finalizer, as after an
        # import. A person presses Ctrl-C once more.
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    interrupted = json.loads(out)

    assert process.returncode == ExitCode.INTERRUPTED, err
    assert f"`reput backfill {path} slow` goes on from there" in err
    assert interrupted["is_interrupted"] is True
    assert interrupted["is_complete"] is False
    reached = interrupted["dispatched_to"]
    assert 0 < reached < end
    (path / "SlowPlugin").unlink()
    (path / "paced").unlink()

    out, _ = backfill(path, "slow", "--json").communicate(timeout=60)

    assert json.loads(out)["is_complete"] is True
    assert json.loads(out)["start_offset"] == reached
    assert places(path, "SlowPlugin")[0] == reached


# --------------------------------------------------------------------------- in another one


@pytest.fixture
def held_store(plugin_store, writer):
    """A store that another process has open, in which the plugin ``held`` waits for a pipe."""
    path = plugin_store("first")
    os.mkfifo(path / "go")
    with reput.open(path, plugins=["first", "held"], threads=False) as store:
        store.close(timeout=0)  # the writer is the one to give it messages
    return path, writer(path)


@pytest.mark.costly
def test_the_plugin_is_followed_in_the_process_that_has_the_store_open(
    held_store, backfill
) -> None:
    path, other = held_store
    process = backfill(path, "held", "--json")
    line = process.stderr.readline()
    (path / "go").write_bytes(b"")  # for the one batch that there is

    out, _ = process.communicate(timeout=60)

    assert f"process {other.pid} has the store open; following" in line
    assert process.returncode == ExitCode.OK
    document = json.loads(out)
    assert document["is_followed"] is True
    assert document["start_offset"] == 0
    assert document["dispatched_to"] == document["end_offset"] == end_of(path)


@pytest.mark.costly
def test_without_waiting_it_says_how_far_the_plugin_is_there(run, held_store) -> None:
    path, _ = held_store

    outcome = run("backfill", path, "held", "--no-wait")

    assert outcome.code == ExitCode.OK
    assert "held: at physical offset 0, behind by " in outcome.out


@pytest.mark.costly
def test_a_writer_that_goes_away_is_not_waited_for(held_store, backfill) -> None:
    path, other = held_store
    process = backfill(path, "held", "--json")
    process.stderr.readline()
    other.kill()
    line = process.stderr.readline()
    (path / "go").write_bytes(b"")

    out, _ = process.communicate(timeout=60)

    assert "going on here" in line
    assert json.loads(out)["is_followed"] is False
    assert json.loads(out)["is_complete"] is True


@pytest.mark.costly
def test_a_plugin_that_the_other_process_does_not_use_cannot_be_followed(
    run, plugin_store, writer
) -> None:
    path = plugin_store("first")
    other = writer(path)

    outcome = run("backfill", path, "notes")

    assert outcome.code == ExitCode.LOCKED
    assert f"process {other.pid}" in outcome.err
    assert "add_plugin" in outcome.err


@pytest.mark.costly
def test_from_the_start_needs_the_store_alone(run, plugin_store, writer) -> None:
    path = plugin_store("notes")
    progress = ProgressEntry(StateFile.of(str(path), Disk()), "notes")
    before = progress.load()
    writer(path)

    outcome = run("backfill", path, "notes", "--from-start")

    assert outcome.code == ExitCode.LOCKED
    assert "--from-start" in outcome.err
    assert progress.load() == before
