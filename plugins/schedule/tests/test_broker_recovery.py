"""What a broker delivers that starts after reput was killed: by a model of its recovery.

Source of the rules: RocketMQ ``TimerMessageStore.recover``, ``TimerWheel.reviseSlot``.
"""

from __future__ import annotations

import shutil
from collections import Counter

import numpy as np
import pytest
from timerstores import DAY, TimerStore

from reput_schedule.timerwheel.files.slotchain import slot_ticks
from reput_schedule.timerwheel.layout import (
    BLANK_DTYPE,
    CHECK_DTYPE,
    CHECK_FILE_SIZE,
    NOTE_POSITION,
    RECORD_DTYPE,
    RECORD_SIZE,
    SLOT_COUNT,
    SLOT_DTYPE,
    TIMER_TOPIC,
    records_per_file,
)
from reput_schedule.timerwheel.timer import Timer

FILE_SIZE = 4096
PER_FILE = records_per_file(FILE_SIZE)
SECOND = 1_000
KNOWN, AT_ONCE, LATE, EARLY = 20, 30, 120, 110
"""Messages in their order: those of reput, delivered without a record, waiting, and delivered."""


def records_of(root, first=0):
    """Positions and records of the timer log, from the file of a position on to the first blank."""
    places, records = [], []
    for path in sorted((root / "timerlog").iterdir()):
        rows = np.frombuffer(path.read_bytes(), RECORD_DTYPE, PER_FILE)
        if int(path.name) < first // FILE_SIZE * FILE_SIZE:
            continue
        size = PER_FILE if rows["size"].all() else int(np.argmin(rows["size"] == RECORD_SIZE))
        places += [int(path.name) + row * RECORD_SIZE for row in range(size)]
        records.append(rows[:size])
        if size < PER_FILE:
            break
    return places, np.concatenate([np.zeros(0, RECORD_DTYPE), *records])


def write_as_broker(root, records, read_timestamp, note):
    """Write log, wheel and checkpoint with these records, at positions of their own."""
    for path in (root / "timerlog").iterdir():
        path.unlink()
    places = [n // PER_FILE * FILE_SIZE + n % PER_FILE * RECORD_SIZE for n in range(len(records))]
    wheel, records = np.zeros(SLOT_COUNT, SLOT_DTYPE), records.astype(RECORD_DTYPE)
    for row, (place, tick) in enumerate(zip(places, slot_ticks(records, SECOND), strict=True)):
        slot = wheel[tick % SLOT_COUNT]
        is_first = slot["tick"] != tick
        records["previous"][row] = -1 if is_first else slot["last"]
        first, count = (place, 1) if is_first else (slot["first"], slot["count"] + 1)
        wheel[tick % SLOT_COUNT] = (tick, first, place, count, 0)
    blank = np.array([(FILE_SIZE - PER_FILE * RECORD_SIZE, 0, 0xCBD43194)], BLANK_DTYPE)
    for start in range(0, len(records), PER_FILE):
        rows = records[start : start + PER_FILE].tobytes()
        data = (rows + blank.tobytes() if len(rows) == PER_FILE * RECORD_SIZE else rows).ljust(
            FILE_SIZE, b"\0"
        )
        (root / f"timerlog/{start // PER_FILE * FILE_SIZE:020}").write_bytes(data)
    (root / "timerwheel").write_bytes(wheel.tobytes())
    end, queued = places[-1] + RECORD_SIZE, KNOWN + AT_ONCE + LATE + EARLY
    head = np.array([(read_timestamp, end, queued, queued, 0, 0, 0)], CHECK_DTYPE).tobytes()
    data = head.ljust(NOTE_POSITION, b"\0") + note[NOTE_POSITION:]
    (root / "config/timercheck").write_bytes(data.ljust(CHECK_FILE_SIZE, b"\0"))


def delivered_by_broker(root, queue):
    """Count the physical offsets of the messages that a broker delivers from this directory on."""
    head = np.frombuffer((root / "config/timercheck").read_bytes(), CHECK_DTYPE, 1)[0]
    path = root / "timerwheel"
    wheel = np.fromfile(path, SLOT_DTYPE) if path.exists() else np.zeros(SLOT_COUNT, SLOT_DTYPE)
    last = {int(slot["tick"]): int(slot["last"]) for slot in wheel[wheel["tick"] > 0]}
    places, records = records_of(root, max(int(head["flushed_position"]) - FILE_SIZE, 0))
    last.update(zip(slot_ticks(records, SECOND).tolist(), places, strict=True))
    queue_offset = int(head["queue_offset"])
    if len(records):
        queue_offset = queue.index(int(records["physical_offset"][-1])) + 1
    queue_offset = min(queue_offset, int(head["master_queue_offset"]), len(queue))
    found = Counter(queue[queue_offset:])
    log = dict(zip(*records_of(root), strict=True))
    for tick, place in last.items():
        while tick * SECOND >= head["read_timestamp"] and place in log:
            found[int(log[place]["physical_offset"])] += 1
            place = int(log[place]["previous"])
    return found


@pytest.fixture
def life(tmp_path, request):
    """A store that a broker left, with or without a note of reput, and its timer's queue."""
    store = TimerStore(tmp_path / "store", log_file_size=FILE_SIZE)
    for number in range(KNOWN):
        store.put_in(f"known {number}", (10 + number) * SECOND)
    store.store.wait_dispatched()
    store.close()
    note = (store.root / "config/timercheck").read_bytes() if request.param else b""
    shutil.copytree(store.root / "reput", tmp_path / "reput")
    store.open()
    for number in range(AT_ONCE + LATE + EARLY):
        is_late = AT_ONCE <= number < AT_ONCE + LATE
        store.put_in(f"{number}", (DAY if is_late else 0) + (10 + number // 2) * SECOND)
    queue = [each.physical_offset for each in store.messages(TIMER_TOPIC)]
    store.store.flush()
    _, records = records_of(store.root)
    store.close()

    kept = np.delete(records, range(KNOWN, KNOWN + AT_ONCE))
    store.clock.advance(3_600 * SECOND)
    write_as_broker(store.root, kept, store.clock(), note)
    shutil.rmtree(store.root / "reput")
    shutil.copytree(tmp_path / "reput", store.root / "reput")
    return store, queue


@pytest.mark.costly
@pytest.mark.parametrize("life", [True, False], indirect=True, ids=["noted", "unknown"])
@pytest.mark.parametrize("moment", ["never opened", "opened", "dispatched", "flushed", "closed"])
def test_a_broker_delivers_what_waits_whenever_reput_was_killed(life, moment, monkeypatch):
    store, queue = life
    if moment == "opened":
        monkeypatch.setattr(Timer, "dispatch", lambda *_: None)
    if moment != "never opened":
        store.open()
        store.timer.leave_deliveries()
    if moment in ("dispatched", "flushed", "closed"):
        store.store.wait_dispatched()
    if moment == "flushed":
        store.store.flush()
    if moment == "closed":
        store.store.close()

    found = delivered_by_broker(store.root, queue)
    store.store.close()

    waiting = queue[KNOWN + AT_ONCE :][:LATE]
    assert set(waiting) <= set(found)
    if moment != "opened":  # what the timer log lacks is delivered again where it was due
        assert found == Counter(waiting)
