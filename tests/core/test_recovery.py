"""Damage in the middle of a log after a crash: what is damaged is lost, and nothing behind it."""

from __future__ import annotations

import json
import mmap
import shutil

import pytest
from damaged_logs import (
    FILE_SIZE,
    config,
    damage,
    flip,
    killed,
    ledger,
    log_bytes,
    offsets,
    open_store,
    views,
)
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from statefiles import value_of

import reput
import reput_testing
from reput.record.layout import (
    CRC_PROPERTY_SIZE,
    FILLER_TOPIC,
    MAGIC_V1,
    RECORD_MIN_SIZE,
    SIZE_AND_MAGIC,
    TRANSACTION_ROLLBACK,
)
from reput_testing import QuickDisk, copy_store
from reput_testing.casebudget import is_soak

pytestmark = pytest.mark.shows("changed-log")

UNFINISHED = SIZE_AND_MAGIC.pack(0, MAGIC_V1)
SIZES = st.lists(st.integers(0, 900), min_size=1, max_size=40)


def _written(root, sizes=(10,) * 30, **options):
    """A killed store of one message per size, and where each of them stands."""
    with open_store(root, **options) as store:
        places = [
            store.put(reput.Message("T", bytes([65 + n % 26]) * size, n % 3, keys=f"k{n}"))
            for n, size in enumerate(sizes)
        ]
    killed(root)
    return places


def _losses(root):
    return [(entry["start_offset"], entry["end_offset"]) for entry in ledger(root)]


# ------------------------------------------------------------------ single damages


def test_only_the_record_with_a_flipped_bit_is_lost_and_kept_aside(tmp_path):
    places = _written(tmp_path)
    lost = places[7]
    flip(tmp_path, lost.physical_offset + 90)
    before = log_bytes(tmp_path)[lost.physical_offset : lost.end_offset]

    with open_store(tmp_path) as store:
        found = offsets(store)
        (hole,) = store.recovery.damages
        (loss,) = store.losses()

    assert found == [each.physical_offset for each in places if each is not lost]
    assert (hole.start_offset, hole.end_offset) == (lost.physical_offset, lost.end_offset)
    assert (loss.start_offset, loss.end_offset) == (lost.physical_offset, lost.end_offset)
    assert (loss.reason, loss.action) == ("BODY_CRC", "filled")
    assert (loss.topic, loss.queue_id, loss.queue_offset) == ("T", 7 % 3, 7 // 3)
    assert (tmp_path / "reput" / "lost+found" / loss.kept).read_bytes() == before


def test_a_filled_hole_is_a_record_that_was_rolled_back_and_says_what_was_lost(tmp_path):
    places = _written(tmp_path, [300] * 5)
    lost = places[2]
    flip(tmp_path, lost.physical_offset + 90)

    with open_store(tmp_path) as store:
        filler = store.get(lost.physical_offset)

    assert filler.topic == FILLER_TOPIC
    assert filler.sys_flag == TRANSACTION_ROLLBACK
    assert len(filler.record) == lost.size
    assert filler.body_matches()
    assert json.loads(filler.body)["lost"] == [lost.physical_offset, lost.end_offset]


def test_a_filled_log_is_one_that_rocketmqs_rules_take_whole(tmp_path):
    places = _written(tmp_path)
    flip(tmp_path, places[7].physical_offset + 90)
    with open_store(tmp_path):
        pass
    killed(tmp_path)

    with open_store(tmp_path, recovery="rocketmq") as store:
        assert store.recovery.finding is None
        assert len(offsets(store)) == len(places) - 1


def test_with_rocketmqs_rules_everything_behind_damage_is_cut_and_noted(tmp_path):
    places = _written(tmp_path, [200] * 40, recovery="rocketmq")
    lost = places[7]
    flip(tmp_path, lost.physical_offset + 90)
    before = log_bytes(tmp_path)

    with open_store(tmp_path, recovery="rocketmq") as store:
        assert offsets(store) == [each.physical_offset for each in places[:7]]
        losses = store.losses()

    assert losses[0].start_offset == lost.physical_offset
    assert {loss.action for loss in losses} == {"cut"}
    kept = tmp_path / "reput" / "lost+found"
    for loss in losses:
        end = min(loss.end_offset, loss.start_offset - loss.start_offset % FILE_SIZE + FILE_SIZE)
        expected = before[loss.start_offset : end]
        assert (kept / loss.kept).read_bytes().rstrip(b"\0") == expected.rstrip(b"\0")
    assert all(
        any(loss.start_offset <= each.physical_offset < loss.end_offset for loss in losses)
        for each in places[7:]
    )


def test_zeros_in_front_of_sound_records_are_a_hole(tmp_path):
    places = _written(tmp_path, [200] * 40)
    start, end = places[4].physical_offset, places[8].end_offset
    damage(tmp_path, start, bytes(end - start))

    with open_store(tmp_path) as store:
        assert offsets(store) == [each.physical_offset for each in places[:4] + places[9:]]
        (loss,) = store.losses()
    assert (loss.start_offset, loss.end_offset, loss.action) == (start, end, "filled")
    assert loss.kept == ""  # zeros need no copy


def test_damage_to_a_files_end_is_filled_with_a_blank_and_the_next_file_read(tmp_path):
    places = _written(tmp_path, [200] * 40)
    last = max(
        (each for each in places if each.physical_offset < FILE_SIZE), key=lambda e: e.end_offset
    )
    damage(tmp_path, last.physical_offset, b"\xdd" * (FILE_SIZE - last.physical_offset))

    with open_store(tmp_path) as store:
        assert offsets(store) == [each.physical_offset for each in places if each is not last]
    assert _losses(tmp_path) == [(last.physical_offset, FILE_SIZE)]


def test_a_file_of_nothing_but_garbage_between_two_good_ones_is_a_hole(tmp_path):
    places = _written(tmp_path, [200] * 60)
    damage(tmp_path, FILE_SIZE, b"\xdd" * FILE_SIZE)

    with open_store(tmp_path) as store:
        assert offsets(store) == [
            each.physical_offset
            for each in places
            if not FILE_SIZE <= each.physical_offset < 2 * FILE_SIZE
        ]
    assert _losses(tmp_path) == [(FILE_SIZE, 2 * FILE_SIZE)]
    again = log_bytes(tmp_path)
    killed(tmp_path)
    with open_store(tmp_path) as store:
        assert store.recovery.damages == ()
    assert log_bytes(tmp_path) == again


def test_damage_over_the_end_of_a_file_is_two_holes(tmp_path):
    places = _written(tmp_path, [200] * 60)
    before = max(each.physical_offset for each in places if each.physical_offset < FILE_SIZE)
    behind = sorted(each.end_offset for each in places if each.physical_offset >= FILE_SIZE)[1]
    damage(tmp_path, before, b"\xdd" * (behind - before))

    with open_store(tmp_path) as store:
        assert len(offsets(store)) == len(places) - 3
    assert _losses(tmp_path) == [(before, FILE_SIZE), (FILE_SIZE, behind)]


def test_the_size_of_a_damaged_record_leads_past_a_record_in_its_body(tmp_path):
    with open_store(tmp_path) as store:
        first = store.put(reput.Message("T", b"first"))
        # The body holds a record that would be sound where it will stand.
        inner_offset = first.end_offset + 88 + 100
        inner = store.log.encoder.encode(
            reput.Message("T", b"inner"), 7, inner_offset, 1_800_000_000_000
        )
        body = bytes(100) + inner + bytes(100)
        outer = store.put(reput.Message("T", body))
        last = store.put(reput.Message("T", b"last"))
        assert store.get(inner_offset).body == b"inner"
    killed(tmp_path)
    flip(tmp_path, outer.physical_offset + 9)  # the body's checksum

    with open_store(tmp_path) as store:
        assert [view.body for view in views(store)] == [b"first", b"last"]
    assert _losses(tmp_path) == [(outer.physical_offset, outer.end_offset)]
    assert last.physical_offset == outer.end_offset


def test_a_wrong_size_that_leads_to_a_later_record_costs_none_in_between(tmp_path):
    places = _written(tmp_path, [37 + 91] * 8)  # records of one size
    size = places[0].size
    damage(tmp_path, places[1].physical_offset, (3 * size).to_bytes(4, "big"))

    with open_store(tmp_path) as store:
        assert offsets(store) == [each.physical_offset for each in places if each is not places[1]]


def test_an_older_record_behind_damage_was_left_by_a_log_that_was_cut_there(tmp_path):
    # RocketMQ cuts a log without clearing it: what it cut stays behind what it writes next.
    from reput_testing import ManualClock

    clock = ManualClock()
    with open_store(tmp_path, clock=clock) as store:
        first = store.put(reput.Message("T", b"kept"))
        stale = [store.put(reput.Message("T", b"stale %d" % n)) for n in range(5)]
    left_behind = log_bytes(tmp_path)
    killed(tmp_path)
    damage(tmp_path, first.end_offset, bytes(stale[-1].end_offset - first.end_offset))
    clock.advance(60_000)
    with open_store(tmp_path, clock=clock) as store:
        new = store.put(reput.Message("T", b"new, and of another size"))
    damage(tmp_path, new.end_offset, left_behind[new.end_offset : stale[-1].end_offset])
    killed(tmp_path)

    with open_store(tmp_path, clock=clock) as store:
        assert [view.body for view in views(store)] == [b"kept", b"new, and of another size"]


def test_the_last_record_that_was_torn_is_in_the_ledger(tmp_path):
    places = _written(tmp_path)
    last = places[-1]
    damage(tmp_path, last.end_offset - 4, bytes(4))

    with open_store(tmp_path) as store:
        (loss,) = store.losses()
        assert offsets(store) == [each.physical_offset for each in places[:-1]]
    assert (loss.start_offset, loss.end_offset) == (last.physical_offset, last.end_offset)
    assert (loss.reason, loss.action, loss.topic) == ("TORN", "cut", "T")


def test_a_record_whose_size_was_never_written_is_in_the_ledger(tmp_path):
    places = _written(tmp_path)
    last = places[-1]
    damage(tmp_path, last.physical_offset, bytes(4))

    with open_store(tmp_path) as store:
        (loss,) = store.losses()
    assert (loss.start_offset, loss.end_offset, loss.reason) == (
        last.physical_offset,
        last.end_offset,
        "TORN",
    )


def test_unwritten_space_is_no_loss(tmp_path):
    places = _written(tmp_path)

    with open_store(tmp_path) as store:
        assert store.losses() == []
        assert len(offsets(store)) == len(places)
    assert value_of(tmp_path, ".losses") == b""


def test_puts_go_on_behind_a_filled_hole(tmp_path):
    places = _written(tmp_path, [10] * 9)
    flip(tmp_path, places[-2].physical_offset + 90)

    with open_store(tmp_path) as store:
        receipt = store.put(reput.Message("T", b"next", 1))
        assert receipt.physical_offset == places[-1].end_offset
        assert receipt.queue_offset == 3


def test_a_reader_goes_on_behind_damage_and_changes_nothing(tmp_path):
    places = _written(tmp_path, [200] * 40)
    flip(tmp_path, places[7].physical_offset + 90)
    before = reput_testing.snapshot(tmp_path)

    with open_store(tmp_path, "r") as store:
        assert offsets(store) == [each.physical_offset for each in places if each is not places[7]]
        (hole,) = store.log.damages
        (loss,) = store.losses()
        findings = [batch.finding for batch in store.scan(check_crc=True) if batch.finding]
    assert hole.start_offset == loss.start_offset == places[7].physical_offset
    assert loss.action == "skipped"
    assert [each.physical_offset for each in findings] == [places[7].physical_offset]
    assert reput_testing.snapshot(tmp_path) == before


def test_a_reader_that_follows_a_writer_goes_on_behind_damage(tmp_path):
    with open_store(tmp_path) as writer:
        places = [writer.put(reput.Message("T", b"a" * 50)) for _ in range(3)]
        with open_store(tmp_path, "r") as reader:
            assert len(offsets(reader)) == 3
            places += [writer.put(reput.Message("T", b"b" * 50)) for _ in range(3)]
            flip(tmp_path, places[4].physical_offset + 90)
            assert offsets(reader) == [
                each.physical_offset for each in places if each is not places[4]
            ]
            assert [hole.start_offset for hole in reader.log.damages] == [places[4].physical_offset]


def test_zeros_are_no_hole_while_a_writer_may_be_filling_them(tmp_path):
    with open_store(tmp_path) as writer:
        places = [writer.put(reput.Message("T", b"a" * 50)) for _ in range(6)]
        size = log_bytes(tmp_path)[places[3].physical_offset :][:4]
        damage(tmp_path, places[3].physical_offset, bytes(4))  # as if it were being written
        with open_store(tmp_path, "r") as reader:
            assert offsets(reader) == [each.physical_offset for each in places[:3]]
            damage(tmp_path, places[3].physical_offset, size)
            assert offsets(reader) == [each.physical_offset for each in places]
            assert reader.log.damages == ()


# ------------------------------------------------------------------ random damage


@st.composite
def _damages(draw):
    """Functions that damage a log's bytes up to an end: flipped bits, zeroed pages, garbage."""
    kind = draw(st.sampled_from(["flip", "zero", "garbage"]))
    where = draw(st.floats(0, 1, exclude_max=True))
    size = 1 if kind == "flip" else draw(st.integers(1, 2500))
    seed = draw(st.randoms(use_true_random=False))

    def apply(root, end):
        start = int(where * end)
        stop = min(start + size, end)
        old = log_bytes(root)[start:stop]
        if kind == "flip":
            new = bytes([old[0] ^ (1 << seed.randrange(8))])
        elif kind == "zero":
            new = bytes(len(old))
        else:
            new = seed.randbytes(len(old))
        damage(root, start, new)

    return apply


@pytest.mark.proof
@settings(
    max_examples=400 if is_soak() else 50,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(sizes=SIZES, damages=st.lists(_damages(), min_size=1, max_size=4))
def test_whatever_is_damaged_every_other_record_is_returned(tmp_path, sizes, damages):
    root = tmp_path / "store"
    shutil.rmtree(root, ignore_errors=True)
    places = _written(root, sizes, record_crc=True)
    sound = log_bytes(root)
    for apply in damages:
        apply(root, places[-1].end_offset)
    for each in places:  # that there is a checksum is covered by none
        name, last = each.end_offset - CRC_PROPERTY_SIZE, each.end_offset - 1
        damage(root, name, sound[name : name + 9])
        damage(root, last, sound[last : last + 1])
    changed = log_bytes(root)
    # Without its size a record is a put that a kill interrupted, and with it the log ends.
    assume(not any(changed.startswith(UNFINISHED, each.physical_offset) for each in places))
    untouched = [
        each
        for each in places
        if sound[each.physical_offset : each.end_offset]
        == changed[each.physical_offset : each.end_offset]
    ]
    with open_store(root, "r") as store:
        assert offsets(store) == [each.physical_offset for each in untouched]

    with open_store(root) as store:
        found = views(store)
        end = store.log.max_physical_offset
        losses = store.losses()
        recovered = log_bytes(root)

    assert [view.physical_offset for view in found] == [each.physical_offset for each in untouched]
    assert all(
        view.record == sound[view.physical_offset : view.physical_offset + len(view.record)]
        for view in found
    )
    for each in places:
        noted = any(loss.start_offset <= each.physical_offset < loss.end_offset for loss in losses)
        # Zeros up to the end look like space that was never written.
        is_known = any(changed[each.physical_offset : places[-1].end_offset])
        assert noted == (each not in untouched and is_known)
    assert end >= max((each.end_offset for each in untouched), default=0)
    assert len(_losses(root)) == len(set(_losses(root)))
    _check_again(root, recovered, len(untouched), len(places))


def _check_again(root, recovered, count, count_written):
    """Opened again, nothing changes, with RocketMQ's rules neither; and puts go on."""
    entries = ledger(root)
    for options in ({}, {"recovery": "rocketmq"}):
        killed(root)
        with open_store(root, record_crc=True, **options) as store:
            assert store.recovery.finding is None
            assert store.recovery.damages == ()
            assert len(offsets(store)) == count
        assert log_bytes(root) == recovered
        assert ledger(root) == entries
    with open_store(root) as store:
        highest = {}
        for view in views(store):
            highest[view.queue_id] = max(highest.get(view.queue_id, -1), view.queue_offset)
        for queue_id in range(3):
            receipt = store.put(reput.Message("T", b"next", queue_id))
            # Not that of a message that was there once; nor behind one that never was.
            written = len(range(queue_id, count_written, 3))
            assert highest.get(queue_id, -1) < receipt.queue_offset <= written


class _Killed(BaseException):
    pass


class _HeadLast(mmap.mmap):
    """A map whose process dies in a long copy, when all but the copy's head is written."""

    dies = False

    def __setitem__(self, where, data):
        if not self.dies or len(data) < 200:
            super().__setitem__(where, data)
            return
        super().__setitem__(slice(where.start + 64, where.stop), data[64:])
        raise _Killed


class _HeadLastDisk(QuickDisk):
    def map(self, descriptor, size):
        return _HeadLast(descriptor, size)


def test_a_put_many_that_a_kill_interrupts_in_its_copy_is_not_there_at_all(tmp_path, monkeypatch):
    root = tmp_path / "store"
    store = open_store(root, disk=_HeadLastDisk())
    before = store.put(reput.Message("T", b"before"))
    store.flush()
    monkeypatch.setattr(_HeadLast, "dies", True)
    with pytest.raises(_Killed):
        store.put_many([reput.Message("T", b"%d" % n) for n in range(5)])
    copy_store(root, tmp_path / "left")
    monkeypatch.setattr(_HeadLast, "dies", False)
    store.close()

    for mode in ("r", "w"):
        with open_store(tmp_path / "left", mode) as opened:
            assert offsets(opened) == [before.physical_offset]
            assert opened.log.max_physical_offset == before.end_offset
    with open_store(tmp_path / "left") as opened:
        assert opened.put(reput.Message("T", b"next")).queue_offset == 1


def test_a_hole_may_be_as_small_as_a_record(tmp_path):
    with open_store(tmp_path, record_crc=False) as store:
        store.put(reput.Message("T", b"first"))
        tiny = store.put(reput.Message("T"))
        last = store.put(reput.Message("T", b"last"))
    assert tiny.size == RECORD_MIN_SIZE + 1
    killed(tmp_path)
    flip(tmp_path, tiny.physical_offset + 30)

    with open_store(tmp_path) as store:
        assert [view.body for view in views(store)] == [b"first", b"last"]
        assert len(store.get(tiny.physical_offset).record) == tiny.size
        assert last.physical_offset == tiny.end_offset


@pytest.mark.parametrize("size", [91, 92, 110, 111, 112, 150, 500])
@pytest.mark.parametrize("record_crc", [False, True])
def test_a_filler_has_the_size_that_is_asked_for_and_is_sound(size, record_crc):
    import numpy as np

    from reput.record.decode import Decoder
    from reput.record.encoding.encoder import encode_filler

    record = encode_filler(size, 1000, 5, b'{"a":1}', bytes(8), record_crc=record_crc)

    decoder = Decoder(check_crc=True, check_record_crc=True)
    batch = decoder.decode(np.frombuffer(record, np.uint8), 1000).batch
    assert (len(record), len(batch), batch.finding) == (size, 1, None)
    assert (b"__CRC32#" in record) == (record_crc and size >= 111)
    assert FILLER_TOPIC.startswith(batch.topics[0])


GOLDEN = {
    "crash-clean-tail": None,
    "crash-torn-record": None,
    "crash-torn-properties": "TORN",
    "crash-log-behind-queues": None,
    "crash-no-derived": None,
    "crash-bit-flip": "BODY_CRC",
    "crash-garbage-tail": None,
}
"""Cases, and for what reason our own recovery differs from Java's."""


@pytest.mark.parametrize("mode", ["w", "r"])
@pytest.mark.parametrize("recovery", ["reput", "rocketmq"])
@pytest.mark.parametrize("case", GOLDEN)
def test_the_log_of_a_killed_rocketmq_ends_where_java_ends_it(
    case, recovery, mode, golden_store, golden_rows
):
    (expected,) = golden_rows(case, "log")
    options = {"commitlog": {"recovery": recovery}}

    with reput.open(golden_store(case), mode, plugins=[], config=options) as store:
        low, high = store.log.min_physical_offset, store.log.max_physical_offset
        reasons = {loss.reason for loss in store.losses()}

    assert low == expected["min_physical_offset"]
    if recovery == "rocketmq" or GOLDEN[case] is None:
        assert high == expected["max_physical_offset"]
    else:
        assert high != expected["max_physical_offset"]
        if mode == "w" or case == "crash-bit-flip":
            assert reasons == {GOLDEN[case]}


def test_options_are_checked():
    from reput.errors import ConfigError

    for name in ("recovery", "read_horizon"):
        with pytest.raises(ConfigError, match=name):
            reput.open("/nowhere", config=config(**{name: "sometimes"}))
