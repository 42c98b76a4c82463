"""Rows of tables without Spark: queues and their marks, and the records of a trace."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

import reput
from reput_arrow.logs.discovery import find_logs
from reput_arrow.tables import queuesurvey
from reput_arrow.tables.messagetrace import TRACE_COLUMNS, records_of
from reput_arrow.tables.queuesurvey import Survey

CONFIG = {"commitlog": {"file_size": 65_536}}
NAMES = [each.split(" ")[0] for each in TRACE_COLUMNS.split(", ")]


def fill(root, count, queues=2, **options):
    clock = iter(range(1_000, 1_000_000))
    with reput.open(root, config=CONFIG, clock=lambda: next(clock), **options) as store:
        for number in range(count):
            store.put(reput.Message("T", b"%d" % number, queue_id=number % queues))


def survey_of(root, marks=()):
    (place,) = find_logs([str(root)])
    return Survey(place, marks).make()


@pytest.fixture
def scanned(monkeypatch):
    """Where scans of the log began."""
    starts = []
    opened = queuesurvey.open_log

    def noted(place, end):
        log = opened(place, end)
        scan = log.scan
        log.scan = lambda start: (starts.append(start), scan(start))[1]
        return log

    monkeypatch.setattr(queuesurvey, "open_log", noted)
    return starts


def test_whole_queues_answer_without_the_log(tmp_path, scanned):
    pytest.importorskip("reput_consumequeue")
    fill(tmp_path, 40, plugins=("consumequeue",))
    marks = [("T", 0, 7), ("T", 1, 20), ("T", 5, 0)]

    found = survey_of(tmp_path, marks)

    with reput.open(tmp_path, "r", plugins=()) as store:
        assert scanned == [store.log.max_physical_offset]
        times = [m.store_timestamp for m in map(store.log.read_message, offsets_in(store))]
    assert {
        key: (each.min_queue_offset, each.max_queue_offset) for key, each in found.spans.items()
    } == {
        ("T", 0): (0, 20),
        ("T", 1): (0, 20),
    }
    assert found.waiting == {("T", 0, 7): times[14]}
    assert found.spans["T", 0].first_timestamp == times[0]
    assert found.spans["T", 1].last_timestamp == times[39]


def offsets_in(store):
    return [int(each) for batch in store.scan() for each in batch.physical_offset]


@pytest.mark.parametrize("damage", ["none", "cut", "garbage"])
def test_without_sound_queues_the_log_answers_the_same(tmp_path, scanned, damage):
    pytest.importorskip("reput_consumequeue")
    fill(tmp_path, 40, plugins=("consumequeue",))
    marks = [("T", 0, 7), ("T", 1, 19)]
    expected = survey_of(tmp_path, marks)
    for path in (tmp_path / "consumequeue" / "T").glob("*/*"):
        if damage == "none":
            path.unlink()
        elif damage == "cut":
            path.write_bytes(path.read_bytes()[:33])
        else:
            path.write_bytes(b"\7" * 400)

    found = survey_of(tmp_path, marks)

    assert (found.spans, found.waiting) == (expected.spans, expected.waiting)


def joined(*records):
    return "".join("\1".join(record) + "\2" for record in records).encode()


def test_records_of_each_kind():
    body = joined(
        [
            *("Pub", "1700000000000", "region", "shop", "orders", "ID1", "paid", "k1 k2"),
            *("10.0.0.1:10911", "42", "7", "1", "OID", "true", "10.0.0.2"),
        ],
        ["SubBefore", "1700000000001", "null", "billing", "R1", "ID1", "2", "k1", "10.0.0.3"],
        ["SubAfter", "R1", "ID1", "15", "false", "k1", "2", "1700000000002", "billing"],
        [
            *("EndTransaction", "1700000000003", "region", "shop", "orders", "ID1", "", "k1"),
            *("10.0.0.1:10911", "2", "TX", "COMMIT_MESSAGE", "true"),
        ],
        ["Recall", "1700000000004", "region", "shop", "orders", "ID1", "true"],
    )

    sent, before, after, end, recall = records_of(body)

    assert sent == {
        "kind": "Pub",
        "timestamp": 1_700_000_000_000,
        "region": "region",
        "group": "shop",
        "topic": "orders",
        "msg_id": "ID1",
        "tags": "paid",
        "keys": "k1 k2",
        "store_host": "10.0.0.1:10911",
        "body_size": 42,
        "cost_ms": 7,
        "message_type": "half",
        "offset_msg_id": "OID",
        "is_success": True,
        "client_host": "10.0.0.2",
    }
    assert (before["region"], before["request_id"], before["retry_times"]) == (None, "R1", 2)
    assert (after["cost_ms"], after["is_success"], after["context_code"]) == (15, False, 2)
    assert (after["timestamp"], after["group"]) == (1_700_000_000_002, "billing")
    assert (end["message_type"], end["transaction_state"]) == ("committed", "COMMIT_MESSAGE")
    assert (end["tags"], end["from_check"]) == (None, True)
    assert (recall["topic"], recall["is_success"]) == ("orders", True)


def test_records_of_earlier_clients_are_shorter():
    head = ["Pub", "1", "r", "g", "t", "id", "null", "null", "h", "1", "2", "0"]

    oldest, older = records_of(joined([*head, "true"], [*head, "OID", "false"]))
    (cloud,) = records_of(joined(["SubAfter", "R", "ID", "3", "true", "k", "0", ""]))

    assert (oldest["is_success"], oldest.get("offset_msg_id")) == (True, None)
    assert (older["is_success"], older["offset_msg_id"]) == (False, "OID")
    assert (cloud["context_code"], cloud["timestamp"]) == (0, None)


@given(
    st.one_of(
        st.binary(max_size=200),
        st.lists(
            st.lists(st.sampled_from(["Pub", "SubAfter", "1", "-", "9" * 30, "null", "é", ""])),
            max_size=4,
        ).map(lambda records: joined(*records)),
    )
)
def test_any_body_gives_rows_that_fit_their_columns(body):
    from reput_arrow.tables.tablebatch import batch_of

    rows = records_of(body)

    made = batch_of(rows, TRACE_COLUMNS)
    assert made.num_rows == len(rows)
    assert all(set(row) <= set(NAMES) for row in rows)
