"""Splits of a log: together they are all of it, and no false border passes for a true one."""

from __future__ import annotations

import pickle
import shutil

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import reput
from reput.errors import CorruptFileError
from reput_tools.offline import Split, plan_splits, read_split

FILE_SIZE = 16_384


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A store of some files, whose bodies differ in size."""
    root = tmp_path_factory.mktemp("splits") / "store"
    config = {"commitlog": {"file_size": FILE_SIZE}}
    with reput.open(root, plugins=(), config=config) as store:
        for number in range(300):
            store.put(reput.Message("T", b"x" * (number * 37 % 400)))
    return root


@pytest.fixture(scope="module")
def store(made):
    """That store, which is only read."""
    with reput.open(made, "r", plugins=()) as opened:
        yield opened


def offsets(log, splits):
    """Where the records begin that the splits hold, in their order."""
    return [
        offset
        for split in splits
        for batch in read_split(log, split)
        for offset in batch.physical_offset.tolist()
    ]


@settings(deadline=None, max_examples=40)
@given(size=st.integers(1, 6 * FILE_SIZE))
def test_splits_of_any_size_are_all_of_the_log_once(store, size):
    log = store.log
    whole = [offset for batch in log.scan() for offset in batch.physical_offset.tolist()]

    splits = plan_splits(log, size)

    assert offsets(log, splits) == whole
    assert [split.number for split in splits] == list(range(len(splits)))
    assert splits[0].start_offset == log.min_physical_offset
    assert splits[-1].end_offset == log.max_physical_offset


def test_a_part_of_the_log_is_split_between_its_borders(store):
    whole = offsets(store.log, plan_splits(store.log, 5_000))
    start, end = whole[50], whole[200]

    splits = plan_splits(store.log, 5_000, start, end)

    assert offsets(store.log, splits) == whole[50:200]


def test_an_empty_log_has_no_splits(tmp_path):
    config = {"commitlog": {"file_size": FILE_SIZE}}
    with reput.open(tmp_path, plugins=(), config=config) as store:
        assert plan_splits(store.log) == []


@pytest.mark.parametrize("size", [0, -1])
def test_a_split_has_a_size(store, size):
    with pytest.raises(ValueError, match="1 or more"):
        plan_splits(store.log, size)


def test_splits_are_plain_values(store):
    splits = plan_splits(store.log, 5_000)

    assert pickle.loads(pickle.dumps(splits)) == splits
    assert sum(split.size for split in splits) == splits[-1].end_offset


def test_a_border_inside_of_a_record_is_noticed_by_whoever_reads_up_to_it(store):
    first, second = offsets(store.log, plan_splits(store.log, 5_000))[10:12]

    with pytest.raises(CorruptFileError):
        list(read_split(store.log, Split(0, first, second + 40)))
    with pytest.raises(CorruptFileError):
        list(read_split(store.log, Split(0, first + 40, second)))


def test_a_body_that_holds_a_record_which_states_its_own_place_is_not_believed(tmp_path):
    config = {"commitlog": {"file_size": 1 << 20}}
    with reput.open(tmp_path / "model", plugins=(), config=config) as model:
        head = model.put(reput.Message("T", b"a" * 100)).size
    at = head + 88  # where a body begins in the record behind that one
    forged = _record_at(tmp_path / "forger", at)
    with reput.open(tmp_path / "store", plugins=(), config=config) as store:
        store.put(reput.Message("T", b"a" * 100))
        receipt = store.put(reput.Message("T", forged + b"z" * 5_000))
        for number in range(50):
            store.put(reput.Message("T", b"%d" % number * 50))
    assert receipt.physical_offset + 88 == at
    with reput.open(tmp_path / "store", "r", plugins=()) as store:
        splits = plan_splits(store.log, receipt.physical_offset + 10)

        # The cut fell for it, and the check at the border does not.
        assert splits[0].end_offset == at
        with pytest.raises(CorruptFileError, match="one piece"):
            list(read_split(store.log, splits[0]))


def _record_at(root, offset):
    """Bytes of a sound record that states that physical offset."""
    config = {"commitlog": {"file_size": 1 << 20}}
    with reput.open(root, plugins=(), config=config) as store:
        size = store.put(reput.Message("T", b"")).size
        rest = offset - size - 91 - 1
        assert rest >= 0
        store.put(reput.Message("T", b"y" * rest))
        receipt = store.put(reput.Message("T", b"forged"))
        assert receipt.physical_offset == offset
        return store.log.read(offset, receipt.size)


def test_damage_in_a_split_is_told_and_not_passed_over(made, tmp_path):
    shutil.copytree(made, tmp_path / "copy")
    with reput.open(tmp_path / "copy", "r", plugins=()) as store:
        _damage_a_split(store)


def _damage_a_split(store):
    splits = plan_splits(store.log, 5_000)
    victim = offsets(store.log, splits[1:2])[3]
    path, position = store.log.path_of(victim)
    with open(path, "r+b") as file:
        file.seek(position + 4)
        file.write(b"\xff\xff\xff\xff")

    with pytest.raises(CorruptFileError, match="one piece"):
        list(read_split(store.log, splits[1]))
    assert offsets(store.log, splits[:1])
