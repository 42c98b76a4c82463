"""Index files: RocketMQ's store searches and continues ours, and we search and continue its."""

from __future__ import annotations

import dataclasses
import itertools
import shutil
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import pytest
from damaged_logs import killed
from java_store import INDEXED, ITEMS_PER_FILE, SLOTS_PER_FILE, JavaStore, Row
from samples import CASES, expected

import reput
from reput.errors import CorruptFileError

COUNT = 500
QUERIES = (*INDEXED, "--queries")
MOST = 64  # that RocketMQ returns
PLAIN = CASES["one-at-a-time"]
INDEX = {"slots_per_file": SLOTS_PER_FILE, "items_per_file": ITEMS_PER_FILE}

Answers = Mapping[tuple[str, str], Sequence[int]]
"""Physical offsets by topic and key."""


def open_store(path: Path, mode: str = "w", tags: bool | None = None) -> reput.Store:
    config = {**PLAIN.config, "index": {**INDEX, "tags": tags}}
    return reput.open(path, mode=mode, plugins={"consumequeue", "index"}, config=config)


def write(
    path: Path, name: str = "one-at-a-time", seed: int = 1, tags: bool | None = None
) -> list[Row]:
    """Put with reput; what each message is."""
    case = CASES[name]
    with open_store(path, tags=tags) as store:
        return [expected(case, *put) for put in case.write(store, COUNT, seed=seed)]


def told_by_java(answers: Iterable[Row]) -> Answers:
    return {(row["topic"], row["key"]): row["physical_offsets"] for row in answers}


def told_by_reput(path: Path, asked: Iterable[tuple[str, str]]) -> Answers:
    """What reput answers as RocketMQ does, without changing a byte."""
    with open_store(path, "r") as store:
        ask = store.plugin("index").query_as_rocketmq
        return {key: [each.physical_offset for each in ask(*key, limit=MOST)] for key in asked}


def assert_all_are_found(path: Path, rows: Iterable[Row]) -> None:
    """Every message is found by each of its keys, and nothing else is."""
    wanted: dict[tuple[str, str], list[int]] = {}
    for row in rows:
        properties = row["properties"]
        words = [properties.get("UNIQ_KEY"), *properties.get("KEYS", "").split(" ")]
        for word in filter(None, dict.fromkeys(words)):
            wanted.setdefault((row["topic"], word), []).append(row["physical_offset"])
    with open_store(path) as store:
        assert store.wait_dispatched(60)
        found = {
            key: [each.physical_offset for each in store.query(*key, oldest_first=True)]
            for key in wanted
        }
    assert found == {key: sorted(offsets) for key, offsets in wanted.items()}


def index_files(path: Path) -> list[bytes]:
    return [file.read_bytes() for file in sorted((path / "index").iterdir())]


def built_by_reput(path: Path) -> list[bytes]:
    """Index files of the same log, made by reput from nothing."""
    shutil.rmtree(path / "index")
    with open_store(path) as store:
        assert store.wait_dispatched(60)
    return index_files(path)


# --------------------------------------------------------------------------- ours


@pytest.mark.parametrize("name", ["one-at-a-time", "batches", "transactions"])
def test_java_finds_what_reput_has_indexed(java: JavaStore, tmp_path: Path, name: str):
    path = tmp_path / "store"
    write(path, name)
    ours = index_files(path)
    before = Path(shutil.copytree(path, tmp_path / "before"))

    theirs = told_by_java(java.dump(path, *QUERIES).queries)

    assert len(ours) >= 4
    assert sum(map(len, theirs.values())) > COUNT
    assert told_by_reput(before, theirs) == theirs
    assert index_files(path) == ours


@pytest.mark.parametrize("name", ["one-at-a-time", "batches", "transactions"])
def test_java_derives_the_same_index_files(java: JavaStore, tmp_path: Path, name: str):
    path = tmp_path / "store"
    write(path, name)
    ours = index_files(path)
    shutil.rmtree(path / "index")
    shutil.rmtree(path / "consumequeue")  # their ends tell Java where to begin

    java.dump(path, *INDEXED)

    assert index_files(path) == ours


def test_java_reads_index_files_with_items_of_tags(java: JavaStore, tmp_path: Path):
    path = tmp_path / "store"
    rows = write(path, tags=True)
    write(tmp_path / "without")

    theirs = told_by_java(java.dump(path, *QUERIES).queries)

    assert len(index_files(path)) > len(index_files(tmp_path / "without"))
    assert theirs == told_by_java(java.dump(tmp_path / "without", *QUERIES).queries)
    rows += java.write(path, "plain", COUNT, *INDEXED)  # in a file that has them
    assert_all_are_found(path, rows)


def test_java_goes_on_in_index_files_of_reput(java: JavaStore, tmp_path: Path):
    path = tmp_path / "store"
    rows = write(path)
    ours = index_files(path)

    rows += java.write(path, "plain", COUNT, *INDEXED)

    theirs = told_by_java(java.dump(path, *QUERIES).queries)
    both = index_files(path)
    assert both[: len(ours) - 1] == ours[:-1]
    assert len(both) > len(ours)
    assert told_by_reput(path, theirs) == theirs
    assert_all_are_found(path, rows)
    assert index_files(path) == both
    assert built_by_reput(path) == both


@pytest.mark.parametrize("kept", [True, False])
def test_what_java_makes_of_a_killed_store_is_mended(java: JavaStore, tmp_path: Path, kept: bool):
    """Java removes an index file that was not full, and indexes only the end of the log again."""
    path = tmp_path / "store"
    rows = write(path)
    killed(path)
    if not kept:
        shutil.rmtree(path / "index")

    theirs = told_by_java(java.dump(path, *QUERIES).queries)

    assert told_by_reput(path, theirs) == theirs
    assert_all_are_found(path, rows)


def test_java_may_go_on_where_the_sun_is_ahead_of_utc(java: JavaStore, tmp_path: Path):
    path, there = tmp_path / "store", dataclasses.replace(java, time_zone="Asia/Shanghai")
    rows = write(path)
    rows += there.write(path, "plain", COUNT, *INDEXED)
    rows += write(path, seed=2)  # named behind Java's, whose names are of hours to come

    theirs = told_by_java(there.dump(path, *QUERIES).queries)

    assert told_by_reput(path, theirs) == theirs
    both = index_files(path)
    assert_all_are_found(path, rows)
    assert index_files(path) == both


def test_java_behind_utc_names_its_files_before_ours_which_is_noticed(
    java: JavaStore, tmp_path: Path
):
    path, there = tmp_path / "store", dataclasses.replace(java, time_zone="America/Los_Angeles")
    rows = write(path)
    rows += there.write(path, "plain", COUNT, *INDEXED)

    with (
        open_store(path, "r") as store,
        pytest.raises(CorruptFileError, match=r"is not full.*and another one follows"),
    ):
        store.query(rows[0]["topic"], "key-1")

    assert_all_are_found(path, rows)  # a writer builds it again
    found = index_files(path)
    assert built_by_reput(path) == found


# --------------------------------------------------------------------------- Java's


@pytest.mark.parametrize("mode", ["plain", "batch"])
@pytest.mark.parametrize("ending", [(), ("--kill",)], ids=["closed", "killed"])
def test_reput_goes_on_in_index_files_of_java(
    java: JavaStore, tmp_path: Path, mode: str, ending: Sequence[str]
):
    path = tmp_path / "store"
    rows = java.write(path, mode, COUNT, *INDEXED, *ending)
    before = index_files(path)

    rows += write(path, seed=2)

    theirs = told_by_java(java.dump(path, *QUERIES).queries)
    both = index_files(path)
    assert both[: len(before) - 1] == before[:-1]
    assert told_by_reput(path, theirs) == theirs
    assert_all_are_found(path, rows)
    assert built_by_reput(path) == both


def test_reput_derives_the_index_files_of_java(java: JavaStore, tmp_path: Path):
    path = tmp_path / "store"
    java.write(path, "plain", COUNT, *INDEXED)
    theirs = index_files(path)

    assert built_by_reput(path) == theirs


def test_an_index_may_change_hands_again_and_again(java: JavaStore, tmp_path: Path):
    path = tmp_path / "store"
    rows: list[Row] = []

    for turn, ending in enumerate(itertools.chain(*itertools.repeat([(), ("--kill",)], 2))):
        rows += write(path, seed=turn)
        rows += java.write(path, "plain", COUNT // 3, "--seed", str(turn), *INDEXED, *ending)

    assert_all_are_found(path, rows)
    theirs = told_by_java(java.dump(path, *QUERIES).queries)
    assert told_by_reput(path, theirs) == theirs
    both = index_files(path)
    assert built_by_reput(path) == both
