"""Items of tags, which RocketMQ adds since 5.4: its own files, stores of both kinds, queries."""

from __future__ import annotations

import shutil
from collections import defaultdict

import pytest

import reput
from reput_index.batchkeys import HashedKeys, KeysOfBatch
from reput_index.layout import ITEM_SIZE
from reput_testing import snapshot
from reput_tools.offline import rebuild

GOLDEN = "../rocketmq-5.5.0/default"
SIZES = {"slots_per_file": 101, "items_per_file": 350}
SMALL = {"slots_per_file": 7, "items_per_file": 40}


def files_of(root):
    return [path.read_bytes() for path in sorted((root / "index").iterdir())]


def opened(root, tags=None, mode="w", sizes=SIZES):
    options = sizes if tags is None else {**sizes, "tags": tags}
    return reput.open(root, mode, plugins=["index"], config={"index": options}, threads=False)


def put(root, count, tags=None, first=0, **options):
    """Put messages: each has tags, every third has neither a unique key nor keys."""
    with opened(root, tags, sizes=SMALL, **options) as store:
        for number in range(first, first + count):
            properties = {"UNIQ_KEY": f"U{number}"} if number % 3 else {}
            keys = f"k{number} T#even" if number % 3 == 2 else ""
            text = "even" if number % 2 == 0 else "odd"
            store.put(reput.Message("T", b"x", tags=text, keys=keys, properties=properties))
    return root


def messages_of(store):
    return [batch.message(row) for batch in store.scan() for row in range(len(batch))]


def found(store, tags, topic="T", **options):
    answer = store.plugin("index").query_by_tag(topic, tags, **options)
    return [message.physical_offset for message in answer]


@pytest.mark.parametrize(
    ("tags", "marked"), [(None, True), (True, False)], ids=["by the mark", "by the option"]
)
def test_the_files_of_release_5_5_are_built_bit_by_bit(tags, marked, golden_store):
    root = golden_store(GOLDEN)
    brokers = files_of(root)
    shutil.rmtree(root / "index")
    if not marked:
        shutil.rmtree(root / "rocksdbstore")

    with opened(root, tags) as store:
        assert store.wait_dispatched(60)

    assert len(brokers) == 5
    assert files_of(root) == brokers


@pytest.mark.parametrize(("jobs", "marked"), [(1, True), (2, False)])
@pytest.mark.costly
def test_the_files_of_release_5_5_are_what_a_rebuild_gives(jobs, marked, golden_store):
    root = golden_store(GOLDEN)
    if not marked:  # then the items say it
        shutil.rmtree(root / "rocksdbstore")
    brokers = files_of(root)

    (checked,) = rebuild(root, ["index"], jobs=jobs, split_size=1_000, check=True)
    (built,) = rebuild(root, ["index"], jobs=jobs, split_size=1_000)

    assert checked.differences == ()
    assert built.reason is None
    assert files_of(root) == brokers


@pytest.mark.parametrize(
    ("mark", "items", "option", "added"),
    [
        ("rocksdbstore", True, None, True),
        ("rocksdbstore", False, None, True),  # a broker 5.3 was replaced
        ("", True, None, True),
        ("", False, None, False),
        ("rocksdbstore", True, False, False),
        ("", False, True, True),
    ],
)
def test_a_writer_does_as_the_option_or_the_stores_release(mark, items, option, added, tmp_path):
    root = put(tmp_path / "store", 5, items or None)  # an option would be recorded
    if mark:
        (root / mark).mkdir()

    put(root, 5, option, first=5)

    with opened(root, mode="r") as store:
        offsets = [message.physical_offset for message in messages_of(store)]
        # Messages 2 and 8 have a key like that of the tags.
        expected = [
            offsets[at] for at in range(0, 10, 2) if at in (2, 8) or (items if at < 5 else added)
        ]
        assert found(store, "even", oldest_first=True) == expected


@pytest.mark.parametrize("marked", [True, False])
def test_after_a_crash_of_release_5_5_the_files_have_the_same_items(marked, golden_store):
    root = golden_store(GOLDEN)
    brokers = files_of(root)
    (root / "abort").touch()
    if not marked:
        shutil.rmtree(root / "rocksdbstore")

    with opened(root) as store:
        assert store.wait_dispatched(60)

    assert files_of(root) == brokers


@pytest.mark.parametrize("mode", ["r", "w"])
def test_each_message_of_release_5_5_is_found_by_its_tags(mode, golden_store, golden_rows):
    expected = defaultdict(list)
    for row in golden_rows(GOLDEN, "message"):
        if row["tags"]:
            expected[row["topic"], row["tags"]].append(row["physical_offset"])

    with reput.open(golden_store(GOLDEN), mode, plugins={"index"}) as store:
        for (topic, tags), offsets in expected.items():
            assert found(store, tags, topic, oldest_first=True) == sorted(offsets)
            pages, after = [], None
            while True:
                answer = store.plugin("index").query_by_tag(topic, tags, limit=7, after=after)
                pages += [message.physical_offset for message in answer]
                after = answer.after
                if after is None:
                    break
            assert pages == sorted(offsets, reverse=True)
        assert found(store, "Tag", "orders") == []
        assert [len(store.query("orders", key)) for key in ("T#TagA", "TagA")] == [0, 0]
    assert len(expected) == 10


@pytest.fixture(
    params=[(False, True), (True, False), (False, True, False, True)],
    ids=str,
)
def mixed(request, tmp_path):
    """A store whose broker was replaced several times by one of another release."""
    root = tmp_path / "store"
    for number, tags in enumerate(request.param):
        put(root, 21 + number, tags, first=50 * number)
    return root


@pytest.mark.parametrize(("jobs", "marked"), [(1, True), (2, False)])
@pytest.mark.costly
def test_files_of_both_kinds_are_kept_by_a_rebuild(jobs, marked, mixed):
    if marked:
        (mixed / "rocksdbstore").mkdir()
    before = snapshot(mixed / "index")

    (checked,) = rebuild(mixed, ["index"], jobs=jobs, split_size=500, check=True)
    rebuild(mixed, ["index"], jobs=jobs, split_size=500)

    assert len(before) > 1
    assert checked.differences == ()
    assert snapshot(mixed / "index") == before


@pytest.mark.parametrize("place", [0, 7], ids=["hash", "offset"])
def test_a_damaged_item_of_tags_is_found(place, mixed):
    offset = _offset_of_an_item_of_tags(mixed)
    path = next(path for path in sorted((mixed / "index").iterdir()) if offset in _offsets(path))
    position = 40 + 4 * 7 + ITEM_SIZE * (1 + _offsets(path).index(offset))
    with open(path, "r+b") as file:
        file.seek(position + place + 1)
        byte = file.read(1)[0]
        file.seek(position + place + 1)
        file.write(bytes([byte ^ 0x10]))

    (checked,) = rebuild(mixed, ["index"], jobs=1, check=True)

    assert f"index/{path.name}" in [each.path for each in checked.differences]


def _offsets(path):
    data = path.read_bytes()[40 + 4 * 7 + ITEM_SIZE :]
    return [int.from_bytes(data[at + 4 : at + 12], "big") for at in range(0, len(data), ITEM_SIZE)]


def _offset_of_an_item_of_tags(root):
    """Where a message stands that has tags, no keys, and an item."""
    with opened(root, mode="r") as store:
        items = {offset for path in (root / "index").iterdir() for offset in _offsets(path)}
        return next(
            message.physical_offset
            for message in messages_of(store)
            if "UNIQ_KEY" not in message.properties and message.physical_offset in items
        )


@pytest.mark.parametrize("tags", [False, True])
def test_keys_that_a_broker_adds_again_when_it_recovers_are_no_damage(tags, tmp_path):
    root = put(tmp_path / "store", 18, tags)
    with opened(root, tags, sizes=SMALL) as store:
        properties = {"UNIQ_KEY": "again"}
        store.put(reput.Message("T", b"x", tags="odd", keys="k", properties=properties))
        (batch,) = store.scan()
        keys = KeysOfBatch()(batch)
        again = HashedKeys(*(each[-2:-1] for each in keys))
        store.plugin("index").index.append(again)
        store.wait_dispatched()
    put(root, 3, tags, first=50)
    before = _offsets(sorted((root / "index").iterdir())[0])

    (checked,) = rebuild(root, ["index"], jobs=1, check=True)

    assert checked.differences == ()
    assert max(map(before.count, before)) == (4 if tags else 3)


@pytest.mark.parametrize("after", [55, 61])
@pytest.mark.parametrize("tags", [False, True])
def test_they_are_no_damage_in_a_log_without_its_head(tags, after, tmp_path):
    config = {"commitlog": {"file_size": 4_096}, "index": {**SMALL, "tags": tags}}
    root = tmp_path / "store"
    with reput.open(root, plugins=["index"], config=config, threads=False) as store:
        for number in range(90):
            store.put(reput.Message("T", b"x" * 50, keys=f"a{number} b{number}", tags="t"))
            store.wait_dispatched()
            if number == after:
                *_, batch = store.scan()
                index = store.plugin("index").index
                again = HashedKeys(*(each[-2:] for each in KeysOfBatch()(batch)))
                begun = index.append(again)
                assert begun == 2 or index.append(again.behind(begun))
        store.trim_log(8_192)
        first = next(store.scan()).physical_offset[0]

    (checked,) = rebuild(root, ["index"], jobs=1, check=True)

    assert first >= 4_096
    assert checked.differences == ()


def test_a_copied_file_is_damage_in_a_log_without_its_head(tmp_path):
    config = {"commitlog": {"file_size": 4_096}, "index": SMALL}
    root = tmp_path / "store"
    with reput.open(root, plugins=["index"], config=config, threads=False) as store:
        for number in range(90):
            store.put(reput.Message("T", b"x" * 50, keys=f"a{number} b{number}"))
        store.wait_dispatched()
        store.trim_log(8_192)
    *_, last = sorted((root / "index").iterdir())
    shutil.copy(last, last.with_name("20991231235959000"))

    (checked,) = rebuild(root, ["index"], jobs=1, check=True)

    assert checked.differences != ()
