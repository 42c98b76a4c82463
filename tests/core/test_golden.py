"""Logs that RocketMQ 4.8 wrote, read record by record and compared with what it said itself."""

from __future__ import annotations

import ipaddress

import numpy as np
import pytest

import reput
from reput.record.encoding.encoder import Encoder
from reput.record.messageids import pack_host

CASES = ["demo", "basic", "slow", "v6", "batch", "transaction", "trimmed", "delay", "ext"]
WITH_PUTS = ["basic", "slow", "v6", "transaction", "delay", "ext"]


def _expanded(text):
    """Java prints IPv6 addresses without shortening them."""
    address, _, port = text.removeprefix("/").rpartition(":")
    return str(ipaddress.ip_address(address.strip("[]"))), int(port)


@pytest.mark.parametrize("case", CASES)
def test_the_log_reaches_as_far_as_java_says(case, golden_store, golden_rows):
    (row,) = golden_rows(case, "log")

    with reput.open(golden_store(case), "r", plugins=[]) as store:
        assert store.log.min_physical_offset == row["min_physical_offset"]
        assert store.log.max_physical_offset == row["max_physical_offset"]
        assert store.recovery.finding is None
        assert store.clean


@pytest.mark.parametrize("case", CASES)
def test_every_record_is_sound_and_none_is_left_out(case, golden_store, golden_rows):
    (row,) = golden_rows(case, "log")
    config = golden_rows(case, "config")[0]

    with reput.open(golden_store(case), "r", plugins=[]) as store:
        position, count = store.log.min_physical_offset, 0
        for batch in store.scan(check_crc=True):
            assert batch.finding is None
            gaps = np.flatnonzero(np.diff(batch.physical_offset) != batch.size[:-1])
            assert len(gaps) == 0  # nothing between two records of a batch
            if batch.start_offset != position:  # a blank led to the next file
                assert batch.start_offset % config["commitlog_file_size"] == 0
            position = batch.end_offset
            count += len(batch)

        assert position == row["max_physical_offset"]
        assert case != "demo" or count == 60_000


@pytest.mark.parametrize("case", WITH_PUTS)
def test_every_record_decodes_to_what_was_put(case, golden_store, golden_rows):
    rows = {row["physical_offset"]: row for row in golden_rows(case, "put")}
    assert rows

    seen = 0
    with reput.open(golden_store(case), "r", plugins=[]) as store:
        for batch in store.scan(check_crc=True):
            for index, offset in enumerate(batch.physical_offset.tolist()):
                row = rows.get(offset)
                if row is None:
                    assert case == "delay"  # delivered copies were not put by the test program
                    continue
                seen += 1
                _compare(batch, index, row, case)

    assert seen == len(rows)


def _compare(batch, index, row, case):
    view = batch.message(index)
    assert (view.topic, view.queue_id) == (row["topic"], row["queue_id"])
    assert batch.topics[batch.topic_code[index]] == row["topic"]
    for name in (
        "queue_offset",
        "size",
        "sys_flag",
        "flag",
        "store_timestamp",
        "born_timestamp",
        "reconsume_times",
        "prepared_transaction_offset",
        "body_crc",
    ):
        assert getattr(view, name) == row[name], name
        assert int(batch.column(name)[index]) == row[name], name
    assert view.body.hex() == row["body"]
    assert view.properties_text.decode() == row["properties"]
    assert (view.tags or None) == (row["tags"] or None)
    assert view.unique_key == row["uniq_key"]
    assert batch.text("UNIQ_KEY")[index] == row["uniq_key"]
    assert " ".join(view.keys) == (row["keys"] or "")
    if row["topic"] != "SCHEDULE_TOPIC_XXXX":  # there Java says the deliver time instead
        assert int(batch.tags_code[index]) == view.tags_code == row["tags_code"]
    assert view.born_host == _expanded(row["born_host"])
    assert view.store_host == _expanded(row["store_host"])
    assert view.msg_id == row["msg_id"]
    assert view.body_matches()


@pytest.mark.parametrize("case", CASES)
def test_encoding_again_gives_the_same_bytes(case, golden_store):
    encoders = {}
    count = 0

    with reput.open(golden_store(case), "r", plugins=[]) as store:
        for batch in store.scan():
            rows = range(0, len(batch), 50) if case == "demo" else range(len(batch))
            for index in rows:
                view = batch.message(index)
                encoder = encoders.setdefault(view.store_host, Encoder(pack_host(*view.store_host)))
                again = encoder.encode(
                    view.to_message(), view.queue_offset, view.physical_offset, view.store_timestamp
                )
                assert again == view.record
                count += 1

    assert count > 300


@pytest.mark.parametrize("case", ["batch"])
def test_batches_hold_the_records_that_java_counted(case, golden_store, golden_rows):
    with reput.open(golden_store(case), "r", plugins=[]) as store:
        for row in golden_rows(case, "batch"):
            offset, ids = row["physical_offset"], []
            for number in range(row["count"]):
                view = store.get(offset)
                assert (view.topic, view.queue_id) == (row["topic"], row["queue_id"])
                assert view.queue_offset == row["queue_offset"] + number
                ids.append(view.msg_id)
                offset += view.size
            assert offset == row["physical_offset"] + row["size"]
            assert ",".join(ids) == row["msg_id"]


@pytest.mark.parametrize("case", ["basic", "v6"])
def test_a_message_is_found_by_its_id(case, golden_store, golden_rows):
    with reput.open(golden_store(case), "r", plugins=[]) as store:
        for row in golden_rows(case, "put"):
            assert store.get(row["msg_id"]).body.hex() == row["body"]


def test_the_queue_offsets_counted_from_the_log_are_where_java_would_go_on(
    golden_store, golden_rows
):
    expected = {
        (row["topic"], row["queue_id"]): row["max_offset"]
        for row in golden_rows("transaction", "queue")
        if row["max_offset"]
    }

    with reput.open(golden_store("transaction"), plugins=[]) as store:
        assert store.log.queue_offsets == expected
