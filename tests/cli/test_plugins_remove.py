"""``reput plugins STORE --remove``: the store no longer uses a plugin."""

from __future__ import annotations

import pytest
from commands import without_answers
from statefiles import change_manifest, manifest_of

import reput
from reput_tools.cli.kit.exitcodes import ExitCode
from reput_tools.cli.kit.failures import Failure
from reput_tools.cli.kit.storeplugins import open_with_plugin, used_plugins
from reput_tools.offline import inspect_store


def used(path):
    return list(manifest_of(path).plugins)


def test_a_plugin_is_taken_out_and_its_files_stay(run, plugin_store) -> None:
    path = plugin_store("notes", "first")
    (path / "notes").mkdir()
    (path / "notes" / "file").write_bytes(b"x" * 10_000)

    outcome = run("plugins", path, "--remove", "notes", "--yes")

    assert (outcome.code, used(path)) == (ExitCode.OK, ["first"])
    assert (path / "notes" / "file").exists()
    assert f"rm -r {path / 'notes'}" in outcome.out
    assert f"reput backfill {path} notes" in outcome.out


def test_added_again_it_sees_the_whole_log(run, plugin_store) -> None:
    path = plugin_store("notes")
    run("plugins", path, "--remove", "notes", "--yes")
    with reput.open(path) as store:
        store.put(reput.Message("orders", b"while it was gone"))
    (path / "NotesPlugin").unlink()

    outcome = run("backfill", path, "notes")

    assert outcome.code == ExitCode.OK
    assert (path / "NotesPlugin").read_text().splitlines()[0] == "0"
    assert inspect_store(path).dispatched_to("notes") > 0


def test_json_names_what_stays_and_what_is_forgotten(run, plugin_store) -> None:
    path = plugin_store("notes")

    document = run("plugins", path, "--remove", "notes", "--yes", "--json").json

    assert document == {"path": str(path), "plugin": "notes", "options": {}, "kept": []}


def test_a_plugin_that_is_gone_from_the_machine_can_be_removed(run, plugin_store) -> None:
    path = plugin_store("notes")
    change_manifest(path, lambda text: text.replace(b'["notes"]', b'["notes", "vanished"]'))

    outcome = run("plugins", path, "--remove", "vanished", "--yes")

    assert (outcome.code, used(path)) == (ExitCode.OK, ["notes"])
    with reput.open(path) as store:
        assert [plugin.name for plugin in store.plugins()] == ["notes"]


def test_one_that_others_require_stays(run, plugin_store) -> None:
    path = plugin_store("first", "second")

    outcome = run("plugins", path, "--remove", "first", "--yes")

    assert (outcome.code, used(path)) == (ExitCode.UNAVAILABLE, ["first", "second"])
    assert f"required by second, which would not open; remove that first: reput plugins {path}" in (
        outcome.err
    )


def test_a_mistyped_name_changes_nothing_and_is_suggested(run, plugin_store) -> None:
    path = plugin_store("notes")

    outcome = run("plugins", path, "--remove", "ntoes", "--yes")

    assert (outcome.code, used(path)) == (ExitCode.NOT_FOUND, ["notes"])
    assert "did you mean 'notes'?" in outcome.err


@pytest.mark.parametrize(
    "arguments",
    [
        ("--remove", "notes", "--plan", "--yes"),
        ("--yes",),
        ("--remove", "", "--yes"),
    ],
)
def test_a_removal_that_is_not_meant_is_refused(run, plugin_store, arguments) -> None:
    path = plugin_store("notes")

    outcome = run("plugins", path, *arguments)

    assert (outcome.code, used(path)) == (ExitCode.USAGE, ["notes"])


@pytest.mark.parametrize("more", [(), ("--json",)])
@pytest.mark.costly
def test_without_an_answer_nothing_is_removed_and_yes_is_named(plugin_store, more) -> None:
    path = plugin_store("notes")

    outcome = without_answers("plugins", path, "--remove", "notes", *more)

    assert (outcome.code, used(path)) == (ExitCode.USAGE, ["notes"])
    assert "--yes" in outcome.err


def test_a_plugin_of_a_command_that_fails_is_not_one_of_the_store_later(plugin_store) -> None:
    path = str(plugin_store("notes"))

    names: set[str] = set()

    def fail() -> None:
        with open_with_plugin(path, "first") as store:
            names.update(store.plugin_objects)
            raise Failure("no such message", ExitCode.NOT_FOUND)

    with pytest.raises(Failure, match="no such message"):
        fail()

    assert names == {"first", "notes"}
    assert used_plugins(path) == ("notes",)
