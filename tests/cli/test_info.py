from __future__ import annotations

import json
import os
import re

import pytest
from statefiles import state_of

import reput
from reput.record.layout import HEADER_DTYPE
from reput.storefiles import MANIFEST
from reput_tools.cli.kit.exitcodes import ExitCode

pytestmark = pytest.mark.shows("repair")


def by_queue(document):
    return {
        (topic["topic"], queue["queue_id"]): (queue["min_queue_offset"], queue["max_queue_offset"])
        for topic in document["topics"]
        for queue in topic["queues"]
    }


@pytest.mark.parametrize("case", ["basic", "v6", "batch", "transaction", "ext"])
def test_a_scan_counts_what_java_counted(run, golden_store, golden_rows, case) -> None:
    path = golden_store(case)

    outcome = run("info", path, "--scan", "--json")

    assert outcome.code == ExitCode.OK
    assert by_queue(outcome.json) == {
        (row["topic"], row["queue_id"]): (row["min_offset"], row["max_offset"])
        for row in golden_rows(case, "queue")
        if row["max_offset"]
    }


def test_the_log_is_as_java_left_it(run, golden_store, golden_rows) -> None:
    path = golden_store("basic")
    (row,) = golden_rows("basic", "log")

    document = run("info", path, "--scan", "--json").json

    assert document["path"] == str(path)
    assert document["written_by"] == "rocketmq"
    assert document["clean"] is True
    assert document["finding"] is None
    assert document["log"]["min_physical_offset"] == row["min_physical_offset"]
    assert document["log"]["max_physical_offset"] == row["max_physical_offset"]
    assert document["log"]["file_size"] == 65536
    puts = golden_rows("basic", "put")
    assert document["log"]["first_store_timestamp"] == puts[0]["store_timestamp"]
    assert document["log"]["last_store_timestamp"] == puts[-1]["store_timestamp"]


def test_people_wait_for_no_report_that_is_not_shown(run, tmp_path, monkeypatch) -> None:
    consumer = pytest.importorskip("reput_consumer").ConsumerPlugin
    retention = pytest.importorskip("reput_retention").RetentionPlugin
    reput.open(tmp_path, plugins=["consumer", "retention"]).close()
    asked = []
    for each in (consumer, retention):

        def report(self):
            asked.append(type(self))
            raise RuntimeError("not known")

        monkeypatch.setattr(each, "reput_report", reput.hookimpl(report))

    outcome = run("info", tmp_path)

    assert outcome.code == ExitCode.OK
    assert "old files" not in outcome.out
    assert asked == [retention]


def test_people_see_facts_and_topics(run, plain_store) -> None:
    path = plain_store(reput.Message("orders", b"x"), reput.Message("orders", b"y", queue_id=1))

    outcome = run("info", path, "--scan")

    assert outcome.code == ExitCode.OK
    assert f"Store {path}\n" in outcome.out
    assert "2 in 1 topic, 2 queues" in outcome.out
    assert "damage" in outcome.out
    topic = next(line for line in outcome.out.splitlines() if line.startswith("orders"))
    assert topic.split()[1:5] == ["2", "2", "0", "1"]


def test_a_scan_shows_a_negative_queue_id_as_it_stands_and_credits_no_other_topic(
    run, plain_store
) -> None:
    path = plain_store(*(reput.Message(topic, b"x") for topic in ("orders", "paid", "sent")))
    with reput.open(path, mode="r") as store:
        paid = next(store.scan()).message(1).physical_offset
    with open(path / "commitlog" / f"{0:020d}", "r+b") as file:
        file.seek(paid + HEADER_DTYPE.fields["queue_id"][1])
        file.write((-2).to_bytes(4, signed=True))

    document = run("info", path, "--scan", "--json").json

    assert by_queue(document) == {
        ("orders", 0): (0, 1),
        ("paid", -2): (0, 1),
        ("sent", 0): (0, 1),
    }


def test_every_queue_is_shown_when_asked_for(run, plain_store) -> None:
    path = plain_store(*(reput.Message("orders", b"x", queue_id=each) for each in (0, 1, 1)))

    outcome = run("info", path, "--scan", "--queues")

    rows = [line.split()[:5] for line in outcome.out.splitlines() if line.startswith("orders")]
    assert rows == [["orders", "0", "0", "1", "1"], ["orders", "1", "0", "2", "2"]]


def test_one_topic_is_shown_when_asked_for(run, plain_store) -> None:
    path = plain_store(reput.Message("orders", b"x"), reput.Message("audit", b"y"))

    document = run("info", path, "--scan", "--topic", "audit", "--json").json

    assert [topic["topic"] for topic in document["topics"]] == ["audit"]


def test_without_a_plugin_that_lists_queues_all_else_is_shown(run, plain_store) -> None:
    path = plain_store(reput.Message("orders", b"x"))

    outcome = run("info", path, "--json")

    assert outcome.code == ExitCode.OK
    assert outcome.json["topics"] is None
    assert outcome.json["log"]["max_physical_offset"] > 0
    assert "--scan" in outcome.err


def test_damage_inside_the_log_is_found_by_a_scan_and_ends_with_its_code(run, plain_store) -> None:
    path = plain_store(*(reput.Message("orders", b"body %d" % each) for each in range(2000)))
    first = path / "commitlog" / ("0" * 20)
    bytes_of = bytearray(first.read_bytes())
    for number in (5, 70, 71):
        bytes_of[bytes_of.index(b"body %d\x06orders" % number)] ^= 1
    first.write_bytes(bytes_of)

    outcome = run("info", path, "--scan", "--json")
    people = run("info", path, "--scan")
    quick = run("info", path)

    assert outcome.code == people.code == ExitCode.DAMAGED
    damages = outcome.json["damages"]
    assert [(each["reason"], each["queue_offset"]) for each in damages] == [
        ("BODY_CRC", 5),
        ("BODY_CRC", 70),
        ("BODY_CRC", 71),
    ]
    assert all(each["file"] == str(first) and each["detail"] for each in damages)
    assert outcome.json["finding"]["physical_offset"] == damages[0]["physical_offset"]
    assert outcome.json["topics"][0]["message_count"] == 1997  # those behind it, too
    for each in damages:
        assert f"orders/0@{each['queue_offset']}" in people.out
    assert "in 3 places" in people.out
    # The end alone was looked at, and nothing else is said.
    assert quick.code == ExitCode.OK
    assert "none at the log's end; --scan looks at all of it" in quick.out


def test_a_store_that_is_being_written_says_by_whom(run, plain_store) -> None:
    path = plain_store(reput.Message("orders", b"x"))

    with reput.open(path, plugins=[]):
        document = run("info", path, "--json").json

    assert document["clean"] is False
    assert document["abort_file"] is True
    assert document["writer_pid"] == os.getpid()


def snapshot(path):
    return {
        each.relative_to(path): (each.stat().st_mtime_ns, each.is_file() and each.read_bytes())
        for each in path.rglob("*")
    }


def test_reading_commands_change_nothing_in_a_store_that_java_left_open(run, golden_store) -> None:
    path = golden_store("basic")
    (path / "abort").touch()
    before = snapshot(path)

    codes = [
        run("info", path, "--scan").code,
        run("cat", path, "orders", "--scan", "--json").code,
        run("get", path, "--offset", 0).code,
        run("plugins", path).code,
    ]

    assert codes == [ExitCode.OK] * 4
    assert snapshot(path) == before


def test_json_is_utf8_and_whole_whatever_the_topics_are_called(run, plain_store) -> None:
    path = plain_store(reput.Message("%RETRY%group|a", b"x"))

    outcome = run("info", path, "--scan", "--json")

    assert json.loads(outcome.raw.decode("utf-8"))["topics"][0]["topic"] == "%RETRY%group|a"


def test_the_state_file_is_shown_entry_by_entry(run, plugin_store) -> None:
    path = plugin_store("notes")
    with reput.open(path, mode="r") as store:
        end = store.log.max_physical_offset

    shown = run("info", path, "--state").out
    state = run("info", path, "--state", "--json").json["state"]
    kept = (path / "reput" / "state").read_bytes()
    (path / "reput" / "state").write_bytes(bytes(len(kept)))
    damaged = run("info", path, "--state")

    entries = {entry["name"]: entry for entry in state["entries"]}
    assert entries.keys() == {".log", ".head", ".manifest", "notes", "notes/state"}
    assert [each["name"] for each in state["journal"]] == [".manifest"]
    assert entries[".manifest"]["manifest"]["plugins"] == ["notes"]
    assert [entries[name]["physical_offset"] for name in (".log", "notes")] == [end, end]
    assert entries[".log"]["closed"] is not None
    assert entries["notes/state"]["record"]["state"] == "running"
    assert max(entry["changed"] for entry in state["entries"]) == state["sequence"]
    for name in entries:
        assert f"  {name} " in shown
    assert "damaged" in damaged.out
    assert run("info", path, "--json").json["state"] is None


@pytest.mark.parametrize("text", [b"{", b"\xff", b"[" * 100_000, b"[1]", b"{}", b'{"plugins":1}'])
def test_plugins_that_cannot_be_read_are_shown_as_such(run, plugin_store, text) -> None:
    path = plugin_store("notes")
    state_of(path).note_everywhere({MANIFEST: text}, {})

    shown = run("info", path, "--state")
    entries = run("info", path, "--state", "--json").json["state"]["entries"]

    assert re.search(r"\.manifest +cannot be read\n", shown.out)
    found = {each["name"]: each for each in entries}[".manifest"]["manifest"]
    assert found == (json.loads(text) if text.startswith(b"{") and len(text) > 1 else None)


def test_messages_after_the_end_of_the_log_are_counted_as_lost(golden_store, run, tmp_path):
    pytest.importorskip("reput_consumequeue")
    root = golden_store("crash-log-behind-queues")

    assert run("info", root, "--json").json["losses"]["message_count"] == 20
    assert " (20 lost) in " in run("info", root).out
    run("repair", root, tmp_path / "repaired")
    # Offsets of lost messages are given again, but not in a repaired store.
    for path, queue_offset in ((root, 45), (tmp_path / "repaired", 47)):
        with reput.open(path) as store:
            receipt = store.put(reput.Message("audit-log_1", b"later", 0))
        assert receipt.queue_offset == queue_offset
        assert run("info", path, "--json").json["losses"]["message_count"] == 20
