"""The bytes of the timer's files, against the vectors of the format and encoders of their own."""

from __future__ import annotations

import struct
import zlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from timerstores import TimerStore

from reput.record import TextColumn, java_string_hash
from reput_schedule.timerwheel.files.placement import numbers_of, place
from reput_schedule.timerwheel.files.timercheckpoint import (
    CheckpointRecord,
    TimerCheckpoint,
    decode_check,
    encode_check,
)
from reput_schedule.timerwheel.layout import (
    CHECK_FILE_SIZE,
    MARKS_MAX,
    RECORD_DTYPE,
    RECORD_SIZE,
    SLOT_COUNT,
    SLOT_DTYPE,
    SLOT_SIZE,
    records_per_file,
)
from reput_schedule.timerwheel.timerparking import rounded

T = 1_700_000_000_000
DAY = 86_400_000


def test_a_slot_is_that_of_the_formats_vector():
    slot = np.array([(T // 1000, 0, 104, 3, 0)], SLOT_DTYPE)

    expected = "000000006553f100 0000000000000000 0000000000000068 00000003 00000000"
    assert slot.tobytes() == bytes.fromhex(expected)
    assert slot.tobytes() == struct.pack(">qqqii", T // 1000, 0, 104, 3, 0)
    assert (SLOT_SIZE, SLOT_SIZE * SLOT_COUNT) == (32, 38_707_200)
    assert [T // 1000 % SLOT_COUNT, (T + 5000) // 1000 % SLOT_COUNT] == [512_000, 512_005]


def test_a_record_is_that_of_the_formats_vector():
    topic = java_string_hash("TopicTest")
    record = np.array([(52, -1, 1, T, 5000, 1 << 30, 174, topic, 0)], RECORD_DTYPE)

    expected = (
        "00000034 ffffffffffffffff 00000001 0000018bcfe56800 00001388 0000000040000000"
        "000000ae 8e987641 0000000000000000"
    )
    assert record.tobytes() == bytes.fromhex(expected)
    packed = struct.pack(">iqiqiqiiq", 52, -1, 1, T, 5000, 1 << 30, 174, topic, 0)
    assert record.tobytes() == packed
    assert records_per_file(100 << 20) * RECORD_SIZE - RECORD_SIZE == 104_857_532


def test_a_file_without_room_for_another_record_ends_in_a_blank(tmp_path):
    with TimerStore(tmp_path / "store", log_file_size=4096) as store:
        for number in range(79):
            store.put_in(f"m{number}", 5000 + 1000 * number)
        store.store.wait_dispatched()
        first, second = (
            (store.root / "timerlog" / name).read_bytes()
            for name in ("00000000000000000000", "00000000000000004096")
        )

    assert first[4004:4008] == struct.pack(">i", 52)
    assert first[4056:] == struct.pack(">iqI", 40, 0, 0xCBD43194) + bytes(24)
    assert second[:4] == struct.pack(">i", 52)
    assert second[52:].strip(b"\0") == b""


def test_what_was_parked_is_in_all_three_files_as_the_format_says(tmp_path):
    with TimerStore(tmp_path / "store") as store:
        now = store.clock()
        store.put_in("first", 5000)
        store.put_in("second", 5400)
        store.put_in("third", 5000)
        store.store.wait_dispatched()
        store.store.flush()
        log = (store.root / "timerlog/00000000000000000000").read_bytes()
        wheel = (store.root / "timerwheel").read_bytes()
        check = (store.root / "config/timercheck").read_bytes()
        parked = store.messages("rmq_sys_wheel_timer")

    topic = java_string_hash("Topic")
    places = [(each.physical_offset, each.size) for each in parked]
    assert log[:156] == b"".join(
        struct.pack(">iqiqiqiiq", 52, previous, 1, now, delay, *place, topic, 0)
        for previous, delay, place in zip([-1, -1, 0], [4000, 5000, 4000], places, strict=True)
    )
    tick = now // 1000 + 4
    at = tick % SLOT_COUNT * 32
    assert wheel[at : at + 32] == struct.pack(">qqqii", tick, 0, 104, 2, 0)
    assert wheel[at + 32 : at + 64] == struct.pack(">qqqii", tick + 1, 52, 52, 1, 0)
    assert wheel.count(0) >= len(wheel) - 64
    assert len(check) == 4096
    assert struct.unpack_from(">qqqqqqq", check) == (now, 156, 3, 3, 0, 0, 0)


@pytest.mark.parametrize(
    ("ahead", "slot"),
    [(259_200, 172_800), (200_000, 86_400), (172_800, 86_400), (172_799, 172_799), (-7, -7)],
)
def test_what_lies_beyond_the_window_rolls(ahead, slot):
    out, stored = np.array([T + ahead * 1000]), np.array([T + 999])

    enqueued, slot_time, rolls = place(out, stored, 1000, 172_800)

    assert (enqueued[0], slot_time[0], bool(rolls[0])) == (T, T + slot * 1000, ahead >= 172_800)


@given(
    st.integers(-(1 << 63), (1 << 63) - 1),
    st.integers(-(1 << 63), (1 << 63) - 1),
    st.sampled_from([10, 100, 700, 1000]),
)
def test_any_two_times_make_a_record_that_can_be_written(out, stored, precision):
    enqueued, slot_time, _ = place(np.array([out]), np.array([stored]), precision, 172_800)

    assert -(1 << 31) <= slot_time[0] - enqueued[0] < 1 << 31
    assert slot_time[0] % precision == enqueued[0] % precision == 0
    assert slot_time[0] > 0


@pytest.mark.parametrize(
    ("deliver", "out"), [(T + 5000, T + 4000), (T + 5001, T + 5000), (T + 4999, T + 4000)]
)
def test_times_are_rounded_as_the_formats_vectors_say(deliver, out):
    assert rounded(deliver, 1000) == out


@given(st.lists(st.one_of(st.integers().map(str), st.text(max_size=22)), max_size=20))
def test_numbers_are_read_as_java_reads_them(texts):
    encoded = [text.encode("utf-8", "replace") for text in texts]
    sizes = np.array([len(each) or -1 for each in encoded], np.int64)
    starts = np.array([sum(map(len, encoded[:row])) for row in range(len(encoded))], np.int64)
    window = np.frombuffer(b"".join(encoded) + bytes(32), np.uint8)

    values, good = numbers_of(TextColumn(window, starts, sizes))

    def plain(data):
        text = data.decode()
        digits = text[1:] if text[:1] in ("-", "+") else text
        if not (digits.isascii() and digits.isdigit()) or len(digits) > 20:
            return None
        return int(text) if -(1 << 63) <= int(text) < 1 << 63 else None

    expected = [plain(each) for each in encoded]
    assert good.tolist() == [each is not None for each in expected]
    assert values.tolist() == [each or 0 for each in expected]


def check(marks=()):
    reached = TimerCheckpoint(read_timestamp=T, examined_to=700, marks=tuple(marks), copies_end=900)
    return CheckpointRecord(
        reached=reached,
        copies_to=900,
        precision_ms=1000,
        log_min=4096,
        log_end=5000,
        queue_offset=12,
        is_closed=True,
        late_timestamp=T - 5000,
        version=(1, 2, 3),
    )


def test_the_checkpoint_is_laid_out_as_its_ruler_says():
    data = encode_check(check([(T + 9000, 600), (T + 8000, 650)]))

    head = struct.pack(">qqqqqqq", T - 5000, 5000, 12, 12, 1, 2, 3)
    note = struct.pack(
        ">4siiqqqqqqIi", b"RPTW", 1, 1, 1000, T, 700, 900, 4096, 5000, zlib.crc32(head), 2
    )
    note += struct.pack(">qqqq", T + 9000, 600, T + 8000, 650)
    expected = head + bytes(8) + struct.pack(">I", zlib.crc32(note)) + note
    assert data == expected.ljust(CHECK_FILE_SIZE, b"\0")


@pytest.mark.parametrize("count", [0, 2, MARKS_MAX])
def test_the_checkpoint_comes_back(count):
    stated = check([(T + 9000 - each, each) for each in range(count)])

    found = decode_check(encode_check(stated))

    assert found is not None
    assert found.reached == stated.reached
    assert (found.copies_to, found.log_end, found.queue_offset) == (900, 5000, 12)
    assert found.is_closed
    assert found.version == (1, 2, 3)


def test_no_flipped_bit_of_our_part_goes_unnoticed():
    data = encode_check(check([(T + 9000, 600)]))

    for bit in range(64 * 8, (136 + 16) * 8):
        flipped = bytearray(data)
        flipped[bit // 8] ^= 1 << bit % 8
        assert decode_check(bytes(flipped)) is None


def test_a_checkpoint_that_rocketmq_changed_does_not_vouch_for_the_wheel():
    data = bytearray(encode_check(check()))
    data[7] ^= 1

    found = decode_check(bytes(data))

    assert found is not None
    assert not found.is_closed


@pytest.mark.parametrize("size", [0, 56, 64, 135])
def test_a_short_checkpoint_or_one_of_rocketmqs_is_none_of_ours(size):
    assert decode_check(encode_check(check())[:size]) is None
    assert decode_check(struct.pack(">qqqqqqq", T, 0, 0, 0, 0, 0, 0).ljust(4096, b"\0")) is None
