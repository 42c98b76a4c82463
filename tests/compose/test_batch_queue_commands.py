"""Every command that reads shows the messages of batch queues, as the broker's client got them."""

from __future__ import annotations

import gzip
import json

import pytest
from brokerdirectories import GOLDEN, unpacked
from commands import commands

import reput

CASE = "rocketmq-5.5.0/batch-queues"


def rows(text):
    return [json.loads(line) for line in text.splitlines()]


@pytest.fixture(params=["broker's", "reput's"])
def root(request, tmp_path):
    """The directory as the broker left it, and after an opening for writing."""
    made = unpacked(CASE, tmp_path)
    if request.param == "reput's":
        with reput.open(made, "w", plugins=["consumequeue", "index"]) as store:
            store.wait_dispatched()
    return made


@pytest.fixture(scope="module")
def expected():
    with gzip.open(GOLDEN / CASE / "expected.jsonl.gz", "rt") as lines:
        found = [json.loads(line) for line in lines]
    return {
        (row["topic"], row["queue_id"], row["queue_offset"]): bytes.fromhex(row["body"]).decode()
        for row in found
        if row["kind"] == "message"
    }


def places(found):
    return {(each["topic"], each["queue_id"], each["queue_offset"]): each["body"] for each in found}


def test_messages_are_shown_one_by_one(root, expected, tmp_path):
    with commands() as run:
        by_queue, by_log = (
            [
                row
                for topic in ("orders", "payments")
                for row in rows(run("cat", root, topic, "--json", *options).out)
            ]
            for options in ((), ("--scan",))
        )
        found = rows(run("grep", root, "once", "--json").out)
        asked = run(
            "sql", root, "select topic, queue_id, queue_offset, body from messages", "--json"
        )
        run("export", root, tmp_path / "out", "--format=jsonl", "--partition-by=none", "-j1")
        one = run(
            "sql",
            root,
            "-t",
            "orders",
            "select count(*) as c from messages where queue_id=1",
            "--json",
        )

    assert places(by_queue) == places(by_log) == expected
    assert len(by_queue) == len(by_log) == len(expected)
    assert places(found) == {key: body for key, body in expected.items() if "once" in body}
    assert places(rows(asked.out)).keys() == expected.keys()
    exported = "".join(path.read_text() for path in (tmp_path / "out").rglob("*.jsonl"))
    assert places(rows(exported)) == expected
    assert rows(one.out) == [{"c": sum(key[:2] == ("orders", 1) for key in expected)}]


def test_counts_are_of_messages_and_the_store_is_healthy(root, expected):
    with commands() as run:
        info, scanned = (
            json.loads(run("info", root, "--json", *each).out) for each in ((), ("--scan",))
        )
        report = json.loads(run("report", root, "--json").out)
        groups = json.loads(run("groups", root, "--json").out)["groups"]
        verified = run("verify", root, "--json")

    count = sum(topic == "orders" for topic, *_ in expected)
    for each in (info, scanned):
        assert each["problems"] == []
        assert sum(topic["message_count"] for topic in each["topics"]) == len(expected)
    assert report["message_count"] == len(expected)
    assert next(each for each in groups if each["group"] == "CG1")["lag"] == count
    assert verified.code == 0
    assert json.loads(verified.out)["findings"] == []


def test_an_offset_at_the_end_of_a_batch_is_in_its_queue(root, expected, tmp_path):
    queues = {each[:2] for each in expected}
    ends = {each: sum(each == found[:2] for found in expected) for each in queues}
    table = {}
    for (topic, queue_id), end in ends.items():
        table.setdefault(f"{topic}@billing", {})[str(queue_id)] = end
    path = root / "config" / "consumerOffset.json"
    path.write_text(json.dumps({"offsetTable": table}))

    log = min((root / "commitlog").iterdir())
    with commands() as run:
        verified = json.loads(run("verify", root, "--json").out)
        log.write_bytes(log.read_bytes().replace(b"once", b"oNce", 1))
        run("repair", root, tmp_path / "new")

    assert verified["findings"] == []
    kept = json.loads((tmp_path / "new" / "config" / "consumerOffset.json").read_text())
    assert kept["offsetTable"] == table


def test_a_batch_is_one_record_where_a_place_in_the_log_is_asked_for(root):
    with commands() as run:
        found = run("get", root, "--offset", 29617, "--json")
        shown = rows(run(*found.err.split("`")[1].split()[1:], "--json").out)

    assert json.loads(found.out)["properties"]["INNER_NUM"] == "8"
    assert [each["queue_offset"] for each in shown] == list(range(4, 12))
