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
from reput_tools.cli.kit.exitcodes import ExitCode
from reput_tools.cli.root import reput as command

pytest.importorskip("pyspark")

from reput_arrow.logs.discovery import find_logs
from reput_arrow.logs.logopening import open_log
from reput_spark import SparkReputError
from reput_spark.command import engines
from reput_spark.jobs.verify import _described, verify


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


def test_a_sound_log_is_sound(spark, made):
    told = []

    found = verify(spark, str(made), progress=lambda *each: told.append(each))

    assert (found.message_count, found.damages) == (1_500, ())
    assert told[-1] == (found.size, found.size)
    assert found.frame(spark).count() == 0


def test_each_damage_is_named_with_its_file_and_all_else_is_counted(spark, path):
    places = offsets(path)
    victims = {places[40]: "BAD_MAGIC", places[900]: "PHYSICAL_OFFSET", places[901]: "BAD_SIZE"}
    flip(path, places[40], 4)
    flip(path, places[900], 35)
    flip(path, places[901], 0)

    found = verify(spark, str(path))

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


def test_a_body_that_does_not_match_its_checksum_is_damage(spark, path):
    with reput.open(path, "r", plugins=()) as store:
        (victim,) = [
            message
            for batch in store.scan()
            for message in map(batch.message, range(len(batch)))
            if message.properties["number"] == "777"
        ]
    flip(path, victim.physical_offset, 88)

    (damage,) = verify(spark, str(path)).damages

    assert (damage.physical_offset, damage.reason) == (victim.physical_offset, "BODY_CRC")
    assert damage.size == victim.size


def test_bytes_behind_the_last_record_are_told(spark, path):
    places = offsets(path)
    flip(path, places[-1], 4)

    found = verify(spark, str(path))

    assert found.message_count == 1_499
    assert [(each.physical_offset, each.reason) for each in found.damages] == [(places[-1], "TAIL")]


def test_a_forged_body_is_no_damage(spark, tmp_path):
    """Files are read in one piece, so that no cut falls where its bytes look like a record."""
    placed, _ = forged_store(tmp_path / "store", before=600)

    found = verify(spark, str(tmp_path / "store"))

    assert found.damages == ()
    assert found.message_count == len(placed)


def test_what_is_sound_when_it_is_looked_at_again_is_said_to_be_gone(made):
    (place,) = find_logs((str(made),))
    with open_log(place) as log:
        damage = _described(place, log, offsets(made)[7])

    assert (damage.reason, damage.size) == ("GONE", 0)


def test_several_stores_are_verified_at_once_each_damage_by_its_own(spark, path, made):
    flip(path, offsets(path)[40], 4)

    found = verify(spark, [str(made), str(path)])

    assert found.message_count == 2 * 1_500 - 1
    assert [each.store for each in found.damages] == [str(path)]
    assert verify(spark, f"{path.parent}/st*").damages == found.damages


@settings(deadline=None, max_examples=8)
@given(
    hits=st.sets(st.tuples(st.integers(0, 1_498), st.integers(0, 43)), min_size=1, max_size=20),
)
def test_every_record_is_counted_or_lies_in_damage(spark, tmp_path_factory, made, hits):
    path = shutil.copytree(made, tmp_path_factory.mktemp("hit") / "store")
    places = offsets(path)
    for record, position in hits:
        flip(path, places[record], position)

    found = verify(spark, str(path))

    hit = {record for record, _ in hits}
    damaged = {
        number
        for number, offset in enumerate(places)
        if any(each.physical_offset <= offset < each.end_offset for each in found.damages)
    }
    assert found.message_count + len(damaged) == 1_500
    assert damaged <= hit  # some bytes of a header say nothing that could be checked
    assert {record for record, position in hits if position < 8} <= damaged


def test_a_path_without_a_log_is_refused(spark, tmp_path):
    with pytest.raises(SparkReputError, match="no log there"):
        verify(spark, tmp_path)


def test_the_report_is_a_frame(spark, path):
    places = offsets(path)
    flip(path, places[40], 4)
    flip(path, places[900], 4)

    rows = verify(spark, str(path)).frame(spark).orderBy("physical_offset").collect()

    assert [(row.physical_offset, row.reason) for row in rows] == [
        (places[40], "BAD_MAGIC"),
        (places[900], "BAD_MAGIC"),
    ]


# --------------------------------------------------------------------------- the command


@pytest.fixture
def run(lasting, monkeypatch):
    """Runs the command in the session of all tests."""
    monkeypatch.setattr(engines, "session_of", lambda *_, **__: lasting)
    return lambda *words: CliRunner().invoke(command, ["spark", "verify", *map(str, words)])


def test_the_command_shows_damage_and_says_so_by_its_exit_code(run, path):
    sound = run(path)
    places = offsets(path)
    flip(path, places[40], 4)

    damaged = run(path)
    document = json.loads(run(path, "--json").stdout)

    assert (sound.exit_code, damaged.exit_code) == (ExitCode.OK, ExitCode.DAMAGED)
    assert "1,500 messages" in sound.stdout
    assert "every checksum matches" in sound.stdout
    assert "1 damage" in damaged.stdout
    (row,) = document["damages"]
    assert row["physical_offset"] == places[40]
    assert document["message_count"] == 1_499
