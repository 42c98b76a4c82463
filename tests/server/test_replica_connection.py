"""One connection of the HA port: what is sent, when, and for which reports it is closed."""

from __future__ import annotations

import struct

import pytest

from reput_server.replication.replica import (
    HEARTBEAT_SECONDS,
    NOT_REPORTED,
    SILENCE_SECONDS,
    Replica,
)

pytestmark = pytest.mark.shows("slave-report")

FILE_SIZE = 100_000


class FakeTransport:
    """Keeps what is written; `size` bytes of it are not taken by the system."""

    def __init__(self) -> None:
        self.data = bytearray()
        self.is_aborted = False
        self.size = 0

    def set_write_buffer_limits(self, high: int) -> None:
        self.high = high

    def get_extra_info(self, name: str) -> object:
        return ("10.0.0.7", 4711) if name == "peername" else self

    def fileno(self) -> int:
        return 9

    def write(self, data: bytes) -> None:
        self.data += data

    def is_closing(self) -> bool:
        return self.is_aborted

    def abort(self) -> None:
        self.is_aborted = True

    def get_write_buffer_size(self) -> int:
        return self.size

    def transfers(self) -> list[tuple[int, int]]:
        """Offsets and sizes of what was written; the bytes are those of the log."""
        found, at = [], 0
        while at < len(self.data):
            offset, size = struct.unpack_from(">qi", self.data, at)
            assert bytes(self.data[at + 12 : at + 12 + size]) == log_bytes(offset, size)
            found.append((offset, size))
            at += 12 + size
        return found


def log_bytes(offset: int, size: int) -> bytes:
    return bytes(at % 251 for at in range(offset, offset + size))


class FakeMaster:
    """A log of which a test says how much of it is there, and on disk."""

    def __init__(self, first: int, flushed: int, end: int) -> None:
        self.file_size = FILE_SIZE
        self.served_from, self.served_to, self.log_end = first, flushed, end
        self.loop = self
        self.now = 1_000.0
        self.reasons: list[str] = []
        self.on_thread: list[tuple[int, int]] = []
        self.has_threads = True
        self.reported_count = 0

    def time(self) -> float:
        return self.now

    def read(self, offset: int, size: int) -> bytes:
        if offset < self.served_from:
            return b""
        size = min(size, FILE_SIZE - offset % FILE_SIZE, self.log_end - offset)
        return log_bytes(offset, size)

    def read_on_thread(self, offset, size, done) -> bool:
        self.on_thread.append((offset, size))
        return self.has_threads

    def admit(self, replica, descriptor) -> str:
        return ""

    def refused(self, replica, reason) -> None:
        self.reasons.append(reason)

    def begun(self, replica) -> None:
        pass

    def reported(self, replica) -> None:
        self.reported_count += 1


def connected(master: FakeMaster) -> tuple[Replica, FakeTransport]:
    replica, transport = Replica(master), FakeTransport()
    replica.connection_made(transport)
    return replica, transport


def report(replica: Replica, offset: int) -> None:
    replica.data_received(struct.pack(">q", offset))


def test_nothing_is_sent_before_a_report_is_whole():
    master = FakeMaster(0, 5_000, 5_000)
    replica, transport = connected(master)

    for byte in struct.pack(">q", 4_000)[:-1]:
        replica.data_received(bytes([byte]))
    assert transport.data == b""
    replica.data_received(struct.pack(">q", 4_000)[-1:])

    assert transport.transfers() == [(4_000, 1_000)]


def test_what_is_not_on_disk_is_not_sent():
    master = FakeMaster(0, 5_000, 9_000)
    replica, transport = connected(master)

    report(replica, 4_000)
    assert transport.transfers() == [(4_000, 1_000)]
    master.served_to = 9_000
    replica.send()

    assert transport.transfers() == [(4_000, 1_000), (5_000, 4_000)]


def test_transfers_are_short_and_end_with_a_file():
    master = FakeMaster(0, 150_000, 150_000)
    replica, transport = connected(master)

    report(replica, 1)

    size = 32_768
    assert transport.transfers() == [
        *((1 + at * size, size) for at in range(3)),
        (1 + 3 * size, FILE_SIZE - 1 - 3 * size),
        (FILE_SIZE, size),
        (FILE_SIZE + size, 50_000 - size),
    ]


@pytest.mark.parametrize(
    ("first", "end", "begin"),
    [(0, 50_000, 0), (0, 350_000, 300_000), (0, 300_000, 300_000), (200_000, 200_000, 200_000)],
)
def test_an_empty_slave_gets_the_last_file(first, end, begin):
    master = FakeMaster(first, end, end)
    replica, transport = connected(master)

    report(replica, 0)

    assert replica.begin_offset == begin
    assert sum(size for _, size in transport.transfers()) == end - begin


@pytest.mark.parametrize(
    ("first", "flushed", "end", "offset", "reason"),
    [
        *(
            (100_000, 350_000, 350_000, at, f"below {at}, and this log ends at 350000")
            for at in (350_001, 1 << 40, (1 << 63) - 1)
        ),
        (0, 5_000, 9_000, 5_001, "below 5001, of which only what is below 5000 was sent"),
        (0, 5_000, 9_000, 9_000, "below 9000, of which only what is below 5000 was sent"),
        (100_000, 350_000, 350_000, 1, "the log from 1 on, which begins at 100000"),
        (100_000, 350_000, 350_000, 99_999, "the log from 99999 on, which begins at 100000"),
        *((0, 0, at, 2, "below 2") for at in (0, 1, 400)),
    ],
)
def test_a_slave_with_another_log_is_closed(first, flushed, end, offset, reason):
    master = FakeMaster(first, flushed, end)
    replica, transport = connected(master)

    report(replica, offset)

    assert transport.is_aborted
    assert transport.data == b""
    assert not replica.is_begun
    assert [reason in each for each in master.reasons] == [True]


@pytest.mark.parametrize("offset", [0, 1, 4_000, 5_000])
def test_the_first_report_acknowledges_nothing_and_the_next_one_does(offset):
    master = FakeMaster(0, 5_000, 9_000)
    replica, _ = connected(master)

    report(replica, offset)
    assert (replica.is_begun, replica.reported_offset) == (True, NOT_REPORTED)
    assert master.reported_count == 0
    report(replica, offset)

    assert replica.reported_offset == offset
    assert master.reported_count == 1


@pytest.mark.parametrize("end", [0, 400])
def test_a_log_with_nothing_on_disk_can_be_asked_for_its_first_byte(end):
    master = FakeMaster(0, 0, end)
    replica, transport = connected(master)

    report(replica, 1)
    report(replica, 1)
    assert replica.has_all
    assert replica.reported_offset == 0  # there is nothing that it could have
    replica.look(master.now + HEARTBEAT_SECONDS + 1)
    master.served_to = master.log_end = 1_000
    replica.send()
    report(replica, 1_000)

    assert not transport.is_aborted
    assert transport.transfers() == [(1, 0), (1, 999)]
    assert replica.reported_offset == 1_000


@pytest.mark.shows("no-thread")
def test_a_read_for_which_no_thread_can_be_started_is_tried_again():
    master = FakeMaster(0, 900_000, 900_000)
    replica, transport = connected(master)
    master.has_threads = False
    report(replica, 1)

    master.has_threads = True
    replica.send()
    replica.send()

    assert master.on_thread == [(1, 899_999)] * 2
    assert not transport.is_aborted


def test_a_report_of_what_was_not_sent_closes_the_connection():
    master = FakeMaster(0, 5_000, 9_000)
    replica, transport = connected(master)
    report(replica, 4_000)

    report(replica, 5_000)
    assert not transport.is_aborted
    report(replica, 5_001)

    assert transport.is_aborted
    assert replica.reported_offset == 5_000
    assert master.reasons == ["it reports offset 5001, and was sent the log below 5000"]


def test_a_log_that_was_trimmed_meanwhile_closes_the_connection():
    master = FakeMaster(0, 5_000, 5_000)
    replica, transport = connected(master)
    report(replica, 4_000)

    master.served_from, master.served_to = 200_000, 300_000
    replica.send()
    assert master.on_thread == [(5_000, 295_000)]
    replica._read(Done(b""))

    assert transport.is_aborted
    assert "does not have offset 5000 any more, and begins at 200000" in master.reasons[0]


class Done:
    """A future that is done."""

    def __init__(self, data: bytes) -> None:
        self.data = data

    def cancelled(self) -> bool:
        return False

    def exception(self) -> None:
        return None

    def result(self) -> bytes:
        return self.data


def test_what_is_old_is_read_in_blocks_on_a_thread_one_at_a_time():
    master = FakeMaster(0, 900_000, 900_000)
    replica, transport = connected(master)
    report(replica, 1)
    replica.send()
    assert master.on_thread == [(1, 899_999)]

    replica._read(Done(log_bytes(1, FILE_SIZE - 1)))

    assert sum(size for _, size in transport.transfers()) == FILE_SIZE - 1
    assert master.on_thread[1:] == [(FILE_SIZE, 800_000)]


def test_nothing_is_read_for_a_slave_that_does_not_read():
    master = FakeMaster(0, 1_000, 1_000)
    replica, transport = connected(master)
    report(replica, 0)
    replica.pause_writing()
    master.served_to = master.log_end = 2_000

    replica.send()
    replica.look(master.now + HEARTBEAT_SECONDS + 1)
    assert transport.transfers() == [(0, 1_000)]
    replica.resume_writing()

    assert transport.transfers() == [(0, 1_000), (1_000, 1_000)]


def test_a_heartbeat_comes_when_nothing_else_does():
    master = FakeMaster(0, 1_000, 1_000)
    replica, transport = connected(master)
    replica.look(master.now + HEARTBEAT_SECONDS + 1)
    assert transport.data == b""  # no report has come
    report(replica, 1_000)

    replica.look(master.now + HEARTBEAT_SECONDS)
    assert transport.data == b""
    replica.look(master.now + HEARTBEAT_SECONDS + 0.1)

    assert transport.transfers() == [(1_000, 0)]


def test_a_slave_that_says_nothing_is_closed():
    master = FakeMaster(0, 1_000, 1_000)
    replica, transport = connected(master)
    master.now += 15
    report(replica, -(1 << 50))

    replica.look(master.now + SILENCE_SECONDS)
    assert not transport.is_aborted
    replica.look(master.now + SILENCE_SECONDS + 0.1)

    assert transport.is_aborted
    assert master.reasons == ["it has reported nothing for 20 s"]


def test_an_observer_gets_the_log_and_acknowledges_nothing():
    master = FakeMaster(0, 1_000, 1_000)
    replica, transport = connected(master)
    report(replica, 600)

    report(replica, -(1 << 50))

    assert transport.transfers() == [(600, 400)]
    assert replica.reported_offset == -(1 << 50)
    assert not transport.is_aborted


def test_a_report_below_zero_is_no_beginning():
    master = FakeMaster(0, 1_000, 1_000)
    replica, transport = connected(master)

    report(replica, -1)
    assert transport.data == b""
    report(replica, 900)

    assert transport.transfers() == [(900, 100)]


def test_reports_that_come_with_the_first_one_are_taken_too():
    master = FakeMaster(0, 1_000, 1_000)
    replica, transport = connected(master)

    replica.data_received(struct.pack(">qqqq", -1, 600, 900, -(1 << 50)) + b"\0\0")

    assert transport.transfers() == [(600, 400)]
    assert replica.reported_offset == -(1 << 50)
