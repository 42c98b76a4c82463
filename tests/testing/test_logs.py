"""A small log is what a store would have written, and can be cut like one."""

from __future__ import annotations

import struct
import zlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import reput
from reput.log import LogView
from reput.record import Message, java_text
from reput.record.layout import TRANSACTION_COMMIT, TRANSACTION_PREPARED, TRANSACTION_ROLLBACK
from reput_testing import ManualClock, SmallLog, sample_log
from reput_testing.logs import strategies


def reader_of(log: SmallLog) -> LogView:
    return log  # checked by mypy and by the test below


def test_a_record_is_laid_out_as_the_format_says():
    log = SmallLog(store_timestamp=1_000)

    log.append(Message("T", b"body", queue_id=3, tags="a", flag=7, born_timestamp=5), after_ms=23)

    host = bytes([127, 0, 0, 1]) + (10_911).to_bytes(4, "big")
    properties = b"TAGS\x01a\x02"
    assert log.read(0, 1_000) == struct.pack(
        ">iIiiiqqiq8sq8siqi4sB1sh7s",
        91 + 4 + 1 + len(properties),
        0xDAA320A7,
        zlib.crc32(b"body") & 0x7FFFFFFF,
        3,  # queue id
        7,  # flag
        0,  # queue offset
        0,  # physical offset
        0,  # system flag
        5,  # born
        host,
        1_023,  # stored
        host,
        0,
        0,
        4,
        b"body",
        1,
        b"T",
        len(properties),
        properties,
    )


def test_every_member_of_the_protocol_is_there():
    log = SmallLog()

    members = [name for name in vars(LogView) if not name.startswith("_")]

    assert [name for name in members if not hasattr(log, name)] == []


def test_queue_offsets_count_what_can_be_seen():
    flags = [0, TRANSACTION_PREPARED, TRANSACTION_COMMIT, TRANSACTION_ROLLBACK, 0]

    log = SmallLog.of(Message("T", sys_flag=flag) for flag in flags)

    assert [view.queue_offset for view in log.messages()] == [0, 0, 1, 0, 2]


@settings(max_examples=30, deadline=None)
@given(strategies.logs(), st.data())
def test_batches_hold_all_records_wherever_they_are_cut(log, data):
    cuts = data.draw(strategies.cuts(log))

    batches = [(b.physical_offset.tolist(), b.end_offset) for b in log.batches(cuts=cuts)]

    assert [offset for offsets, _ in batches for offset in offsets] == log.starts
    assert {log.starts[cut] for cut in cuts if cut < len(log.starts)} <= {
        offsets[0] for offsets, _ in batches
    }
    assert not batches or batches[-1][1] >= log.max_physical_offset


@settings(max_examples=30, deadline=None)
@given(strategies.logs(min_size=1), st.data())
def test_a_batch_begins_at_any_record(log, data):
    number = data.draw(st.integers(0, len(log) - 1))

    (batch, *_) = [b.physical_offset.tolist() for b in log.batches(log.starts[number])]

    assert batch == log.starts[number : number + len(batch)]


def test_a_batch_cannot_be_written_and_is_garbage_afterwards():
    log = sample_log()
    batches = log.batches(cuts={1})
    batch = next(batches)
    topic = batch.topics[0]

    with pytest.raises(ValueError, match="read-only"):
        batch.window[0] = 1
    assert batch.body.sizes.tolist() == [0]
    next(batches)

    assert set(batch.window.tolist()) == {0xDD}
    assert topic == "orders"


def test_a_batch_that_closes_a_file_ends_in_the_next_one():
    log = SmallLog(512)
    log.append(Message("T", b"x" * 300))
    log.roll()
    log.append(Message("T"))

    ends = [batch.end_offset for batch in log.batches()]

    assert ends == [512, log.max_physical_offset]


def test_a_scan_keeps_to_its_bounds():
    log = sample_log()
    start, end = log.starts[5], log.starts[60]

    offsets = [
        offset for batch in log.scan(start, end) for offset in batch.physical_offset.tolist()
    ]

    assert offsets == log.starts[5:60]


def test_a_cut_log_goes_on_as_if_the_rest_had_never_been():
    log = SmallLog.of(Message("T", sys_flag=flag) for flag in (0, TRANSACTION_PREPARED, 0, 0))

    shorter = log.first(3)
    offset = shorter.append(Message("T"))

    assert offset == log.starts[3]
    assert [view.queue_offset for view in shorter.messages()] == [0, 0, 1, 2]
    assert len(log.first(0)) == 0
    assert len(log) == 4


def test_a_trimmed_log_has_lost_its_first_files_and_nothing_else():
    log = sample_log()
    before = list(log.messages())

    assert log.trim(2) == 2 * log.file_size

    assert log.min_physical_offset == 2 * log.file_size
    assert list(log.messages()) == [v for v in before if v.physical_offset >= 2 * log.file_size]
    assert log.read(0, 100) == b""
    assert log.read_message(0) is None
    assert next(log.batches()).start_offset == 2 * log.file_size
    assert len(log) == len(list(log.messages()))


def test_the_last_file_is_never_trimmed():
    log = sample_log()

    log.trim(100)

    assert len(log) > 0


def test_reading_keeps_to_one_file_and_to_whole_records():
    log = SmallLog(512)
    log.append(Message("T", b"x" * 300))
    log.append(Message("T", b"y" * 300))

    assert len(log.read(0, 10_000)) == 512
    assert len(log.read(512, 10_000)) == log.max_physical_offset - 512
    assert log.read(log.max_physical_offset, 10) == b""
    assert log.store_timestamp_at(512) == log.store_timestamp_at(0) + 1
    assert log.store_timestamp_at(511) == -1


def test_a_record_larger_than_a_file_is_refused():
    with pytest.raises(ValueError, match="files larger than this log's"):
        SmallLog(256).append(Message("T", bytes(300)))


@pytest.mark.parametrize("topic", [b"", b"..", b"a/b", b"\xff\xfe\xfd"])
def test_topics_that_no_store_accepts_can_be_in_a_log(topic):
    log = SmallLog()
    log.append(Message("T", b"before"))
    log.append(Message("T", b"hostile", tags="a"), topic=topic)
    log.append(Message("T", b"behind"))

    batches = log.batches()
    batch = next(batches)  # valid until the next one is taken

    assert [batch.topics[code] for code in batch.topic_code] == [
        "T",
        java_text(topic),
        "T",
    ]
    assert batch.body.tolist() == ["before", "hostile", "behind"]
    assert batch.text("TAGS").tolist() == [None, "a", None]


def test_a_written_log_is_a_store_that_opens(tmp_path):
    log = sample_log()
    log.trim(1)

    log.write_to(tmp_path / "store")

    with reput.open(tmp_path / "store", mode="r", plugins=[]) as store:
        found = [store.get(offset) for b in store.scan() for offset in b.physical_offset.tolist()]
        assert store.log.min_physical_offset == log.min_physical_offset
        assert store.log.max_physical_offset == log.max_physical_offset
    assert found == list(log.messages())


def test_a_store_writes_the_same_bytes(tmp_path):
    log, clock = sample_log(), ManualClock()
    options = {"commitlog": {"file_size": log.file_size}}

    with reput.open(tmp_path / "store", plugins=[], config=options, clock=clock) as store:
        for view in log.messages():
            clock.now = view.store_timestamp
            store.put(view.to_message())

    log.write_to(tmp_path / "expected")
    names = sorted(path.name for path in (tmp_path / "expected" / "commitlog").iterdir())
    for name in names:
        written = (tmp_path / "store" / "commitlog" / name).read_bytes()
        assert written == (tmp_path / "expected" / "commitlog" / name).read_bytes()


def test_sample_logs_are_always_the_same_and_hold_some_of_everything():
    log = sample_log()

    views = list(log.messages())

    assert views == list(sample_log().messages())
    assert len({view.topic for view in views}) == 3
    assert {view.queue_id for view in views} == {0, 1}
    assert {view.transaction for view in views} == {0, 4, 8, 12}
    assert log.max_physical_offset // log.file_size == 5
    days = {view.store_timestamp // 86_400_000 for view in views}
    assert len(days) > 3


def test_logs_and_drivers_say_what_they_are():
    assert "107 messages" in repr(sample_log())
    assert "orders" in repr(sample_log())
