from __future__ import annotations

import importlib.util
import os

import pytest

import reput
from reput.dispatch.storedpluginstates import StoredPluginState, StoredPluginStates
from reput.files import Disk
from reput_tools.cli.kit.exitcodes import ExitCode


def records(path):
    return StoredPluginStates.of(str(path), Disk())


def state_of(run, path, name="notes"):
    documents = run("plugins", path, "--json").json["plugins"]
    return next(document for document in documents if document["name"] == name)


# --------------------------------------------------------------------------- nobody has it open


def test_a_plugin_of_a_closed_store_is_suspended_and_stays_so(run, plugin_store) -> None:
    path = plugin_store("notes")

    outcome = run("suspend", path, "notes")

    assert outcome.code == ExitCode.OK
    assert outcome.out.startswith("notes: suspended at physical offset ")
    assert f"reput resume {path} notes" in outcome.out
    with reput.open(path) as store:
        (state,) = store.plugins()
        assert state.state == "suspended"
    assert state_of(run, path)["state"] == "suspended"


def test_a_resumed_plugin_of_a_closed_store_goes_on_at_the_next_opening(run, plugin_store) -> None:
    path = plugin_store("notes")
    run("suspend", path, "notes")
    with reput.open(path) as store:
        store.put(reput.Message("orders", b"while it was suspended"))
    behind = state_of(run, path)

    outcome = run("resume", path, "notes")

    assert outcome.code == ExitCode.OK
    assert f"reput backfill {path} notes" in outcome.out
    assert behind["lag_count"] == 1
    with reput.open(path) as store:
        assert store.wait_dispatched(10)
        (state,) = store.plugins()
    assert (state.state, state.lag_size) == ("running", 0)


def test_only_the_state_changes_in_what_is_remembered_of_a_plugin(run, plugin_store) -> None:
    path = plugin_store("notes")
    known = StoredPluginState(
        state="suspended", is_clean=False, cut_to=7, last_error="it broke", skipped_count=3
    )
    records(path).save("notes", known)

    run("suspend", path, "notes")
    suspended = records(path).load("notes")
    run("resume", path, "notes")
    resumed = records(path).load("notes")

    for record in (suspended, resumed):
        assert (record.is_clean, record.cut_to, record.skipped_count) == (False, 7, 3)
    assert (suspended.state, suspended.asked, suspended.last_error) == (
        "suspended",
        True,
        "it broke",
    )
    assert (resumed.state, resumed.asked, resumed.last_error) == ("running", False, None)


def test_what_was_asked_before_does_not_outlive_the_new_request(run, plugin_store) -> None:
    path = plugin_store("notes")
    records(path).ask("notes", "suspend")

    run("resume", path, "notes")

    assert not records(path).is_asked("notes")


def test_the_new_state_is_a_document(run, plugin_store) -> None:
    path = plugin_store("notes")
    end = state_of(run, path)["dispatched_to"]

    assert run("suspend", path, "notes", "--json").json == {
        "path": str(path),
        "plugin": "notes",
        "state": "suspended",
        "asked": True,
        "dispatched_to": end,
        "last_error": None,
        "is_written": False,
        "writer_pid": None,
    }


# --------------------------------------------------------------------------- another process has


@pytest.mark.costly
def test_the_process_that_has_the_store_open_suspends_and_resumes(
    run, plugin_store, writer
) -> None:
    path = plugin_store("notes")
    other = writer(path)

    suspended = run("suspend", path, "notes", "--json")
    other.tell("put 5")
    other.tell("wait")
    behind = state_of(run, path)
    resumed = run("resume", path, "notes", "--json")
    other.tell("wait")
    caught_up = state_of(run, path)

    assert suspended.code == ExitCode.OK
    assert suspended.json["is_written"] is True
    assert suspended.json["writer_pid"] == other.pid
    assert (behind["state"], behind["lag_count"], behind["lag_is_exact"]) == ("suspended", 5, True)
    assert resumed.code == ExitCode.OK
    assert resumed.json["state"] == "running"
    assert (caught_up["state"], caught_up["lag_size"]) == ("running", 0)


@pytest.mark.costly
def test_a_suspension_in_another_process_outlives_it(run, plugin_store, writer) -> None:
    path = plugin_store("notes")
    other = writer(path)

    run("suspend", path, "notes")
    other.tell("close")

    assert state_of(run, path)["state"] == "suspended"
    assert records(path).load("notes").asked


def test_a_request_that_nobody_takes_is_taken_back(run, plugin_store) -> None:
    path = plugin_store("notes")

    with reput.open(path, threads=False):  # hears nothing
        outcome = run("suspend", path, "notes", "--timeout", "0.2")

    assert outcome.code == ExitCode.LOCKED
    assert f"process {os.getpid()}" in outcome.err
    assert "0.2 s" in outcome.err
    assert not records(path).is_asked("notes")
    assert not records(path).load("notes").asked


def test_a_plugin_that_cannot_be_resumed_says_why(run, plugin_store) -> None:
    path = plugin_store("broken")

    with reput.open(path) as store:
        store.suspend_plugin("broken")
        (path / "refuse").touch()
        outcome = run("resume", path, "broken")

    assert outcome.code == ExitCode.UNAVAILABLE
    assert "still suspended: OSError: not today" in outcome.err
    assert f"reput plugins {path}" in outcome.err


# --------------------------------------------------------------------------- mistakes


def test_a_store_that_reput_never_wrote_is_left_alone(run, golden_store) -> None:
    path = golden_store("basic")

    outcome = run("suspend", path, "consumequeue")

    assert outcome.code == ExitCode.NOT_FOUND
    is_installed = importlib.util.find_spec("reput_consumequeue") is not None
    step = "`reput backfill" if is_installed else "pip install ./plugins/consumequeue"
    assert step in outcome.err
    assert not (path / "reput").exists()
