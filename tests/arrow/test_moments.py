"""A range of times is found inside of files, also where the clock was put back."""

from __future__ import annotations

import random
import shutil

import attrs
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from sparkstores import forged_store

import reput
from reput_arrow import scan
from reput_arrow.reader import timesearch
from reput_arrow.reader.readtasks import plan_tasks

T0 = 1_767_225_600_000


@pytest.fixture(scope="module", autouse=True)
def small():
    """Sizes at which a log of some hundred KiB is as one of some hundred GiB."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in (("_LEAST_SIZE", 4_096), ("_STEP", 1_024), ("_REACH", 4_096)):
            patch.setattr(timesearch, name, value)
        yield


def store_of(root, times):
    now = [T0]
    config = {"commitlog": {"file_size": 1 << 16}}
    with reput.open(root, plugins=(), config=config, clock=lambda: now[0]) as store:
        for number, time in enumerate(times):
            now[0] = T0 + time
            store.put(reput.Message("T", b"x" * (number * 37 % 150), flag=number))
    return root


def flags_of(path, **options):
    found = scan(path, columns=["flag"], **options)
    selection = attrs.evolve(found.selection, split_size=1 << 20)
    found = attrs.evolve(found, selection=selection)
    size = sum(task.size for task in plan_tasks(selection))
    return found.table()["flag"].to_pylist(), size


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 1 << 30),
    pace=st.sampled_from([1, 40, 1_000, 20_000]),
    steps=st.lists(st.integers(1, 60_000), max_size=2),
)
@example(seed=1434, pace=1, steps=[65])  # put back within the first step of the search
@pytest.mark.costly
def test_rows_are_those_of_the_time_whatever_the_clock_did(seed, pace, steps, tmp_path_factory):
    chance = random.Random(seed)
    back = {chance.randrange(1_200): step for step in steps[:1]}
    times, now = [], 0
    for number in range(1_200):
        now += chance.randrange(2 * pace) - back.get(number, 0)
        times.append(now)
    root = store_of(tmp_path_factory.mktemp("times") / "store", times)
    for _ in range(4):
        low, high = sorted(chance.choices(range(min(times), max(times) + 2), k=2))

        found, _ = flags_of(root, since=T0 + low, until=T0 + high)

        assert found == [flag for flag, time in enumerate(times) if low <= time < high]
    shutil.rmtree(root)


def test_a_twentieth_of_the_time_is_about_a_twentieth_of_the_bytes(tmp_path):
    times = list(range(3_000))  # all within seconds, as in a log that was written at once
    root = store_of(tmp_path / "store", times)
    _, whole = flags_of(root)

    for low, high in ((2_850, 3_000), (0, 150), (1_500, 1_650)):
        found, size = flags_of(root, since=T0 + low, until=T0 + high)

        assert found == list(range(low, high))
        assert size < whole * 0.12


def test_where_no_time_is_asked_for_or_damage_is_passed_over_files_are_read(tmp_path):
    root = store_of(tmp_path / "store", range(1_500))

    found, size = flags_of(root, since=T0 + 1_400, corrupt="skip")

    assert found == list(range(1_400, 1_500))
    assert size >= 20_000


def test_a_record_in_a_body_at_which_reading_begins_is_no_row(tmp_path, monkeypatch):
    offsets, forged = forged_store(tmp_path / "store", before=90)
    found = scan(tmp_path / "store", columns=["physical_offset"], since=1)
    selection = attrs.evolve(found.selection, split_size=1 << 20)
    assert plan_tasks(selection)[0].split.start_offset == 0  # as all are of that time
    window = timesearch.Window(forged, forged + 6_000)
    monkeypatch.setattr("reput_arrow.reader.readtasks.start_before", lambda *given: window)

    (task, *_) = plan_tasks(selection)

    assert (task.split.start_offset, task.rows_from) == (forged, forged + 6_000)
    with pytest.raises(reput.errors.CorruptFileError):
        attrs.evolve(found, selection=selection).table()
    assert [each for each in offsets if each >= forged + 6_000]
