"""Numbers and files at their limits: a refusal comes before the first byte is written."""

from __future__ import annotations

import contextlib
import errno
import mmap
import os
import subprocess
import sys
import tempfile
from types import SimpleNamespace

import numpy as np
import pytest
from bothengines import python_engine
from plainmemory import plain_memory

import reput
from reput.log.writer import appender as appender_module
from reput.record.encoding.encoder import Encoder

ENGINES = pytest.mark.parametrize("engine", [python_engine, contextlib.nullcontext])
FILE_SIZE = 1 << 16
INT64_MAX = (1 << 63) - 1


@contextlib.contextmanager
def file_at(base_offset, *, descriptor=None, access=mmap.ACCESS_WRITE):
    """What an appender needs of a mapped file, at any base offset."""
    with tempfile.TemporaryFile() as file:
        file.truncate(FILE_SIZE)
        with mmap.mmap(file.fileno(), FILE_SIZE, access=access) as mapped:
            number = file.fileno() if descriptor is None else descriptor
            yield SimpleNamespace(
                base_offset=base_offset, size=FILE_SIZE, map=mapped, descriptor=number
            )


def appender_in(file):
    made = appender_module.Appender(Encoder(), file.base_offset, -1, None)
    made.allow()
    made.begin_file(file, file.base_offset)
    return made


def append(appender, messages, physical_offsets, queue_offsets=None):
    rows = appender_module.rows_of_messages(messages, Encoder(), appender)
    if queue_offsets is None:
        queue_offsets = appender_module.queue_offsets_of_rows(appender, rows)
    return appender_module.append_rows(appender, rows, 0, queue_offsets, physical_offsets, 5)


def state_of(appender):
    return appender.end_offset, appender.last_record_offset, appender.queue_offsets()


# ------------------------------------------------------------------ sizes


@ENGINES
@pytest.mark.parametrize("sizes", [[5], [9, 100, 3], [0, 7] * 400])
def test_prepared_messages_know_the_sizes_of_their_records(engine, sizes):
    messages = [reput.Message("T", b"x" * size, 0) for size in sizes]
    of_records = [len(Encoder().encode(message, 0, 0, 5)) for message in messages]
    with engine(), file_at(0) as file:
        rows = appender_module.rows_of_messages(messages, Encoder(), appender_in(file))

    assert rows.size.tolist() == of_records
    assert rows.largest == max(of_records)
    for first in (0, 1, len(sizes)):
        assert rows.size_from(first) == sum(of_records[first:])


# ------------------------------------------------------------------ queue offsets of any size

STATED = [str(INT64_MAX), str(1 << 63), str((1 << 64) - 1), str(1 << 64), "9" * 23, "9" * 5_000]
STATED += ["²", "٣", "-1", "", "1,2", "0" * 30]


@ENGINES
@pytest.mark.parametrize("stated", STATED, ids=lambda text: text[:24])
def test_a_property_of_any_number_leaves_a_store_that_opens(tmp_path, engine, stated):
    properties = {"INNER_MULTI_DISPATCH": "%LMQ%a", "INNER_MULTI_QUEUE_OFFSET": stated}
    with engine():
        with reput.open(tmp_path / "store", plugins=[]) as store:
            store.put(reput.Message("T", b"first", properties=properties))

        with reput.open(tmp_path / "store", plugins=[]) as store:
            receipt = store.put(reput.Message("T", b"second"))

    assert receipt.queue_offset == 1


ANY_OFFSETS = {
    ("T", 0): 0,
    ("T", 1): (1 << 64) - 1,
    ("T", 2): (1 << 64) - 2,
    ("T", 3): 10**23,
    ("T", 4): INT64_MAX,
    ("T", 5): 1 << 63,
    ("T", 2_000): 10**400,
    ("T", 1 << 70): 7,
    ("other", 10**30): 10**30,
    ("no topic/", -1): 3,
    ("\udcff", 0): 1 << 80,
}


@ENGINES
def test_queue_offsets_of_any_size_are_kept(engine):
    with engine(), file_at(0) as file:
        appender = appender_in(file)

        appender.start_queues(ANY_OFFSETS)

        assert appender.queue_offsets() == ANY_OFFSETS
        assert {key: appender.next_queue_offset(key) for key in ANY_OFFSETS} == ANY_OFFSETS
        assert appender.next_queue_offset(("T", 1 << 80)) == 0
        appender.publish(0, b"\0\0\0\x5b", b"x" * 87, 0, {("T", 3): 5, ("T", 0): 10**25})
        assert appender.queue_offsets() == ANY_OFFSETS | {("T", 3): 5, ("T", 0): 10**25}
        appender.let_go()


@ENGINES
@pytest.mark.parametrize("following", [INT64_MAX - 1, INT64_MAX, 1 << 63, 1 << 64, 10**23])
def test_rows_that_a_queue_has_no_offsets_for_are_refused(engine, following):
    with engine(), file_at(0) as file:
        appender = appender_in(file)
        appender.start_queues({("T", 0): following})
        before = state_of(appender)

        with pytest.raises(OverflowError):
            append(appender, [reput.Message("T")] * 3, np.zeros(3, np.int64))

        assert state_of(appender) == before
        assert file.map[:200] == bytes(200)
        appender.let_go()


# ------------------------------------------------------------------ files near the last offset


@ENGINES
@pytest.mark.parametrize("left", [1, 8, FILE_SIZE - 1, FILE_SIZE, FILE_SIZE + 9])
def test_limits_near_the_last_offset_do_not_wrap(engine, left):
    base = INT64_MAX - left + 1
    with engine(), file_at(base) as file:
        appender = appender_in(file)

        assert appender.file_limit == base + FILE_SIZE - 8
        assert appender.record_limit == -1
        appender.let_go()


def test_no_log_ends_after_the_last_offset():
    """A record that would begin before the last offset and end after it is refused, unwritten."""
    with file_at(INT64_MAX - 100) as file:
        appender = appender_in(file)
        before = state_of(appender)

        with pytest.raises(OverflowError):
            append(appender, [reput.Message("T", b"x" * 50)], np.zeros(1, np.int64))
        with pytest.raises(OverflowError):
            appender.publish(INT64_MAX - 100, b"\0\0\1\0", b"x" * 252, INT64_MAX - 100, {})

        assert state_of(appender) == before
        assert file.map[:400] == bytes(400)
        appender.let_go()


# ------------------------------------------------------------------ arguments and files that fail


@pytest.mark.parametrize(
    "physical_offsets",
    [
        np.zeros(6, np.int64)[::2],
        np.zeros(2, np.int64),
        np.zeros(0, np.int64),
        np.frombuffer(bytes(24), np.int64),
        np.zeros(3, np.int32),
        None,
    ],
    ids=["strided", "short", "empty", "read-only", "narrow", "none"],
)
def test_rows_are_not_published_if_their_places_cannot_be_given(physical_offsets):
    with file_at(0) as file:
        appender = appender_in(file)
        before = state_of(appender)

        with pytest.raises((TypeError, ValueError)):
            append(appender, [reput.Message("T")] * 3, physical_offsets)

        assert state_of(appender) == before
        assert file.map[:400] == bytes(400)
        appender.let_go()


@pytest.mark.parametrize("count", [0, 2, 4])
def test_rows_are_not_published_without_their_queue_offsets(count):
    with file_at(0) as file:
        appender = appender_in(file)
        before = state_of(appender)
        offsets = np.zeros(count, np.int64)

        with pytest.raises((TypeError, ValueError)):
            append(appender, [reput.Message("T")] * 3, np.zeros(3, np.int64), offsets)

        assert state_of(appender) == before
        appender.let_go()


def test_a_full_disk_is_an_error_and_nothing_is_published():
    """A page of the map that the disk has no room for would end the process."""
    with contextlib.ExitStack() as stack:
        full = os.open("/dev/full", os.O_RDWR)
        stack.callback(os.close, full)
        file = stack.enter_context(file_at(0, descriptor=full))
        appender = appender_in(file)
        before = state_of(appender)

        with pytest.raises(OSError, match="No space left") as caught:
            append(appender, [reput.Message("T", b"x" * 20_000)], np.zeros(1, np.int64))

        assert caught.value.errno == errno.ENOSPC
        assert state_of(appender) == before
        assert file.map[:4] == bytes(4)
        assert file.map[8:30_000] == bytes(30_000 - 8)
        append(appender, [reput.Message("T", b"fits")], np.zeros(1, np.int64))
        assert appender.queue_offsets() == {("T", 0): 1}
        appender.let_go()


READ_ONLY = """
import contextlib, mmap, sys, tempfile
sys.path[:0] = sys.argv[1:3]
import numpy as np
import reput
from bothengines import python_engine
from test_put_limits import append, appender_in, file_at, state_of

for engine in (python_engine, contextlib.nullcontext):
    with engine(), file_at(0, access=mmap.ACCESS_READ) as file:
        appender = appender_in(file)
        appender.move_record_limit(10_000)
        before = state_of(appender)
        put = appender.put_at_once("log", frozenset(), frozenset())
        for call in (
            lambda: appender.publish(0, b"1234", b"x" * 100, 0, {("T", 0): 1}),
            lambda: append(appender, [reput.Message("T")] * 3, np.zeros(3, np.int64)),
            lambda: append(appender, [reput.Message("T", b"x" * 30_000)], np.zeros(1, np.int64)),
            lambda: appender.begin_file(file, 0),
        ):
            try:
                call()
            except TypeError as error:
                print(error)
        assert put is None or put(reput.Message("T")) is NotImplemented
        assert state_of(appender) == before
        appender.let_go()
"""


def run(script, *arguments):
    here = os.path.dirname(__file__)
    support = os.path.join(os.path.dirname(here), "support")
    command = [sys.executable, "-c", script, here, support, *arguments]
    return subprocess.run(command, capture_output=True, text=True)


@pytest.mark.costly
def test_a_map_that_is_read_only_is_refused():
    done = run(READ_ONLY)

    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == ["mmap can't modify a readonly memory map."] * 8


# ------------------------------------------------------------------ memory

LITTLE_MEMORY = """
import resource, sys
import numpy as np
import reput
from reput.log.writer.appender import Appender, rows_of_columns, rows_of_messages
from reput.record.encoding.encoder import Encoder

appender = Appender(Encoder(), 0, -1, None)
with open("/proc/self/statm") as file:
    used = int(file.read().split()[0]) * resource.getpagesize()
count = 6_000_000
ends, message = np.zeros(count + 1, np.int32), [reput.Message("T")] * count
large = memoryview(bytearray(300 << 20))
resource.setrlimit(resource.RLIMIT_AS, (used + (560 << 20),) * 2)
for call in (
    lambda: rows_of_columns(reput.Columns(topic="T", body=(ends, b"")), Encoder(), appender),
    lambda: rows_of_messages(message, Encoder(), appender),
    lambda: rows_of_columns(
        reput.Columns(topic="T", body=(np.array([0, 250 << 20]), large)),
        Encoder(max_message_size=1 << 30),
        appender,
    ),
    lambda: rows_of_columns(
        reput.Columns(topic="T", body=[b""] * 60_000, properties=b"x" * 30_000), Encoder(), appender
    ),
):
    try:
        call()
    except MemoryError:
        print("MemoryError")
    else:
        print("no error")
"""


@plain_memory
@pytest.mark.costly
def test_no_memory_is_an_error_and_not_the_end_of_the_process():
    done = run(LITTLE_MEMORY)

    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.split() == ["MemoryError"] * 4


REFUSED_PUTS = """
import resource, sys
import reput
from reput.errors import PutError

def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize()

def refused(store, numbers):
    for number in numbers:
        for topic in ("T%07d" % number * 12_000, "a/%d" % number, "T%d" % number):
            bad = reput.Message(topic, b"x" * 6_000 if topic[-1:] != "/" else b"")
            for call in (store.put, lambda message: store.put_many([message])):
                try:
                    call(bad)
                except PutError:
                    continue
                raise AssertionError(topic[:20])

config = {"commitlog": {"file_size": 4096}}
with reput.open(sys.argv[3], plugins=[], config=config, threads=False) as store:
    store.put(reput.Message("T", b"first", 0))
    store.put(reput.Message("T", b"second", 0))
    refused(store, range(100))
    before = resident()
    refused(store, range(100, 1_000))
    print((resident() - before) >> 20)
    assert set(store.log.queue_offsets) == {("T", 0)}
"""


@plain_memory
@pytest.mark.costly
def test_a_refused_put_leaves_nothing(tmp_path):
    done = run(REFUSED_PUTS, str(tmp_path / "store"))

    assert (done.returncode, done.stderr) == (0, "")
    assert int(done.stdout) < 16  # MiB, of 80 that 900 names take


READS_WITH_LITTLE_MEMORY = """
import resource, struct, tempfile
import numpy as np
import reput
from reput.record.encoding.encoder import Encoder
from reput_native import _kernels

size, count = 4 << 20, 24  # more than the room that malloc keeps for another thread
file = tempfile.TemporaryFile()
file.truncate(count * size)
places = b"".join(struct.pack(">qi", number * size, size) for number in range(count))
encoder = Encoder(max_message_size=2 * size)
view = _kernels.MessageView(encoder.encode(reput.Message("T", bytes(size)), 0, 0, 0))
window, starts = np.zeros(size, np.uint8), np.zeros(count, np.int64)
with open("/proc/self/statm") as statm:
    used = int(statm.read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + (2 << 20),) * 2)
for call in (
    lambda: _kernels.read_pieces(
        file.fileno(), 0, count * size, places, 12, 2 * size, count, count * size, 0
    ),
    lambda: [view.body for _ in range(count)],
    lambda: _kernels.texts_of(window, starts, starts + size),
):
    try:
        print(type(call()))
    except MemoryError:
        print("MemoryError")
"""


@pytest.mark.costly
def test_a_read_with_little_memory_left_is_an_error_without_a_panic():
    done = run(READS_WITH_LITTLE_MEMORY)

    assert (done.returncode, done.stdout, done.stderr) == (0, "MemoryError\n" * 3, "")
