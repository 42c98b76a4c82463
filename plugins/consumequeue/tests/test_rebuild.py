"""Queues built from splits of the log are those that were built while messages arrived."""

from __future__ import annotations

import os
import shutil

import pytest
import rebuildstores
from openstores import next_queue_offset
from rebuildstores import LOG, SPLIT

import reput
from reput.errors import CorruptFileError
from reput_consumequeue import ConsumeQueuePlugin
from reput_testing import snapshot
from reput_tools.offline import rebuild

CONFIG = {
    "commitlog": LOG,
    "consumequeue": {"units_per_file": 500},
}


def tree(root, name="consumequeue"):
    return snapshot(root, [root / name])


def fill(store, count=20_000):
    rebuildstores.fill(store, count, of=lambda number: {"tags": "a"})


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A closed store with queues of several files, and a log of several splits."""
    root = tmp_path_factory.mktemp("rebuild") / "store"
    with reput.open(root, plugins=["consumequeue"], config=CONFIG) as store:
        fill(store)
    return root


@pytest.fixture
def path(made, tmp_path):
    return shutil.copytree(made, tmp_path / "store")


@pytest.mark.proof
@pytest.mark.parametrize("case", ["demo", "basic", "v6", "batch", "transaction", "slow"])
@pytest.mark.costly
def test_of_stores_that_java_wrote_too(case, golden_store):
    root = golden_store(case)
    before = tree(root)

    rebuild(root, ["consumequeue"], jobs=2, split_size=SPLIT)

    same = {name: data.rstrip(b"\0") for name, data in before.items()}
    found = {name: data.rstrip(b"\0") for name, data in tree(root).items()}
    # Java leaves files of queues whose messages are no longer in the log.
    assert {name: same[name] for name in found} == found
    assert found


@pytest.mark.costly
def test_of_a_log_that_lost_its_head_the_first_units_are_blank(golden_store):
    in_order, in_parts = golden_store("trimmed"), golden_store("trimmed")

    rebuild(in_order, ["consumequeue"], jobs=1)
    rebuild(in_parts, ["consumequeue"], jobs=2, split_size=SPLIT)

    assert tree(in_parts) == tree(in_order)
    with reput.open(in_parts, "r") as store:
        assert all(info.min_queue_offset > 0 for info in store.queues())


@pytest.mark.costly
def test_queue_offsets_that_leave_a_gap_are_built_in_order(path):
    with reput.open(path, plugins=["consumequeue"], config=CONFIG) as store:
        following = store.log.queue_offsets["T0", 0]
        next_queue_offset(store, "T0", 0, following + 5)  # as after a loss
        fill(store, 10)
    before = tree(path)

    (built,) = rebuild(path, jobs=2, split_size=SPLIT)

    assert "repeat or leave gaps" in built.reason
    assert built.split_count == 1
    assert tree(path) == before


@pytest.mark.costly
def test_queues_with_extend_files_are_built_in_order(tmp_path):
    config = {**CONFIG, "consumequeue": {"units_per_file": 500, "extend": True}}
    with reput.open(tmp_path, plugins=["consumequeue"], config=config) as store:
        fill(store)
    before, extended = tree(tmp_path), tree(tmp_path, "consumequeue_ext")

    (built,) = rebuild(tmp_path, jobs=2, split_size=SPLIT)

    assert built.split_count == 1
    assert tree(tmp_path) == before
    assert tree(tmp_path, "consumequeue_ext") == extended
    assert extended


@pytest.mark.costly
def test_extend_files_keep_the_size_that_they_have(tmp_path, monkeypatch):
    config = {**CONFIG, "consumequeue": {"units_per_file": 500, "extend": True}}
    with monkeypatch.context() as patch:
        patch.setattr(ConsumeQueuePlugin, "extend_file_size", 4_096)
        with reput.open(tmp_path, plugins=["consumequeue"], config=config) as store:
            fill(store, 500)
    extended = tree(tmp_path, "consumequeue_ext")

    rebuild(tmp_path, split_size=SPLIT)

    assert tree(tmp_path, "consumequeue_ext") == extended
    assert {len(data) for data in extended.values()} == {4_096}


@pytest.mark.costly
def test_extend_files_that_were_cut_do_not_say_how_large_files_are(tmp_path, monkeypatch):
    config = {**CONFIG, "consumequeue": {"units_per_file": 500, "extend": True}}
    with monkeypatch.context() as patch:
        patch.setattr(ConsumeQueuePlugin, "extend_file_size", 8_192)
        with reput.open(tmp_path, plugins=["consumequeue"], config=config) as store:
            fill(store, 400)
    extended = tree(tmp_path, "consumequeue_ext")
    for path in extended:
        os.truncate(tmp_path / path, 5_000)

    rebuild(tmp_path, split_size=SPLIT)

    assert extended
    for path, data in extended.items():
        with open(tmp_path / path, "rb") as file:
            assert file.read(8_192) == data
        assert os.path.getsize(tmp_path / path) == ConsumeQueuePlugin.extend_file_size


@pytest.mark.costly
def test_light_queues_are_built_where_the_log_has_them(tmp_path):
    config = {**CONFIG, "commitlog": {**LOG, "max_light_queues": 9}}
    with reput.open(tmp_path, plugins=["consumequeue"], config=config) as store:
        for number in range(9):
            listed = {"INNER_MULTI_DISPATCH": f"%LMQ%{number % 2}"}
            store.put(reput.Message("T", b"%d" % number, properties=listed))
    before = tree(tmp_path)

    (built,) = rebuild(tmp_path, split_size=SPLIT)

    assert built.split_count == 1
    assert tree(tmp_path) == before
    assert any("%LMQ%1" in name for name in before)


@pytest.mark.costly
def test_damage_that_nobody_has_noted_is_told(path):
    with reput.open(path, "r") as store:
        victim = next(iter(store.scan(1 << 20))).physical_offset[5]
        file, position = store.log.path_of(int(victim))
    with open(file, "r+b") as log:
        log.seek(position + 4)
        log.write(b"\xff\xff\xff\xff")
    before = tree(path)

    with pytest.raises(CorruptFileError, match="backfill"):
        rebuild(path, jobs=2, split_size=SPLIT)

    assert tree(path) == before


@pytest.mark.costly
def test_file_sizes_stay_what_they_are(path):
    os.remove(path / "reput" / "state")  # a foreign store: nothing says how large its files are
    before = tree(path)

    for jobs in (1, 2):
        rebuild(path, ["consumequeue"], jobs=jobs, split_size=SPLIT)
        assert tree(path) == before
