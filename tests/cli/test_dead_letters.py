from __future__ import annotations

import json
from importlib import metadata

import pytest

from reput.plugin import discovery
from reput_tools.cli.kit.exitcodes import ExitCode

SKIP = {"on_error": "skip", "retry_count": 0}


@pytest.fixture
def skipped_store(plugin_store):
    """A store of 100 messages of which the plugin was not able to take the 51st."""
    return plugin_store("broken", "first", dispatch=SKIP, key="broken")


def test_a_skipped_message_is_listed_with_its_place_and_the_reason(run, skipped_store) -> None:
    outcome = run("dead-letters", skipped_store, "broken", "--json")

    assert outcome.code == ExitCode.OK
    assert outcome.json["plugin"] == "broken"
    (letter,) = outcome.json["dead_letters"]
    assert (letter["topic"], letter["queue_id"], letter["queue_offset"]) == ("orders", 0, 50)
    assert letter["error"] == "ValueError: this one cannot be taken"
    message = run("get", skipped_store, "--offset", letter["physical_offset"], "--json").json
    assert message["keys"] == ["broken"]
    assert message["size"] == letter["size"]


def test_people_get_a_table_and_the_next_step(run, skipped_store) -> None:
    outcome = run("dead-letters", skipped_store, "broken")

    heading, row, _, last = outcome.out.splitlines()
    assert heading.split()[-1] == "ERROR"
    assert "orders/0@50" in row
    assert row.endswith("ValueError: this one cannot be taken")
    offset = row.split()[3]
    assert last == f"1 dead letter; reput get {skipped_store} --offset {offset} shows the first"


def test_no_dead_letters_is_one_line(run, skipped_store) -> None:
    outcome = run("dead-letters", skipped_store, "first")

    assert outcome.out == f"No dead letters of plugin 'first' in the store at {skipped_store}.\n"
    assert run("dead-letters", skipped_store, "first", "--json").json["dead_letters"] == []


def test_the_letters_of_a_plugin_that_is_not_installed_any_more_can_be_read(
    run, skipped_store, monkeypatch
) -> None:
    monkeypatch.setattr("importlib.metadata.entry_points", metadata.EntryPoints)
    monkeypatch.setattr(discovery, "_known", (None, ()))

    assert len(run("dead-letters", skipped_store, "broken", "--json").json["dead_letters"]) == 1


def test_a_name_that_leads_elsewhere_is_no_plugin(run, skipped_store) -> None:
    outcome = run("dead-letters", skipped_store, "../../../broken")

    assert outcome.code == ExitCode.NOT_FOUND


def test_info_and_plugins_mention_them(run, skipped_store) -> None:
    info = run("info", skipped_store, "--scan").out
    plugins = run("plugins", skipped_store).out
    documents = run("plugins", skipped_store, "--json").json["plugins"]

    command = f"reput dead-letters {skipped_store} broken"
    (line,) = [line for line in info.splitlines() if line.startswith("  dead letters")]
    assert line.endswith(f"1 message that broken skipped, listed by: {command}")
    assert "DEAD LETTERS" in plugins.splitlines()[0]
    assert command in plugins
    counts = {document["name"]: document["skipped_count"] for document in documents}
    assert counts == {"broken": 1, "first": 0}


def test_lines_that_are_no_dead_letters_are_passed_over(run, skipped_store) -> None:
    file = skipped_store / "reput" / "dead-letters" / "broken.jsonl"
    good = json.loads(file.read_text(encoding="utf-8"))
    with open(file, "a", encoding="utf-8") as lines:
        lines.write(json.dumps({**good, "timestamp": "today"}) + "\n[1]\nnonsense\n")
        lines.write(json.dumps(good)[:30])

    outcome = run("dead-letters", skipped_store, "broken")

    assert outcome.code == ExitCode.OK
    assert "1 dead letter; " in outcome.out
