"""``reput convert``: plain stores from directories with DLedger and with RocksDB."""

from __future__ import annotations

import gzip
import json
import os
import shutil
import sys
import zlib

import pytest
from brokerdirectories import GOLDEN, HARMLESS, MARKED, filled, snapshot, unpacked
from commands import Outcome, commands
from dledgerlog import DLedgerLog
from jsonkeys import forms_of, keys_of

import reput
from reput.files import Disk
from reput_tools.doctor.convert.convertrun import convert as run_convert
from reput_tools.doctor.repair.unfinishedstore import Mark, begin
from reput_tools.offline import read_consumer_offsets

STORES = [
    "dledger/4.9.7",
    "dledger/5.3.3",
    "dledger/5.3.3-mixed",
    "dledger/5.5.0-killed",
    "rocketmq-5.5.0/rocksdb-queues",
]
GROUP = {0: 43, 1: 52, 2: 42, 3: 66}
"""Offsets of CG1 in ``orders`` that the broker noted in RocksDB."""
FIELDS = ("queue_id", "born_timestamp", "store_timestamp", "sys_flag", "flag", "reconsume_times")


def run(*arguments: object, code: int = 0) -> Outcome:
    """Run a command that ends with an exit code."""
    with commands() as call:
        outcome = call(*map(str, arguments))
    assert outcome.code == code, outcome
    return outcome


def moved_offsets(target):
    """Return the new physical offset of each old one that changed; checks the ids."""
    lines = (target / "reput" / "moved-ids.tsv").read_text().splitlines()
    assert lines[0].split("\t") == [
        "old_id",
        "new_id",
        "old_physical_offset",
        "new_physical_offset",
    ]
    found = {}
    for old_id, new_id, old, new in (line.split("\t") for line in lines[1:]):
        assert (int(old_id[-16:], 16), int(new_id[-16:], 16)) == (int(old), int(new))
        assert old_id[:-16] == new_id[:-16]
        found[int(old)] = int(new)
    return found


def committed(root, group="CG1", topic="orders"):
    """Return the offsets of the group, by queue."""
    problems = []
    found = read_consumer_offsets(str(root), Disk().at(str(root)), problems.append)
    assert not problems
    return {
        each.queue_id: each.queue_offset
        for each in found
        if (each.group, each.topic) == (group, topic)
    }


def records_of(root):
    with reput.open(root, "r", plugins=()) as store:
        return [batch.record(row) for batch in store.log.scan() for row in range(len(batch))]


@pytest.mark.proof
@pytest.mark.parametrize("case", STORES)
@pytest.mark.costly
def test_a_plain_store_answers_what_the_broker_answered(case, tmp_path):
    if "rocksdb" in case:
        pytest.importorskip("rocksdict")
    root, target = unpacked(case, tmp_path), tmp_path / "new"
    with gzip.open(GOLDEN / case / "expected.jsonl.gz", "rt") as file:
        rows = [json.loads(line) for line in file]
    group = GROUP
    if "dledger" in case:
        ends = [row for row in rows if row["kind"] == "queue" and row["topic"] == "orders"]
        group = {row["queue_id"]: row["max_offset"] // 2 for row in ends}
        text = json.dumps({"offsetTable": {"orders@CG1": group}})
        (root / "config" / "consumerOffset.json").write_text(text)
    before = snapshot(root)
    waiting = {name: run(name, root, "--json").json for name in ("transactions", "schedule")}

    done = run("convert", root, target, "--json", code=7 if "killed" in case else 0).json

    declared = forms_of("convert")[""]
    assert keys_of([done], declared) == declared.keys()
    assert snapshot(root) == before
    moved = moved_offsets(target)
    assert len(moved) == done["moved_count"]
    assert bool(moved) == ("dledger" in case)
    verified = run("verify", target, "--json").json
    assert (verified["healthy"], verified["counts"]) == (True, {})
    with reput.open(target, "r") as store:
        for row in (row for row in rows if row["kind"] == "message"):
            (message,) = store.read(
                row["topic"], row["queue_id"], row["queue_offset"], max_count=1
            ).messages
            offset = moved.get(row["physical_offset"], row["physical_offset"])
            assert message.physical_offset == offset
            assert message.body.hex() == row["body"] or message.sys_flag & 1
            assert [getattr(message, name) for name in FIELDS] == [row[name] for name in FIELDS]
            assert (
                row["properties"].items()
                >= {
                    name: value
                    for name, value in message.properties.items()
                    if name in ("TAGS", "n")
                }.items()
            )
            half = row["prepared_transaction_offset"]
            assert message.prepared_transaction_offset == moved.get(half, half)
        for row in (row for row in rows if row["kind"] == "query"):
            found = [
                each.physical_offset for each in store.query(row["topic"], row["key"], limit=64)
            ]
            assert {moved.get(each, each) for each in row["physical_offsets"]} <= set(found)
    assert committed(target) == group
    for name in ("topics.json", "subscriptionGroup.json", "delayOffset.json"):
        config = root / "config" / name
        if config.exists():
            assert (target / "config" / name).read_bytes() == config.read_bytes()
    now = {name: run(name, target, "--json").json for name in waiting}
    old, new = waiting["transactions"]["transactions"], now["transactions"]["transactions"]
    assert new
    assert now["schedule"]["levels"]
    assert now["schedule"]["levels"] == waiting["schedule"]["levels"]
    assert [(each["id"], each["half_queue_offset"], each["physical_offset"]) for each in new] == [
        (
            each["id"],
            each["half_queue_offset"],
            moved.get(each["physical_offset"], each["physical_offset"]),
        )
        for each in old
    ]
    lines = run("consume", target, "CG1", "orders", "--json").lines
    starts = {}
    for line in lines:
        starts.setdefault(line["queue_id"], line["queue_offset"])
    assert starts == group


def ledger_of(tmp_path, records):
    """A directory of DLedger with these records."""
    log = DLedgerLog(tmp_path / "ledger")
    for record in records:
        log.append(record)
    return log.write()


@pytest.fixture
def log(tmp_path):
    """A log of DLedger with files that end in padding."""
    with reput.open(tmp_path / "plain", plugins=(), threads=False) as store:
        for number in range(80):
            store.put(reput.Message("orders", b"%d" % number * 200, properties={"n": str(number)}))
    return ledger_of(tmp_path, records_of(tmp_path / "plain"))


def signed(record, at, half):
    """Return a record with other offsets, and the checksum of all of its bytes."""
    record = (
        record[:28] + at.to_bytes(8, "big") + record[36:76] + half.to_bytes(8, "big") + record[84:]
    )
    digits = f"{zlib.crc32(record[:-20]) & 0x7FFFFFFF:010d}"[::-1]
    return record[:-11] + digits.encode() + b"\x02"


def test_stated_offsets_and_checksums_are_those_of_the_new_place(tmp_path):
    with reput.open(
        tmp_path / "plain", plugins=(), threads=False, config={"commitlog": {"record_crc": True}}
    ) as store:
        halves = [
            store.put(reput.Message("RMQ_SYS_TRANS_HALF_TOPIC", b"half")).physical_offset
            for _ in range(2)
        ]
        gone = 50  # between two records
        for half in (*reversed(halves), gone):
            store.put(reput.Message("orders", b"end", prepared_transaction_offset=half))
    records = records_of(tmp_path / "plain")
    at, moved = 0, []
    for record in records:
        half = int.from_bytes(record[76:84], "big")
        half += 48 * (halves.index(half) + 1) if half in halves and record is not records[0] else 0
        moved.append(signed(record, at + 48, half))
        at += 48 + len(record)
    ledger = ledger_of(tmp_path, moved)

    done = run_convert(ledger.root, tmp_path / "new")

    assert done.moved_count == len(records)
    assert [record[28:36] for record in records_of(tmp_path / "new")] == [
        record[28:36] for record in records
    ]
    with reput.open(tmp_path / "new", "r", plugins=()) as store:
        found = [
            each
            for batch in store.log.scan(check_crc=True)
            for each in map(batch.message, range(len(batch)))
        ]
        assert [each.prepared_transaction_offset for each in found[2:]] == [*reversed(halves), 0]
        assert all(each.record_matches() for each in found)


def test_damaged_entries_are_named_and_the_others_kept(log, tmp_path):
    log.spoil(log.offsets[40] + 100, b"?")

    done = run("convert", log.root, tmp_path / "new", "--json", code=8).json

    assert (done["message_count"], len(done["lost"])) == (79, 1)
    assert str(log.entries[40]) in done["lost"][0]
    with reput.open(tmp_path / "new", "r") as store:
        found = [each.queue_offset for each in store.read("orders", 0, 0, max_count=100).messages]
        found += [each.queue_offset for each in store.read("orders", 0, 41, max_count=100).messages]
    assert set(found) == {*range(80)} - {40}


def test_entries_that_a_group_has_not_committed_are_left_out(log, tmp_path):
    log.write(committed=9, leader="n1")

    done = run("convert", log.root, tmp_path / "new", code=7)

    assert "not committed" in done.out
    assert len(records_of(tmp_path / "new")) == 10


def test_an_interrupted_conversion_is_done_again_by_the_same_command_only(log, tmp_path):
    mark = Mark(source=str(log.root), target=str(tmp_path / "new"), command="convert")
    _, staging = begin(mark)
    (tmp_path / "new" / "unfinished").read_text().index(f"reput convert {log.root}")
    os.mkdir(os.path.join(staging, "commitlog"))

    assert "not finished" in run("info", tmp_path / "new", code=3).err
    run("repair", tmp_path / "plain", tmp_path / "new", code=5)
    run("convert", log.root, tmp_path / "new")

    assert len(records_of(tmp_path / "new")) == 80
    assert (
        "name a new or an empty directory" in run("convert", log.root, tmp_path / "new", code=5).err
    )


def with_timers(root):
    (root / "timerlog").mkdir()
    (root / "reput").mkdir()


def with_compacted(root):
    (root / "compaction" / "compactionLog").mkdir(parents=True)


@pytest.mark.parametrize("add", [with_timers, with_compacted])
def test_files_that_state_physical_offsets_are_not_taken_over(log, tmp_path, add):
    add(log.root)

    outcome = run("convert", log.root, tmp_path / "new", code=5)

    assert "physical offsets" in outcome.err
    assert not (tmp_path / "new" / "commitlog").exists()


def test_files_beside_the_log_and_offsets_of_no_compacted_topic_are_copied(log, tmp_path):
    (log.root / "notes").mkdir()
    (log.root / "notes" / "today.txt").write_text("a broker of tomorrow")
    (log.root / "compaction").mkdir()
    for name in ("position-checkpoint", "position-checkpoint.bak"):
        (log.root / "compaction" / name).write_text('{"topicOffsetTable":{}}')

    run("convert", log.root, tmp_path / "new")

    assert len(records_of(tmp_path / "new")) == 80
    assert (tmp_path / "new/notes/today.txt").read_text() == "a broker of tomorrow"
    assert (tmp_path / "new/compaction/position-checkpoint.bak").exists()


def test_other_directories_are_refused_and_nothing_is_made(tmp_path):
    batches = unpacked("rocketmq-5.5.0/batch-queues", tmp_path)
    strays = unpacked("rocketmq-5.5.0/batch-queues", tmp_path / "without")
    (strays / "config/topics.json").unlink()
    plain = filled(tmp_path / "plain")
    timers = filled(tmp_path / "timers")
    MARKED["timers in RocksDB's log"][1](timers)
    later = filled(tmp_path / "later")
    HARMLESS["settings in RocksDB"](later)
    (later / "config" / "rdb").rename(later / "config" / "later")

    assert "queue.type=BatchCQ" in run("convert", strays, tmp_path / "new", code=6).err
    assert "batch queues" in run("convert", batches, tmp_path / "new", code=5).err
    assert "a plain store" in run("convert", plain, tmp_path / "new", code=5).err
    assert "timers" in run("convert", timers, tmp_path / "new", code=6).err
    assert "config/later" in run("convert", later, tmp_path / "new", code=5).err
    assert not (tmp_path / "new").exists()


def test_settings_in_rocksdb_need_its_package_or_are_left_out(tmp_path, monkeypatch):
    root = unpacked("rocketmq-5.5.0/rocksdb-queues", tmp_path)
    monkeypatch.setitem(sys.modules, "rocksdict", None)

    outcome = run("convert", root, tmp_path / "new", code=5)
    run("convert", root, tmp_path / "new", "--without-settings")

    assert "[rocksdb]" in outcome.err
    assert not (tmp_path / "new" / "config" / "topics.json").exists()
    assert len(records_of(tmp_path / "new")) == 506


@pytest.mark.parametrize("case", ["settings-v2", "settings-single"])
@pytest.mark.costly
def test_settings_of_one_database_are_taken_along(case, tmp_path):
    pytest.importorskip("rocksdict")
    root, target = unpacked(f"rocketmq-5.5.0/{case}", tmp_path), tmp_path / "new"
    before = snapshot(root)
    groups = run("groups", root, "--json").json["groups"]

    done = run("convert", root, target, code=0 if case == "settings-v2" else 7)

    # The topic "gone" was deleted and created again.
    other = "gone/0: queue offsets 0 to 3 in RocksDB, and 0 to 6 in plain files"
    assert (other in done.out) == (case != "settings-v2")
    assert snapshot(root) == before
    assert {each["group"]: each["lag"] for each in groups}.items() >= {
        "billing": 30,
        "stock": 36,
    }.items()
    assert run("groups", target, "--json").json["groups"] == groups
    assert committed(target, "stock", "orders") == {0: 20, 1: 20, 2: 20}
    topics = json.loads((target / "config" / "topics.json").read_bytes())["topicConfigTable"]
    assert topics["payments"]["attributes"] == {"message.type": "NORMAL"}
    assert not (target / "config" / "rdb").exists()
    assert not (target / "config" / "metadata").exists()


@pytest.mark.parametrize(
    ("stated", "extents", "reason"),
    [
        ([0, 1, 0, 1, 2], "0 to 3 in RocksDB, and 0 to 3 in plain files", "old messages"),
        ([0, 1, 2, 5, 6], "0 to 7 in RocksDB, and 0 to 5 in plain files", "log lacks messages"),
    ],
)
def test_queues_that_differ_from_those_in_rocksdb_are_named(stated, extents, reason, tmp_path):
    root = tmp_path / "store"
    with reput.open(root, plugins=(), threads=False) as store:
        starts = [
            store.put(reput.Message("T", b"%d" % n, queue_id=0)).physical_offset for n in range(5)
        ]
    shutil.rmtree(root / "reput")
    with open(next((root / "commitlog").iterdir()), "r+b") as file:
        for start, queue_offset in zip(starts, stated, strict=True):
            file.seek(start + 20)
            file.write(queue_offset.to_bytes(8, "big"))
    (root / "consumequeue_rocksdb").mkdir()
    (root / "consumequeue_rocksdb" / "CURRENT").write_bytes(b"MANIFEST-000005")

    (problem,) = run("convert", root, tmp_path / "new", "--json", code=7).json["problems"]

    assert problem.startswith(f"T/0: queue offsets {extents}; ")
    assert reason in problem


@pytest.mark.parametrize("damage", ["unknown", "unreadable"])
def test_settings_that_cannot_be_read_end_the_conversion(tmp_path, damage):
    pytest.importorskip("rocksdict")
    root = unpacked("rocketmq-5.5.0/rocksdb-queues", tmp_path)
    if damage == "unknown":
        shutil.copytree(root / "config" / "topics", root / "config" / "rdb")
    else:
        (root / "config" / "topics" / "CURRENT").write_bytes(b"?")

    assert str(root / "config") in run("convert", root, tmp_path / "new", code=5).err
