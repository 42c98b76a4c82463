"""`reput verify` on stores that RocketMQ wrote: sound ones have no finding, a changed byte has."""

from __future__ import annotations

import shutil
import struct

import pytest
from verifiedstores import bad, checked, flip, kinds

from reput_tools.doctor.findings import Severity

SOUND = ["basic", "slow", "v6", "batch", "transaction", "demo", "trimmed", "delay", "ext"]


@pytest.mark.parametrize("case", SOUND)
def test_a_sound_store_has_no_finding(case, golden_store, golden_rows):
    report = checked(golden_store(case), deep=True)

    assert report.findings == ()
    assert report.is_healthy
    assert report.exit_code == 0
    assert report.checked.plugins == ["consumequeue", "index"]
    (log,) = golden_rows(case, "log")
    size = log["max_physical_offset"] - log["min_physical_offset"]
    assert report.checked.log_bytes == size


@pytest.mark.parametrize("without", ["", "rocksdbstore", "commitlog/00000000000000000000"])
def test_a_sound_store_of_release_5_5_has_no_finding(without, golden_store):
    """Its index has items of tags; also where only they say so, and without the log's head."""
    root = golden_store("../rocketmq-5.5.0/default")
    if without.startswith("commitlog"):
        (root / without).unlink()
    elif without:
        shutil.rmtree(root / without)

    report = checked(root, deep=True)

    assert report.findings == ()
    assert report.exit_code == 0
    assert report.checked.plugins == ["consumequeue", "index"]


def test_what_is_not_compared_is_said(golden_store):
    reasons = {case: checked(golden_store(case)).not_checked for case in ("trimmed", "ext")}

    assert any("oldest files were removed" in each.reason for each in reasons["trimmed"])
    assert any("bit maps" in each.reason for each in reasons["ext"])
    assert all(any(each.part == "schedule" for each in parts) for parts in reasons.values())


@pytest.mark.parametrize(
    ("case", "found"),
    [
        ("crash-clean-tail", []),
        ("crash-no-derived", []),
        ("crash-bit-flip", ["log.body-crc"]),
        ("crash-torn-record", ["log.length-mismatch"]),
        ("crash-torn-properties", ["log.torn"]),
        ("crash-garbage-tail", ["log.bad-magic"]),
        ("crash-log-behind-queues", ["consumequeue.beyond-log", "index.beyond-log"]),
    ],
)
def test_a_store_after_a_crash_is_told_apart_from_a_damaged_one(case, found, golden_store):
    report = checked(golden_store(case))

    assert kinds(report) == found
    assert report.exit_code == (8 if found else 0)
    assert report.counts["store.not-closed"] == 1


def test_a_crash_that_left_no_derived_files_is_only_unfinished(golden_store):
    report = checked(golden_store("crash-no-derived"))

    assert report.counts == {
        "store.not-closed": 1,
        "consumequeue.unfinished": 12,
        "index.unfinished": 1,
    }
    messages = [each for each in report.findings if each.kind == "consumequeue.unfinished"]
    assert sum(each.message_count for each in messages) == 500


def test_messages_that_only_queues_know_are_named(golden_store):
    """The last twenty records are zeros; the queues were written."""
    report = checked(golden_store("crash-log-behind-queues"))

    lost = [each for each in report.findings if each.kind == "consumequeue.beyond-log"]

    assert sum(each.message_count for each in lost) == 20
    assert all(
        message.physical_offset >= report.checked.log_bytes
        for each in lost
        for message in each.messages
    )


def one(report):
    (found,) = bad(report)
    return found


def test_changed_bytes_of_units_are_named_with_their_messages(golden_store, golden_rows):
    root = golden_store("basic")
    path = root / "consumequeue" / "orders" / "1" / f"{0:020d}"
    bytes_of = {3: 7, 9: 11, 20: 19}
    for unit, byte in bytes_of.items():
        flip(path, unit * 20 + byte)

    found = {each.messages[0].queue_offset: each for each in bad(checked(root))}

    (queue,) = [
        row
        for row in golden_rows("basic", "queue")
        if (row["topic"], row["queue_id"]) == ("orders", 1)
    ]
    assert found.keys() == bytes_of.keys()
    for unit, each in found.items():
        offset, size, tags = queue["units"][unit]
        assert each.kind == "consumequeue.unit"
        assert each.severity is Severity.DAMAGE
        assert each.file == str(path.relative_to(root))
        assert each.position == unit * 20 + bytes_of[unit]
        expected = f"unit {unit}: physical offset {offset}, size {size}, tags code {tags}"
        assert each.expected == expected != each.found
        (message,) = each.messages
        assert (message.topic, message.queue_id) == ("orders", 1)
        assert message.physical_offset == offset
        assert "reput rebuild" in each.advice


HEADER = [
    "begin_timestamp",
    "end_timestamp",
    "begin_physical_offset",
    "end_physical_offset",
    "used_slot_count",
    "next_item",
]


def test_a_changed_byte_of_each_field_of_an_index_header_is_named(golden_store):
    root = golden_store("basic")
    files = sorted((root / "index").iterdir())
    places = [7, 15, 23, 31, 35, 39]
    for path, position in zip(files, places, strict=False):
        flip(path, position)

    found = {each.file: each for each in bad(checked(root))}

    assert len(files) >= len(places)
    for path, position, name in zip(files, places, HEADER, strict=False):
        each = found[f"index/{path.name}"]
        assert (each.kind, each.position) == ("index.header", position)
        assert each.found.startswith(name)
        assert each.expected.startswith(name)


@pytest.mark.costly
def test_a_changed_slot_is_named_with_the_messages_of_its_chain(golden_store):
    root = golden_store("basic")
    path = sorted((root / "index").iterdir())[2]
    data = path.read_bytes()
    slot, item = next(
        (number, value)
        for number in range(50)
        if (value := struct.unpack_from(">i", data, 40 + 4 * number)[0])
    )
    flip(path, 40 + 4 * slot + 3, 0x01)

    found = one(checked(root))

    assert (found.kind, found.position) == ("index.slot", 40 + 4 * slot + 3)
    assert found.expected == f"slot {slot}: item {item}"
    chain = []
    while item:
        _, offset, _, item = struct.unpack_from(">iqii", data, 40 + 200 + 20 * item)
        chain.append(offset)
    assert [each.physical_offset for each in found.messages] == chain
    assert found.message_count == len(set(chain))
    assert all(each.key for each in found.messages)


def test_changed_items_are_named_with_their_messages_and_keys(golden_store, golden_rows):
    root = golden_store("basic")
    path = sorted((root / "index").iterdir())[2]
    places = {}
    for item, byte in ((5, 3), (25, 11), (45, 15), (65, 19)):
        position = 40 + 200 + 20 * item
        key_hash, offset, *_ = struct.unpack_from(">iqii", path.read_bytes(), position)
        places[position + byte] = key_hash, offset
        flip(path, position + byte)

    found = {each.position: each for each in bad(checked(root))}

    assert found.keys() == places.keys()
    for position, (key_hash, offset) in places.items():
        assert found[position].kind == "index.item"
        assert f"key hash {key_hash}, physical offset {offset}" in found[position].expected
        (message,) = found[position].messages
        put = next(row for row in golden_rows("basic", "put") if row["physical_offset"] == offset)
        assert (message.topic, message.queue_id) == (put["topic"], put["queue_id"])
        assert message.queue_offset == put["queue_offset"]
        assert message.key in put["properties"]


def test_bytes_in_unused_space_are_named_too(golden_store):
    root = golden_store("basic")
    queue = sorted((root / "consumequeue" / "orders" / "1").iterdir())[-1]
    index = max((root / "index").iterdir())
    flip(queue, len(queue.read_bytes()) - 1)
    flip(index, len(index.read_bytes()) - 1)

    found = {each.file: each.position for each in bad(checked(root))}

    assert found == {
        str(queue.relative_to(root)): 1_999,
        f"index/{index.name}": len(index.read_bytes()) - 1,
    }


@pytest.mark.costly
def test_all_damage_of_one_file_is_listed(golden_store):
    root = golden_store("demo")
    queue = sorted((root / "consumequeue").rglob(f"{0:020d}"))[0]
    index = min((root / "index").iterdir())
    for unit in (3, 500, 700):
        flip(queue, unit * 20 + 7)
    for item in (5, 900, 40_000):
        flip(index, 40 + 4 * 20_000 + 20 * item + 11)

    report = checked(root)

    assert report.counts == {"consumequeue.unit": 3, "index.item": 3}
    places = [each.position for each in report.findings if each.kind == "consumequeue.unit"]
    assert places == [unit * 20 + 7 for unit in (3, 500, 700)]


@pytest.mark.parametrize("byte", [7, 19])
def test_units_and_items_of_a_log_without_its_head_are_compared(byte, golden_store):
    root = golden_store("trimmed")
    queue = sorted((root / "consumequeue" / "orders" / "0").iterdir())[-1]
    data = queue.read_bytes()
    last = max(at for at in range(0, len(data), 20) if any(data[at : at + 20]))
    index = max((root / "index").iterdir())
    items = struct.unpack_from(">i", index.read_bytes(), 36)[0] - 1
    item = 40 + 200 + 20 * items
    flip(queue, last + byte)
    flip(index, item + byte)

    found = {each.kind: each for each in bad(checked(root))}

    assert found["consumequeue.unit"].position == last + byte
    assert item <= found["index.item"].position <= item + byte
    assert found["index.item"].messages[0].topic


def test_a_missing_and_a_foreign_derived_file_are_named(golden_store):
    root = golden_store("basic")
    queue = root / "consumequeue" / "orders" / "1" / f"{0:020d}"
    queue.unlink()
    index = sorted((root / "index").iterdir())
    (root / "index" / "20991231235959000").write_bytes(index[0].read_bytes())

    found = {each.kind: each for each in bad(checked(root))}

    assert found["consumequeue.missing"].file == str(queue.relative_to(root))
    assert found["consumequeue.missing"].message_count == 100
    assert found["index.extra"].severity is Severity.DAMAGE


@pytest.mark.costly
def test_a_file_missing_in_the_middle_and_a_stray_one_keep_nothing_from_being_compared(
    golden_store,
):
    root = golden_store("demo")
    queues = {}
    for path in sorted((root / "consumequeue").rglob("0*")):
        if path.is_file():
            queues.setdefault(path.parent, []).append(path)
    one, other, *_ = queues.values()
    size = one[0].stat().st_size
    (one[0].parent / f"{5 * size:020d}").write_bytes(bytes(size))  # four are missing before it
    stray = one[0].parent / f"{10_000 * size + 7:020d}"
    stray.write_bytes(bytes(size))
    flip(other[0], 7)

    found = bad(checked(root))

    assert [(each.kind, each.file) for each in found] == [
        ("consumequeue.stray", str(stray.relative_to(root))),
        ("consumequeue.unit", str(other[0].relative_to(root))),
    ]
