"""Logs that DLedger writes: the same records, each in an entry of its own."""

from __future__ import annotations

import struct

import pytest
from dledgerlog import DLedgerLog
from hypothesis import given, settings
from hypothesis import strategies as st
from sparkstores import fill, messages_of

import reput
from reput_arrow.logs.logplace import LEDGER
from reput_spark import ReadOptions, SparkReputError
from reput_spark.reader.tasks import find_logs, plan_tasks, read_task
from reput_spark.source.schema import arrow_schema, spark_schema

FILE_SIZE = 16_384
COLUMNS = ["physical_offset", "msg_id", "body", "topic", "queue_offset", "keys", "size"]
SCHEMA = arrow_schema(spark_schema(COLUMNS))


class Messages(list):
    """A list that Hypothesis can show beside an example that fails."""

    def __repr__(self):
        return f"<{len(self)} messages>"


@pytest.fixture(scope="module")
def messages(plain_store):
    return Messages(messages_of(plain_store))


@pytest.fixture
def ledger(tmp_path, messages):
    return written(tmp_path / "store", messages)


def written(root, messages, **options):
    """A log of DLedger with the records of messages."""
    made = DLedgerLog(root, **options)
    for message in messages:
        made.append(message.record)
    return made.write()


def rows_of(path, **options):
    parsed = ReadOptions.parse({"path": str(path), **options})
    return [
        row
        for task in plan_tasks(parsed)
        for batch in read_task(task, parsed, SCHEMA)
        for row in batch.to_pylist()
    ]


def offsets(path, **options):
    return [row["physical_offset"] for row in rows_of(path, **options)]


@pytest.mark.parametrize("where", ["store", "store/dledger-n0", "store/dledger-n0/data", "."])
def test_messages_of_a_ledger_are_found_with_the_offsets_that_they_state(
    where, ledger, messages, tmp_path
):
    rows = rows_of(tmp_path / where)

    assert [row["physical_offset"] for row in rows] == ledger.offsets
    assert [row["msg_id"][-16:] for row in rows] == [f"{each:016X}" for each in ledger.offsets]
    for row, message in zip(rows, messages, strict=True):
        assert row["msg_id"][:-16] == message.msg_id[:-16]
        for name in ("body", "topic", "queue_offset", "size"):
            assert row[name] == getattr(message, name)
        assert row["keys"] == list(message.keys)


def test_one_file_of_a_ledger_is_read_alone(ledger):
    wanted = [each for each in ledger.offsets if FILE_SIZE <= each < 2 * FILE_SIZE]

    assert offsets(ledger.directory / f"{FILE_SIZE:020d}") == wanted


@settings(deadline=None, max_examples=30)
@given(data=st.data())
def test_any_range_of_offsets(data, ledger_of_all):
    low = data.draw(st.integers(0, ledger_of_all.position))
    high = data.draw(st.integers(0, ledger_of_all.position))
    rows = data.draw(st.sampled_from(["1", "100"]))

    limits = {"min_offset": str(low), "max_offset": str(high)}
    found = offsets(ledger_of_all.directory, **limits, batch_rows=rows)

    assert found == [each for each in ledger_of_all.offsets if low <= each < high]


@pytest.fixture(scope="module")
def ledger_of_all(tmp_path_factory, messages):
    return written(tmp_path_factory.mktemp("ledger"), messages, base=FILE_SIZE * 7)


def test_small_splits_are_all_of_it_once(tmp_path, messages):
    made = written(tmp_path, messages * 8, file_size=1 << 20)
    options = ReadOptions.parse({"path": str(tmp_path), "split_size": "65536"})

    assert len(plan_tasks(options)) > 10
    assert offsets(tmp_path, split_size="65536") == made.offsets


def test_an_entry_larger_than_a_window_is_one_row(tmp_path, messages):
    with reput.open(tmp_path / "large", plugins=()) as store:
        store.put(reput.Message("T", b"x" * ((4 << 20) - 1_000)))
    (large,) = messages_of(tmp_path / "large")
    made = written(tmp_path / "store", [messages[1], large, messages[2]], file_size=16 << 20)

    rows = rows_of(made.directory)

    assert [len(row["body"]) for row in rows] == [
        len(messages[1].body), len(large.body), len(messages[2].body)
    ]  # fmt: skip
    assert [row["physical_offset"] for row in rows] == made.offsets


@pytest.mark.parametrize("committed", [-1, 0, 57, 300])
def test_a_node_that_is_not_the_leader_shows_what_is_committed(tmp_path, messages, committed):
    made = written(tmp_path, messages)

    made.write(committed)
    own = offsets(tmp_path)
    made.write(committed, leader="n1")
    other = offsets(tmp_path)

    assert own == made.offsets
    assert other == made.offsets[: committed + 1]


def test_the_log_from_before_the_ledger_is_read_with_it(tmp_path, messages):
    fill(tmp_path, 20)
    before = [message.physical_offset for message in messages_of(tmp_path)]
    made = written(tmp_path, messages, base=FILE_SIZE)

    places = find_logs([str(tmp_path)])

    assert [place.kind for place in places] == ["commitlog", LEDGER]
    assert {place.store for place in places} == {str(tmp_path)}
    assert offsets(tmp_path) == before + made.offsets


# --------------------------------------------------------------------------- damage


def test_a_torn_entry_at_the_end_ends_the_log(tmp_path, messages):
    made = written(tmp_path, messages[:10]).write(committed=8)
    last = made.entries[-1]

    made.spoil(last + 100, bytes(made.position - last - 100))
    torn = offsets(tmp_path)
    made.spoil(last, bytes(48))

    assert torn == offsets(tmp_path) == made.offsets[:-1]


@pytest.mark.parametrize(
    ("at", "data"),
    [
        (0, b"\x00\x00\x00\x09"),  # magic
        (0, bytes(8)),
        (4, b"\x00\x00\x00\x05"),  # size
        (4, b"\x7f\x00\x00\x00"),
        (24, b"\x01"),  # position
        (44, b"\x7f"),  # body size
        (48 + 4, b"\xff"),  # magic of the record
        (48 + 28, b"\xff"),  # its own offset
    ],
)
def test_a_damaged_entry_is_told_or_left_out(ledger, messages, at, data):
    ledger.spoil(ledger.entries[100] + at, data)

    with pytest.raises(SparkReputError, match=r"\[REPUT_DAMAGED\]"):
        offsets(ledger.directory)
    found = offsets(ledger.directory, corrupt="skip")

    assert found == [each for each in ledger.offsets if each != ledger.offsets[100]]


def test_a_record_that_does_not_match_its_checksum_is_noticed(ledger):
    ledger.spoil(ledger.offsets[101] + 88, b"\xff\xff")

    assert offsets(ledger.directory) == ledger.offsets
    with pytest.raises(SparkReputError, match="checksum"):
        offsets(ledger.directory, check_crc="true")
    found = offsets(ledger.directory, check_crc="true", corrupt="skip")
    assert found == [each for each in ledger.offsets if each != ledger.offsets[101]]


def test_damage_in_front_of_what_is_committed_does_not_end_the_log(tmp_path, messages):
    made = written(tmp_path, messages[:30])
    assert made.position < FILE_SIZE
    made.spoil(made.entries[10], b"\xff" * 48)

    with pytest.raises(SparkReputError, match="REPUT_DAMAGED"):
        offsets(tmp_path)
    found = offsets(tmp_path, corrupt="skip")
    assert found == [*made.offsets[:10], *made.offsets[11:]]


def test_a_forged_entry_in_a_body_does_not_become_rows(tmp_path, messages):
    made = written(tmp_path / "store", messages * 5, file_size=1 << 20)
    # The body begins behind the heads of entry and record, and says that an entry begins there.
    at = made.position + 48 + 88
    inner = messages[3].record
    inner = inner[:28] + struct.pack(">q", at + 48) + inner[36:]
    head = struct.pack(">iiqqqiiii", 1, 48 + len(inner), 7, 9, at, 0, 0, 0, len(inner))
    with reput.open(tmp_path / "forger", plugins=()) as store:
        store.put(reput.Message("T", head + inner + bytes(2_000)))
    (record,) = messages_of(tmp_path / "forger")
    for each in [record, *messages, *messages]:
        made.append(each.record)
    made.write()
    size = str(at - 20)
    options = ReadOptions.parse({"path": str(made.directory), "split_size": size})
    assert plan_tasks(options)[1].split.start_offset == at

    with pytest.raises(SparkReputError, match="REPUT_DAMAGED"):
        offsets(made.directory, split_size=size)
    assert offsets(made.directory, split_size="file") == made.offsets
    assert offsets(made.directory, split_size=size, corrupt="skip") == made.offsets


@settings(deadline=None, max_examples=100)
@given(at=st.integers(0, 1 << 16), spoiled=st.binary(min_size=1, max_size=60))
def test_any_damage_loses_no_entry_but_those_that_it_hits(at, spoiled, tmp_path_factory, messages):
    made = written(tmp_path_factory.mktemp("spoiled"), messages[1:24], file_size=4_096)
    at %= made.position
    spoiled = spoiled[: made.file_size - at % made.file_size]
    made.spoil(at, spoiled)

    found = offsets(made.directory, corrupt="skip")

    hit = {
        offset
        for offset, end in zip(made.offsets, [*made.entries[1:], made.position], strict=True)
        if offset - 48 < at + len(spoiled) and at < end
    }
    assert set(made.offsets) - hit <= set(found)
    assert found == sorted(found)
