"""``reput clean``: what goes is shown, asked for, and then gone."""

from __future__ import annotations

import pytest
from commands import without_answers

import reput
from reput_testing import ManualClock, snapshot

SIZE = 1 << 16
HOUR = 3_600_000


@pytest.fixture
def aged_store(tmp_path):
    """``aged_store(retention)``: five files, an hour apart, the last one three days old."""

    def make(retention=None, plugins=()):
        clock = ManualClock()
        path = tmp_path / "aged"
        config = {"commitlog": {"file_size": SIZE}}
        if retention:
            config["retention"] = retention
        with reput.open(path, plugins=plugins, config=config, clock=clock, threads=False) as store:
            while store.log.file_count < 5:
                before = store.log.file_count
                store.put(reput.Message("orders", b"x" * 9_000))
                if store.log.file_count > before:
                    clock.advance(HOUR)
        return path

    return make


def names(path):
    return sorted(int(each.name) for each in (path / "commitlog").iterdir())


def test_a_dry_run_shows_what_would_go_and_changes_no_byte(run, aged_store):
    path = aged_store()
    before = snapshot(path)

    ended = run("clean", path, "--max-bytes", "150KiB", "--dry-run")

    assert ended.code == 0
    assert "3 files, 192.0 KiB would go; the log begins at 196608" in ended.out
    assert ended.out.splitlines()[1].split()[0] == f"{0:020d}"
    assert "more than is kept" in ended.out
    assert snapshot(path) == before


def test_files_go_and_the_rest_is_read_as_before(run, aged_store):
    path = aged_store()

    ended = run("clean", path, "--max-bytes", 2 * SIZE, "--yes")
    shown = run("info", path, "--scan")

    assert (ended.code, shown.code) == (0, 0)
    assert "3 files, 192.0 KiB removed" in ended.out
    assert names(path) == [3 * SIZE, 4 * SIZE]


def test_by_age_the_last_file_stays_however_old_it_is(run, aged_store):
    path = aged_store()

    ended = run("clean", path, "--reserved", "72h", "--yes", "--json")

    document = ended.json
    assert ended.code == 0
    assert [each["base_offset"] for each in document["files"]] == [0, SIZE, 2 * SIZE, 3 * SIZE]
    assert {each["reason"] for each in document["files"]} == {"age"}
    assert {each["action"] for each in document["files"]} == {"removed"}
    assert document["min_physical_offset"] == 4 * SIZE
    assert document["size"] == 4 * SIZE
    assert names(path) == [4 * SIZE]


def test_the_stores_own_options_count_where_none_is_given(run, aged_store):
    path = aged_store({"max_bytes": 4 * SIZE})

    plain = run("clean", path, "--dry-run", "--json").json
    given = run("clean", path, "--dry-run", "--json", "--max-bytes", 3 * SIZE).json
    info = run("info", path)
    facts = run("info", path, "--json").json["retention"]

    assert [len(document["files"]) for document in (plain, given)] == [1, 2]
    assert "old files" in info.out
    assert "1 file, 64.0 KiB to go" in info.out
    assert (facts["due_count"], facts["config"]["max_bytes"]) == (1, 4 * SIZE)


def test_what_is_given_is_for_this_time_only(run, aged_store):
    path = aged_store()
    run("clean", path, "--max-bytes", 4 * SIZE, "--yes")

    with reput.open(path, "r", plugins=[]) as store:
        assert "retention" not in store.plugin_objects
        assert store.log.file_count == 4


def test_without_anything_that_says_what_may_go_nothing_does(run, aged_store):
    path = aged_store()

    ended = run("clean", path, "--yes")

    assert ended.code == 2
    assert "give --reserved or --max-bytes" in ended.err
    assert len(names(path)) == 5


@pytest.mark.costly
def test_without_an_answer_nothing_is_removed_and_yes_is_named(aged_store):
    path = aged_store()

    ended = without_answers("clean", path, "--max-bytes", 1)

    assert ended.code == 2
    assert "give --yes" in ended.err
    assert len(names(path)) == 5


@pytest.mark.parametrize(("answer", "code", "left"), [("y\n", 0, 1), ("n\n", 6, 5)])
def test_the_question_is_asked_and_its_answer_followed(run, aged_store, answer, code, left):
    path = aged_store()

    ended = run("clean", path, "--max-bytes", 1, stdin=answer)

    assert ended.code == code
    assert "Remove 4 files, 256.0 KiB?" in ended.err
    assert len(names(path)) == left


def test_a_store_with_nothing_to_go_is_left_alone(run, aged_store):
    path = aged_store()
    before = snapshot(path)

    ended = run("clean", path, "--max-bytes", "10GB", "--yes")

    assert (ended.code, ended.out) == (0, "Nothing is to go.\n")
    assert snapshot(path) == before


@pytest.mark.costly
def test_a_store_that_another_process_writes_is_left_to_it(run, plain_store, writer):
    path = plain_store(*[reput.Message("orders", b"x" * 9_000)] * 30)
    other = writer(path)

    shown = run("clean", path, "--max-bytes", SIZE, "--dry-run")
    ended = run("clean", path, "--max-bytes", SIZE, "--yes")
    other.tell("close")
    later = run("clean", path, "--max-bytes", SIZE, "--yes")

    assert shown.code == 0
    assert "would go" in shown.out
    assert ended.code == 4
    assert "another process writes the store" in ended.err
    assert later.code == 0
    assert len(names(path)) == 1


def test_what_holds_files_back_is_shown_and_dropped_only_when_told(run, plugin_store):
    path = plugin_store("notes", count=600)
    with reput.open(path) as store:
        store.suspend_plugin("notes")
        for _ in range(1_500):
            store.put(reput.Message("orders", b"x" * 100))

    held = run("clean", path, "--max-bytes", SIZE, "--yes")
    count = len(names(path))
    document = run("clean", path, "--max-bytes", SIZE, "--dry-run", "--json").json
    dropped = run("clean", path, "--max-bytes", SIZE, "--unseen", "drop", "--yes")

    assert held.code == 0
    assert "kept beyond that" in held.out
    assert "plugin 'notes'" in held.out
    assert count > 2
    assert {hold["plugin"] for hold in document["holds"]} == {"notes"}
    assert document["held_size"] == (count - 1) * SIZE
    assert dropped.code == 0
    assert len(names(path)) == 1


@pytest.mark.parametrize(("option", "text"), [("--reserved", "72"), ("--max-bytes", "GB")])
def test_what_is_no_quantity_is_refused(run, tmp_path, option, text):
    assert run("clean", tmp_path, option, text).code == 2
