"""Verification finds every damage, once, whichever way the log is split."""

from __future__ import annotations

import json
import shutil

import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st
from sparkstores import fill, forged_store

import reput
from reput.log import plan_splits
from reput_cli.kit.exitcodes import ExitCode
from reput_cli.root import reput as command
from reput_rebuild.engine import LocalEngine

pytest.importorskip("pyarrow")

from reput_spark import SparkReputError
from reput_spark.jobs.verify import DAMAGE_SCHEMA, verify

SPLIT = 1 << 16  # the smallest that may be asked for


def offsets(root):
    with reput.open(root, "r", plugins=()) as store:
        return [offset for batch in store.scan() for offset in batch.physical_offset.tolist()]


def flip(root, offset, position=0, value=0xFF):
    """Change one byte of the record at ``offset``."""
    base = offset - offset % (1 << 14)
    with open(root / "commitlog" / f"{base:020d}", "r+b") as file:
        file.seek(offset - base + position)
        old = file.read(1)[0]
        file.seek(offset - base + position)
        file.write(bytes([old ^ value]))


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    root = tmp_path_factory.mktemp("verify") / "store"
    fill(root, 1_500)
    return root


@pytest.fixture
def path(made, tmp_path):
    return shutil.copytree(made, tmp_path / "store")


def test_a_sound_log_is_sound(made):
    told = []

    found = verify(
        str(made), LocalEngine(1), split_size=SPLIT, progress=lambda *each: told.append(each)
    )

    assert (found.message_count, found.damages) == (1_500, ())
    assert found.split_count > 1
    assert told[-1] == (found.size, found.size)
    assert found.table().schema == DAMAGE_SCHEMA


def test_each_damage_is_named_with_its_file_and_all_else_is_counted(path):
    places = offsets(path)
    victims = {places[40]: "BAD_MAGIC", places[900]: "PHYSICAL_OFFSET", places[901]: "BAD_SIZE"}
    flip(path, places[40], 4)
    flip(path, places[900], 35)
    flip(path, places[901], 0)

    found = verify(str(path), LocalEngine(1), split_size=SPLIT)

    assert found.message_count == 1_500 - len(victims)
    covered = [
        offset
        for each in found.damages
        for offset in places
        if each.physical_offset <= offset < each.end_offset
    ]
    assert sorted(covered) == sorted(victims)
    assert found.damages[0].reason == "BAD_MAGIC"
    assert found.damages[0].position == places[40] % (1 << 14)
    assert found.damages[0].file.endswith(f"commitlog/{places[40] // (1 << 14) * (1 << 14):020d}")


def test_a_body_that_does_not_match_its_checksum_is_damage(path):
    with reput.open(path, "r", plugins=()) as store:
        (victim,) = [
            message
            for batch in store.scan()
            for message in map(batch.message, range(len(batch)))
            if message.properties["number"] == "777"
        ]
    flip(path, victim.physical_offset, 88)

    (damage,) = verify(str(path), LocalEngine(1), split_size=SPLIT).damages

    assert (damage.physical_offset, damage.reason) == (victim.physical_offset, "BODY_CRC")
    assert damage.size == victim.size


def test_bytes_behind_the_last_record_are_told(path):
    places = offsets(path)
    flip(path, places[-1], 4)

    found = verify(str(path), LocalEngine(1), split_size=SPLIT)

    assert found.message_count == 1_499
    assert [(each.physical_offset, each.reason) for each in found.damages] == [(places[-1], "TAIL")]


def test_a_forged_body_is_no_damage(tmp_path):
    """Its split does not land; what follows is read in one piece, and is sound."""
    placed, forged = forged_store(tmp_path / "store", before=600)
    with reput.open(tmp_path / "store", "r", plugins=()) as store:
        size = next(
            size
            for size in range(SPLIT, 4 * SPLIT, 40)
            if any(split.start_offset == forged for split in plan_splits(store.log, size))
        )

    found = verify(str(tmp_path / "store"), LocalEngine(1), split_size=size)

    assert found.damages == ()
    assert found.message_count == len(placed)


@settings(deadline=None, max_examples=25)
@given(
    hits=st.sets(st.tuples(st.integers(0, 1_498), st.integers(0, 43)), min_size=1, max_size=6),
    split_size=st.integers(1 << 16, 1 << 18),
)
def test_every_record_is_counted_or_lies_in_damage(tmp_path_factory, made, hits, split_size):
    path = shutil.copytree(made, tmp_path_factory.mktemp("hit") / "store")
    places = offsets(path)
    for record, position in hits:
        flip(path, places[record], position)

    found = verify(str(path), LocalEngine(1), split_size=split_size)

    hit = {record for record, _ in hits}
    damaged = {
        number
        for number, offset in enumerate(places)
        if any(each.physical_offset <= offset < each.end_offset for each in found.damages)
    }
    assert found.message_count + len(damaged) == 1_500
    assert damaged <= hit  # some bytes of a header say nothing that could be checked
    assert {record for record, position in hits if position < 8} <= damaged


def test_a_path_without_a_log_is_refused(tmp_path):
    with pytest.raises(SparkReputError, match="no log there"):
        verify(str(tmp_path), LocalEngine(1))


# --------------------------------------------------------------------------- on Spark


def test_spark_finds_the_same_and_gives_a_frame(spark, path):
    from reput_spark.jobs.engine import SparkEngine

    places = offsets(path)
    flip(path, places[40], 4)
    flip(path, places[900], 4)
    here = verify(str(path), LocalEngine(1), split_size=SPLIT)

    found = verify(str(path), SparkEngine(spark), split_size=SPLIT)

    assert found == here
    rows = found.frame(spark).orderBy("physical_offset").collect()
    assert [(row.physical_offset, row.reason) for row in rows] == [
        (places[40], "BAD_MAGIC"),
        (places[900], "BAD_MAGIC"),
    ]


# --------------------------------------------------------------------------- the command


def run(*arguments):
    return CliRunner().invoke(command, [str(each) for each in arguments])


def test_the_command_shows_damage_and_says_so_by_its_exit_code(path):
    sound = run("spark", "verify", path, "--jobs", 1)
    places = offsets(path)
    flip(path, places[40], 4)

    damaged = run("spark", "verify", path, "--jobs", 1)
    document = json.loads(run("spark", "verify", path, "--jobs", 1, "--json").stdout)

    assert (sound.exit_code, damaged.exit_code) == (ExitCode.OK, ExitCode.DAMAGED)
    assert "1,500 messages" in sound.stdout
    assert "all sound" in sound.stdout
    assert "1 damage" in damaged.stdout
    (row,) = document["damages"]
    assert row["physical_offset"] == places[40]
    assert document["message_count"] == 1_499
