"""Whatever is done to the end of a log, opening it is an answer or a typed error."""

from __future__ import annotations

import shutil

import pytest

import reput
from reput.files.filenames import file_name
from reput_testing import QuickDisk
from reput_testing.casebudget import part

pytestmark = [pytest.mark.proof, pytest.mark.shows("torn-tail")]

CONFIG = {"commitlog": {"file_size": 1024}}
AS_ROCKETMQ = {"commitlog": {**CONFIG["commitlog"], "recovery": "rocketmq"}}
SENT = [
    reput.Message("T", b"first", 0, tags="TagA", keys="k1"),
    reput.Message("T", b"second", 1, tags="TagB", keys="k2"),
    reput.Message("other", b"the last one", 2, tags="TagC", keys="k3", properties={"price": "7"}),
]


@pytest.fixture
def closed_store(tmp_path):
    root = tmp_path / "closed"
    with reput.open(root, plugins=[], config=CONFIG) as store:
        receipts = [store.put(message) for message in SENT]
    return root, receipts


def _copy(root, number):
    target = root.parent / f"copy-{number}"
    shutil.copytree(root, target)
    return target, target / "commitlog" / file_name(0)


def _messages(store):
    views = [batch.message(row) for batch in store.scan() for row in range(len(batch))]
    return [
        (view.topic, view.queue_id, view.queue_offset, view.body, view.properties, view.flag)
        for view in views
    ]


def _expected():
    return [
        ("T", 0, 0, b"first", {"KEYS": "k1", "TAGS": "TagA"}, 0),
        ("T", 1, 0, b"second", {"KEYS": "k2", "TAGS": "TagB"}, 0),
        ("other", 2, 0, b"the last one", {"KEYS": "k3", "TAGS": "TagC", "price": "7"}, 0),
    ]


@pytest.mark.parametrize("clean", [True, False])
def test_a_tail_that_was_lost_at_any_byte_costs_the_last_message_and_nothing_else(
    closed_store, clean
):
    root, receipts = closed_store
    last = receipts[-1]

    for cut in part(range(last.physical_offset, last.end_offset)):
        copy, file = _copy(root, cut)
        data = file.read_bytes()
        file.write_bytes(data[:cut].ljust(len(data), b"\0"))
        if not clean:
            (copy / "abort").write_text("1")
        with reput.open(copy, "r", plugins=[], disk=QuickDisk()) as store:
            assert _messages(store) == _expected()[:2], cut
        with reput.open(copy, plugins=[], disk=QuickDisk()) as store:
            assert _messages(store) == _expected()[:2], cut
            again = store.put(SENT[2])
            assert (again.physical_offset, again.queue_offset) == (last.physical_offset, 0)
            assert _messages(store) == _expected(), cut
        shutil.rmtree(copy)


@pytest.mark.shows("closed-mark")
def test_any_byte_of_the_last_record_changed_never_shows_a_message_that_was_not_put(closed_store):
    root, receipts = closed_store
    last = receipts[-1]

    for place in part(range(last.physical_offset, last.end_offset)):
        for change in (0x01, 0xFF):
            copy, file = _copy(root, f"{place}-{change}")
            data = bytearray(file.read_bytes())
            data[place] ^= change
            file.write_bytes(data)
            with reput.open(copy, "r", plugins=[], disk=QuickDisk()) as store:
                assert _messages(store) == _expected()[:2], place
            with reput.open(copy, plugins=[], disk=QuickDisk()) as store:
                assert _messages(store) == _expected()[:2], place
                assert store.recovery.finding is not None
            kept = copy / "reput" / "lost+found" / file_name(last.physical_offset)
            assert kept.read_bytes() == bytes(data[last.physical_offset :]).rstrip(b"\0")
            shutil.rmtree(copy)


def test_after_a_crash_a_changed_byte_is_a_message_less_or_shows_in_the_message(closed_store):
    # Without a close record nothing covers the header: what the body's checksum, the lengths and
    # the record's own offset do not catch is returned, as RocketMQ returns it. It must still be
    # whole.
    root, receipts = closed_store
    last = receipts[-1]
    dropped = set()

    for place in part(range(last.physical_offset, last.end_offset)):
        copy, file = _copy(root, place)
        data = bytearray(file.read_bytes())
        data[place] ^= 0x40
        file.write_bytes(data)
        (copy / "abort").write_text("1")
        with reput.open(copy, plugins=[], disk=QuickDisk()) as store:
            found = _messages(store)
        assert found[:2] == _expected()[:2]
        dropped.update({place - last.physical_offset} if len(found) == 2 else ())
        assert len(found) == 2 or found[2][3] == b"the last one"
        shutil.rmtree(copy)
    # size, magic and crc, own offset, length of the body and body at the least
    covered = {*range(12), *range(28, 36), *range(84, 88 + len(b"the last one"))}
    tried = {*part(range(last.size))}
    assert covered & tried <= dropped


def test_with_record_checksums_a_changed_byte_after_a_crash_is_noticed_too(tmp_path):
    root = tmp_path / "closed"
    config = {"commitlog": {**CONFIG["commitlog"], "record_crc": True}}
    with reput.open(root, plugins=[], config=config) as store:
        receipts = [store.put(message) for message in SENT]
        whole = _messages(store)
    last = receipts[-1]
    checksum_name = last.end_offset - 20

    for place in part(range(last.physical_offset, checksum_name)):
        copy, file = _copy(root, place)
        data = bytearray(file.read_bytes())
        data[place] ^= 0x40
        file.write_bytes(data)
        (copy / "abort").write_text("1")
        with reput.open(copy, "r", plugins=[], disk=QuickDisk()) as store:
            assert _messages(store) == whole[:2], place
        shutil.rmtree(copy)


def test_stale_records_behind_the_end_do_not_come_back(tmp_path):
    with reput.open(tmp_path, plugins=[], config=AS_ROCKETMQ) as store:
        receipts = [store.put(reput.Message("T", b"%d" % n)) for n in range(5)]
    file = tmp_path / "commitlog" / file_name(0)
    data = bytearray(file.read_bytes())
    data[receipts[2].physical_offset + 4] ^= 0xFF  # the third record is lost, two whole ones follow
    file.write_bytes(data)
    (tmp_path / "abort").write_text("1")

    with reput.open(tmp_path, plugins=[]) as store:
        store.put(reput.Message("T", b"2"))  # ends exactly where the stale fourth record begins
        store.put(reput.Message("T", b"new"))
    with reput.open(tmp_path, "r", plugins=[]) as store:
        bodies = [batch.message(row).body for batch in store.scan() for row in range(len(batch))]

    assert bodies == [b"0", b"1", b"2", b"new"]


@pytest.mark.shows("closed-mark")
def test_a_store_that_another_writer_went_on_with_is_read_to_its_new_end(closed_store):
    root, _ = closed_store
    shutil.copytree(root / "reput", root.parent / "own")
    with reput.open(root, plugins=[]) as store:
        store.put(reput.Message("T", b"more", 0))
    # What the other writer does not know is as it was: our close record and progress are stale.
    shutil.rmtree(root / "reput")
    shutil.move(root.parent / "own", root / "reput")

    with reput.open(root, "r", plugins=[]) as store:
        assert [message[3] for message in _messages(store)] == [
            b"first",
            b"second",
            b"the last one",
            b"more",
        ]


@pytest.mark.sizes(commitlog={"window_size": 4096})
def test_a_record_in_the_middle_that_ends_in_a_zero_byte_is_no_torn_one(tmp_path):
    config = {"commitlog": {"file_size": 1 << 16}}
    with reput.open(tmp_path, plugins=[], config=config) as store:
        for number in range(200):
            store.put(reput.Message("T", b"%d" % number, properties=b"a\x01b\x02"))
    file = tmp_path / "commitlog" / file_name(0)
    file.write_bytes(file.read_bytes().replace(b"a\x01b\x02", b"a\x01b\x00"))
    (tmp_path / "abort").write_text("1")

    with reput.open(tmp_path, plugins=[]) as store:
        assert store.recovery.message_count == 200
        assert len(_messages(store)) == 199  # the last one may be torn, those before it are not


def test_a_property_text_that_ends_in_a_zero_byte_is_not_written(tmp_path):
    with reput.open(tmp_path, plugins=[], config=CONFIG) as store:
        with pytest.raises(ValueError, match="zero byte"):
            store.put(reput.Message("T", properties=b"a\x01b\x00"))


def test_a_store_whose_queues_nobody_kept_is_left_for_rocketmq_to_look_at(tmp_path):
    with reput.open(tmp_path, plugins=[], config=CONFIG) as store:
        store.put(reput.Message("T", b"x"))
    assert b"closed" in (tmp_path / "abort").read_bytes()

    with reput.open(tmp_path, plugins=[]) as store:
        assert store.clean
        assert store.recovery.message_count == 0


def test_another_state_of_the_log_put_back_from_a_copy_is_read_to_its_own_end(tmp_path):
    store_path, copy = tmp_path / "store", tmp_path / "copy"
    with reput.open(store_path, plugins=[], config=CONFIG) as store:
        store.put(reput.Message("T", b"shared"))
    shutil.copytree(store_path, copy)
    with reput.open(store_path, plugins=[]) as store:
        store.put(reput.Message("T", b"here, and long enough to end elsewhere"))
    with reput.open(copy, plugins=[]) as store:
        store.put(reput.Message("T", b"there"))
        store.put(reput.Message("T", b"and there"))
    shutil.rmtree(store_path / "commitlog")
    shutil.copytree(copy / "commitlog", store_path / "commitlog")

    with reput.open(store_path, plugins=[]) as store:
        assert store.recovery.finding is None
        assert [message[3] for message in _messages(store)] == [b"shared", b"there", b"and there"]


def test_a_reader_whose_end_was_trimmed_away_goes_on_where_the_log_begins(tmp_path):
    with reput.open(tmp_path, plugins=[], config=CONFIG) as store:
        store.put(reput.Message("T", b"old"))
        with reput.open(tmp_path, "r", plugins=[]) as reader:
            assert reader.log.max_physical_offset == store.log.max_physical_offset
            for number in range(40):
                store.put(reput.Message("T", b"%d" % number * 50))
            store.log.files.trim(3 * 1024)

            assert reader.log.max_physical_offset == store.log.max_physical_offset
            assert reader.log.min_physical_offset == 3 * 1024
            assert len(_messages(reader)) == len(_messages(store)) > 0
