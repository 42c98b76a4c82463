"""An index built from splits of the log is the one that was built while messages arrived."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import attrs
import pytest
import rebuildstores
from hypothesis import given, settings
from hypothesis import strategies as st
from rebuildstores import LOG, SPLIT

import reput
from reput.files import Disk
from reput_index.files.header import Geometry
from reput_index.offline.shards import IndexBuilder, SplitKeys
from reput_index.tagitems import TagsSource
from reput_testing import snapshot
from reput_tools.offline import NotSplittableError, Split, plan_splits, read_split, rebuild

CONFIG = {
    "commitlog": LOG,
    "index": {"slots_per_file": 1_000, "items_per_file": 5_000},
}


def fill(store, count=16_000, first=0):
    def keys(number):
        return {
            "keys": " ".join(f"k{number % 97}-{word}" for word in range(number % 4)),
            "properties": {"UNIQ_KEY": f"U{number}"} if number % 3 else {},
        }

    rebuildstores.fill(store, count, first, of=keys)


def files_of(root):
    return [path.read_bytes() for path in sorted((root / "index").iterdir())]


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A closed store with several index files, and a log of several splits."""
    root = tmp_path_factory.mktemp("rebuild") / "store"
    with reput.open(root, plugins=["index"], config=CONFIG) as store:
        fill(store)
    assert len(list((root / "index").iterdir())) > 3
    return root


@pytest.fixture
def path(made, tmp_path):
    return shutil.copytree(made, tmp_path / "store")


@pytest.mark.proof
@pytest.mark.parametrize("case", ["demo", "basic", "slow", "v6", "batch", "transaction", "delay"])
@pytest.mark.costly
def test_of_stores_that_java_wrote_too(case, golden_store):
    """Nothing but its files says how large their parts are; Java names them by its clock."""
    root = golden_store(case)
    before = files_of(root)

    (built,) = rebuild(root, ["index"], jobs=2, split_size=SPLIT)

    assert built.reason is None
    assert files_of(root) == before
    assert before


@pytest.mark.costly
def test_sizes_of_files_stay_what_they_are_in_one_piece_too(path):
    os.remove(path / "reput" / "state")  # a foreign store: no configuration says them
    before = snapshot(path / "index")

    for jobs in (1, 2):
        rebuild(path, ["index"], jobs=jobs, split_size=SPLIT)
        assert snapshot(path / "index") == before


@pytest.mark.costly
def test_a_log_without_keys_gets_its_one_empty_file(tmp_path):
    with reput.open(tmp_path, plugins=["index"], config=CONFIG) as store:
        store.put_many([reput.Message("T", b"x" * 500) for _ in range(5_000)])
    before = snapshot(tmp_path / "index")

    rebuild(tmp_path, jobs=2, split_size=SPLIT)

    assert snapshot(tmp_path / "index") == before
    assert len(before) == 1


def test_a_log_without_messages_gets_no_file(tmp_path):
    with reput.open(tmp_path, plugins=["index"], config=CONFIG):
        pass

    rebuild(tmp_path, jobs=2, split_size=SPLIT)

    assert not (tmp_path / "index").exists()


@pytest.mark.costly
def test_of_a_log_that_lost_its_head_both_ways_agree(golden_store):
    in_order, in_parts = golden_store("trimmed"), golden_store("trimmed")

    rebuild(in_order, ["index"], jobs=1)
    rebuild(in_parts, ["index"], jobs=2, split_size=SPLIT)

    assert snapshot(in_parts / "index") == snapshot(in_order / "index")


@pytest.mark.costly
def test_damaged_files_do_not_stand_in_the_way(path):
    before = snapshot(path / "index")
    files = sorted((path / "index").iterdir())
    files[1].write_bytes(b"\xff" * 100)

    rebuild(path, jobs=2, split_size=SPLIT)

    assert snapshot(path / "index") == before


@pytest.mark.costly
def test_every_file_that_differs_is_told_and_nothing_is_changed(path):
    files = sorted((path / "index").iterdir())
    with open(files[0], "r+b") as file:
        file.seek(40 + 4 * 1_000 + 20 * 7 + 3)
        file.write(b"\x7f")
    files[2].unlink()
    (path / "index" / "stray").write_bytes(b"x")
    before = snapshot(path / "index")

    (found,) = rebuild(path, jobs=2, split_size=SPLIT, check=True)

    assert [(each.path, each.position) for each in found.differences] == [
        (f"index/{files[0].name}", 40 + 4 * 1_000 + 20 * 7 + 3),
        (f"index/{files[2].name}", 0),
        ("index/stray", 0),
    ]
    assert snapshot(path / "index") == before


# --------------------------------------------------------------------------- piece by piece


def build_in_pieces(log, splits, geometry, root, twice=False, tags=None):
    """What a rebuild does, in this process, with splits of any size."""
    builder = IndexBuilder(geometry, tags=tags)
    scanned = []
    for split in splits:
        for _ in range(1 + twice):  # as an attempt that was given up, and the next one
            scan = builder.begin(split, str(root))
            for batch in read_split(log, split):
                scan.add(batch)
            found = scan.finish()
        scanned.append(found)
    tasks = builder.plan(scanned)
    for task in reversed(tasks):
        for _ in range(1 + twice):
            builder.build(task, str(root))
    builder.finish(scanned, [None] * len(tasks), str(root))
    return snapshot(Path(root) / "index")


messages = st.lists(
    st.builds(
        reput.Message,
        topic=st.sampled_from(["A", "B"]),
        body=st.binary(max_size=60),
        tags=st.sampled_from([None, "a", "x", "标签"]),
        keys=st.lists(st.sampled_from("abcdefgh"), max_size=4).map(" ".join),
        properties=st.sampled_from([{}, {"UNIQ_KEY": "u1"}, {"UNIQ_KEY": "u2"}]),
    ),
    min_size=1,
    max_size=40,
)


@settings(deadline=None, max_examples=40)
@given(
    messages=messages,
    split_size=st.integers(100, 4_000),
    geometry=st.builds(Geometry, st.integers(1, 9), st.integers(2, 12)),
    step_ms=st.sampled_from([0, 1, 700, -900]),
    twice=st.booleans(),
    tags=st.lists(st.booleans(), min_size=1, max_size=4),
)
def test_any_log_in_any_splits_gives_the_files_of_the_reput_loop(
    tmp_path_factory, messages, split_size, geometry, step_ms, twice, tags
):
    """Also if the items of tags came and went with the release that wrote the store."""
    root = tmp_path_factory.mktemp("any")
    now = [1_700_000_000_000]

    def clock():
        now[0] += step_ms
        return now[0]

    config = {
        "commitlog": {"file_size": 8_192},
        "index": {"slots_per_file": geometry.slot_count, "items_per_file": geometry.item_count},
    }
    for number, adds_tags in enumerate(tags):
        config["index"]["tags"] = adds_tags
        with reput.open(
            root / "live", plugins=["index"], config=config, clock=clock, threads=False
        ) as store:
            for message in messages[number :: len(tags)]:
                store.put(message)
    expected = snapshot(root / "live" / "index")

    with reput.open(root / "live", "r", plugins=()) as store:
        splits = plan_splits(store.log, split_size)
        source = TagsSource.of(str(root / "live"), tags[-1], Disk(), geometry, store.log)
        found = build_in_pieces(store.log, splits, geometry, root / "parts", twice, source)

    assert found == expected


def test_a_file_of_keys_that_was_cut_is_no_shorter_index(tmp_path):
    builder = IndexBuilder(Geometry(10, 10))
    (tmp_path / "keys").write_bytes(bytes(20 * 3 - 1))
    (task,) = builder.plan([SplitKeys(str(tmp_path / "keys"), 3, 1)])

    with pytest.raises(EOFError, match="59 bytes of 60"):
        builder.build(task, str(tmp_path))

    assert not list((tmp_path / "index").iterdir())


def test_what_is_sent_to_other_processes_is_plain():
    found = SplitKeys("/store/keys", 3, None)

    assert attrs.astuple(found) == ("/store/keys", 3, None)
    assert attrs.astuple(Split(0, 1, 2)) == (0, 1, 2)
    assert issubclass(NotSplittableError, reput.errors.ReputError)
