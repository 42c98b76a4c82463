from __future__ import annotations

import json

import pytest

import reput
from reput_tools.cli.kit.exitcodes import ExitCode


@pytest.mark.costly
def test_files_are_built_anew_and_shown(run, plugin_store) -> None:
    path = plugin_store("notes")
    run("backfill", path, "notes")

    outcome = run("rebuild", path, "notes")

    assert outcome.code == ExitCode.OK
    heading = outcome.out.splitlines()[0]
    assert " ".join(heading.split()) == "PLUGIN MESSAGES LOG TIME RATE BUILT"
    assert outcome.out.splitlines()[1].startswith("notes")
    assert "in one piece" in outcome.out
    with reput.open(path, "r") as store:
        (state,) = [each for each in store.plugins() if each.name == "notes"]
        assert state.lag_size == 0


@pytest.mark.costly
def test_json_has_every_fact(run, plugin_store) -> None:
    path = plugin_store("notes")
    run("backfill", path, "notes")

    outcome = run("rebuild", path, "notes", "--json")

    (built,) = json.loads(outcome.out)["plugins"]
    assert built["plugin"] == "notes"
    assert built["message_count"] > 0
    assert built["size"] > 0
    assert (built["split_count"], built["reason"]) == (1, None)


@pytest.mark.costly
def test_a_comparison_says_what_differs_by_its_exit_code(run, plugin_store) -> None:
    path = plugin_store("notes")
    run("rebuild", path, "notes")

    same = run("rebuild", path, "notes", "--check")
    (path / "NotesPlugin").write_text("5\n", encoding="utf-8")
    differs = run("rebuild", path, "notes", "--check", "--json")

    assert (same.code, differs.code) == (ExitCode.OK, ExitCode.DAMAGED)
    assert "in one piece, the same" in same.out
    ((found,),) = [each["differences"] for each in json.loads(differs.out)["plugins"]]
    assert (found["path"], found["position"]) == ("NotesPlugin", 0)
    assert (path / "NotesPlugin").read_text(encoding="utf-8") == "5\n"


def test_a_comparison_of_nothing_is_not_taken_for_agreement(run, tmp_path) -> None:
    with reput.open(tmp_path / "store", plugins=()) as store:
        store.put(reput.Message("t", b"x"))

    outcome = run("rebuild", tmp_path / "store", "--check")

    assert outcome.code == ExitCode.WARNED
    assert "none of its plugins derives files" in outcome.out
