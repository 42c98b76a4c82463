"""The stores that the script leaves: records of the log, and the broker's files."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from plaindecoder import decode
from sameanswers import batching
from sameanswers.comparing import record_parts

from reput_client.remoting import parse_body

_ENDED = "RMQ_SYS_TRANS_OP_HALF_TOPIC"
"""Notes of ended transactions: here at once, there together and up to three seconds later."""
_DIFFERENT = {"late", "readonly", "closed"}
"""Topics of `sameanswers.sending.differ`."""
_TIMES = ("born_host", "store_timestamp", "/order of properties", "/where", "/start")
_OF_BATCHES = ("/size", *(f"/properties/{name}" for name in batching.ADDED))
"""Parts of a message of a batch that differ in brokers before 5.4."""
_TABLES = {
    "topics.json": "topicConfigTable",
    "subscriptionGroup.json": "subscriptionGroupTable",
    "consumerOffset.json": "offsetTable",
    "delayOffset.json": "offsetTable",
}
_NOT_HERE = ("rmq_sys_", "CID_", "g" * 256, "a/b", "%RETRY%a/b", "orders@a/b")
"""Beginnings of names: of what is absent here, and of groups whose names are refused."""
_BUILT_IN = {
    "topics.json": {
        "BenchmarkTest", "OFFSET_MOVED_EVENT", "RMQ_SYS_TRANS_HALF_TOPIC", "SELF_TEST_TOPIC",
        "RMQ_SYS_TRANS_OP_HALF_TOPIC", "SCHEDULE_TOPIC_XXXX", "TBW102", "broker-a", "reput",
        "reput_REPLY_TOPIC", "none", "odd",
    },
    "subscriptionGroup.json": {"FILTERSRV_CONSUMER", "SELF_TEST_C_GROUP", "TOOLS_CONSUMER", ""},
}  # fmt: skip
"""What is written there at the start, and here known without; and what is refused here."""
_SETTINGS_NOT_KEPT = {("silent", "notifyConsumerIdsChangedEnable")}
"""See `sameanswers.allowed.ABSENT`."""


def differing_records(theirs: Path, ours: Path) -> list[str]:
    """What differs in two logs.

    Up to where a first transaction has ended they are the same byte by byte, but for times, ports
    of clients and the order of properties; behind that, the records of each queue are the same.
    """
    left, right = _records(theirs), _records(ours)
    found = [
        f"record {at}: {what}"
        for at, (one, other) in enumerate(zip(_beginning(left), _beginning(right), strict=False))
        for what in _differing(_parts(one), _parts(other))
    ]
    if len(_beginning(left)) < 50:
        found.append("fewer than 50 records before the first transaction's end")
    queues, others = _by_queue(left), _by_queue(right)
    for key in sorted({*queues, *others}):
        found += [f"{key}: {what}" for what in _differing(queues[key], others[key])]
    return found


def differing_files(theirs: Path, ours: Path) -> list[str]:
    """What differs in the broker's files, but for what is listed."""
    found = []
    for name, table in _TABLES.items():
        one, other = (_table(store / "config" / name, table) for store in (theirs, ours))
        found += [f"{name}: {what}" for what in _differing(one, other)]
    return found


def _records(store: Path) -> list[dict[str, Any]]:
    files = sorted((store / "commitlog").iterdir())
    return [
        record for path in files for record in decode(path.read_bytes(), int(path.name))
    ]  # each file ends where the next one begins


def _beginning(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    topics = [record["topic"].decode() for record in records]
    ended = {_ENDED, *_DIFFERENT}
    return records[: next((at for at, topic in enumerate(topics) if topic in ended), None)]


def _by_queue(records: list[dict[str, Any]]) -> dict[tuple[str, int], dict[str, object]]:
    """The parts of each queue's records that do not tell of places."""
    found: dict[tuple[str, int], dict[str, object]] = defaultdict(dict)
    for record in records:
        topic = record["topic"].decode()
        if topic == _ENDED or _DIFFERENT & {topic, _real_topic(record)}:
            continue
        parts = _parts(record)
        at = record["queue_offset"]
        found[topic, record["queue_id"]] |= {
            f"{at}: {name}": value
            for name, value in parts.items()
            if name not in ("r/physical_offset", "r/prepared_transaction_offset")
        }
    return found


def _real_topic(record: Mapping[str, Any]) -> str:
    for pair in record["properties"].split(b"\2"):
        name, _, value = pair.partition(b"\1")
        if name == b"REAL_TOPIC":
            return str(value.decode())
    return ""


def _parts(record: dict[str, Any]) -> dict[str, object]:
    of_batch = _OF_BATCHES if record["body"] in batching.BODIES else ()
    return {
        name: value
        for name, value in record_parts(record, "r")
        if not name.endswith((*_TIMES, *of_batch)) and "/TIMER_" not in name
    }


def _table(path: Path, member: str) -> dict[str, object]:
    document = parse_body(path.read_bytes(), path.name)
    left_out = _BUILT_IN.get(path.name, set())
    return {
        f"{name}/{key}": value
        for name, entry in document[member].items()
        if name not in left_out and not name.startswith(_NOT_HERE)
        for key, value in (entry.items() if isinstance(entry, dict) else [("", entry)])
        if (name, key) not in _SETTINGS_NOT_KEPT
        and (member != "offsetTable" or value != 0)  # 0 is written, or left out
    }


def _differing(one: Mapping[str, object], other: Mapping[str, object]) -> Iterator[str]:
    for name in sorted({*one, *other}, key=str):
        if one.get(name) != other.get(name):
            yield f"{name}: {one.get(name)!r} theirs, {other.get(name)!r} ours"
