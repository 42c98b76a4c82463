"""The ledger of losses, and openings that are interrupted while they mend a log."""

from __future__ import annotations

import errno
import json
import os
import shutil
import threading

import pytest
from damaged_logs import (
    FILE_SIZE,
    damage,
    flip,
    killed,
    ledger,
    log_bytes,
    offsets,
    open_store,
)
from openstores import until
from statefiles import put_value, state_of, value_of

import reput
from reput.files.system.disk import Disk
from reput.log.losses import Loss, LossLedger
from reput.log.recovery.repair import Reflush
from reput.record.batch import Corruption, CorruptionKind
from reput_testing import FaultyDisk, QuickDisk, kill, snapshot

pytestmark = pytest.mark.shows("damaged-file")


def _written(root, sizes=(150,) * 40, **options):
    with open_store(root, **options) as store:
        places = [store.put(reput.Message("T", b"x" * size)) for size in sizes]
    killed(root)
    return places


def _ledger(root, *, writable=True, now=1):
    found = LossLedger(state_of(root), lambda: now)
    found.load(writable=writable)
    return found


# ------------------------------------------------------------------ the file


def test_what_is_noted_is_read_back(tmp_path):
    (tmp_path / "reput").mkdir()
    noted = [
        Loss(5, 10, "BODY_CRC", 'é\n"', "T", 1, 2, "filled", "kept"),
        Loss(20, 30, "cut", action="cut"),
    ]

    _ledger(tmp_path, now=77).begin(noted)
    found = _ledger(tmp_path)

    assert [(loss.start_offset, loss.detail, loss.timestamp) for loss in found.entries] == [
        (5, 'é\n"', 77),
        (20, "", 77),
    ]
    assert found.pending == set(found.entries)
    found.finish()
    assert _ledger(tmp_path).pending == frozenset()
    assert _ledger(tmp_path).entries == found.entries


def test_an_entry_is_added_to_those_that_there_are(tmp_path):
    (tmp_path / "reput").mkdir()
    found = _ledger(tmp_path)
    found.note(Loss(5, 10, "BODY_CRC"))
    inode = os.stat(found.state.path).st_ino

    found.note(Loss(50, 60, "BODY_CRC"))

    assert os.stat(found.state.path).st_ino == inode
    assert [each.start_offset for each in _ledger(tmp_path).entries] == [5, 50]


def test_losses_are_found_by_the_bytes_they_have_in_a_range(tmp_path):
    found = _ledger(tmp_path, writable=False)
    assert found.between(0, 100) == ()
    found.note(Loss(10, 20, "BODY_CRC"))

    assert [len(found.between(*span)) for span in ((0, 10), (0, 11), (19, 99), (20, 99))] == [
        0,
        1,
        1,
        0,
    ]


@pytest.mark.parametrize(
    "junk",
    [
        b'{"start_offset": 0, "end_offset": 1, "reason": "BODY_CRC", "keys": ["k"]}',
        b"",
        b"\0" * 4096,
        b"{",
        b"[]",
        b"null",
        b"5",
        b'{"start_offset": 5}',
        b'{"start_offset": "a", "end_offset": 9, "reason": "x"}',
        b'{"start_offset": 9, "end_offset": 5, "reason": "x"}',
        b'{"start_offset": true, "end_offset": 5, "reason": "x"}',
        b'{"start_offset": 1, "end_offset": 5, "reason": ["x"]}',
        b'{"start_offset": -1, "end_offset": 5, "reason": "x"}',
        b"\xff\xfe",
        b"[" * 100_000,
        b'{"start_offset": 1e999, "end_offset": 5, "reason": "x"}',
    ],
)
def test_a_line_of_the_ledger_that_cannot_be_read_is_passed_over(tmp_path, junk):
    places = _written(tmp_path)
    flip(tmp_path, places[3].physical_offset + 90)
    with open_store(tmp_path) as store:
        good = store.losses()
    put_value(tmp_path, ".losses", junk + b"\n" + value_of(tmp_path, ".losses"))

    for mode in ("r", "w"):
        with open_store(tmp_path, mode) as store:
            assert store.losses() == good


def test_what_a_later_release_adds_to_an_entry_is_passed_over(tmp_path):
    (tmp_path / "reput").mkdir()
    entry = {"start_offset": 1, "end_offset": 2, "reason": "x", "new": [1]}
    put_value(tmp_path, ".losses", json.dumps(entry).encode())

    assert _ledger(tmp_path).entries == (Loss(1, 2, "x"),)


# ------------------------------------------------------------------ noting


def test_damage_that_is_passed_over_twice_is_one_loss(tmp_path):
    with open_store(tmp_path) as store:
        places = [store.put(reput.Message("T", b"x" * 50)) for _ in range(5)]
        lost = places[2]
        finding = Corruption(lost.physical_offset, CorruptionKind.BAD_MAGIC, "magic 00000000")
        damage = store.log.damage_at(lost.physical_offset, lost.end_offset, finding)
        for _ in range(2):
            store.log.note_loss(damage)
        (loss,) = store.losses()
        assert store.log.losses(0, lost.physical_offset) == ()
        assert store.log.losses(lost.physical_offset, lost.end_offset) == (loss,)

    assert (loss.action, loss.reason, loss.topic, loss.queue_offset) == (
        "skipped",
        "BAD_MAGIC",
        "T",
        2,
    )
    with open_store(tmp_path) as store:
        assert store.losses() == [loss]


def test_what_was_passed_over_and_then_filled_is_one_loss(tmp_path):
    places = _written(tmp_path)
    lost = places[3]
    flip(tmp_path, lost.physical_offset + 90)
    (tmp_path / "reput").mkdir(exist_ok=True)
    _ledger(tmp_path).note(Loss(lost.physical_offset, lost.end_offset, "BODY_CRC"))

    with open_store(tmp_path) as store:
        (loss,) = store.losses()

    assert loss.action == "filled"


def test_a_second_loss_at_the_same_place_is_a_second_entry(tmp_path):
    places = _written(tmp_path, [50] * 5)
    damage(tmp_path, places[-1].end_offset - 10, bytes(10))
    with open_store(tmp_path) as store:
        again = store.put(reput.Message("T", b"y" * 50))
        assert again.physical_offset == places[-1].physical_offset
    killed(tmp_path)
    damage(tmp_path, again.end_offset - 10, bytes(10))

    with open_store(tmp_path) as store:
        first, second = store.losses()

    assert (first.start_offset, first.end_offset) == (second.start_offset, second.end_offset)
    assert first.kept != second.kept


# ------------------------------------------------------------------ interrupted openings


def _damaged(root, **options):
    """A killed store with three holes and a torn end, one of them over the end of a file."""
    places = _written(root, (150,) * 80, **options)
    border = max(each.physical_offset for each in places if each.physical_offset < FILE_SIZE)
    flip(root, places[3].physical_offset + 90)
    damage(root, border, b"\xdd" * (FILE_SIZE + 300 - border))
    damage(root, places[50].physical_offset, bytes(700))
    damage(root, places[-1].end_offset - 7, b"garbage")
    return places


def _open_and_die(root, disk, **options):
    """Open a store on a disk that fails; it is as a crash leaves it."""
    try:
        store = open_store(root, disk=disk, **options)
    except OSError:
        return False
    # What follows the mending may fail, too; nothing may close the store.
    kill(store)
    return True


def _comparable(root):
    kept = snapshot(root / "reput" / "lost+found")
    kept.pop(".new", None)
    return log_bytes(root), ledger(root), kept


@pytest.mark.shows("repeated-recovery")
@pytest.mark.proof
@pytest.mark.parametrize("recovery", ["reput", "rocketmq"])
@pytest.mark.costly
def test_an_opening_that_is_interrupted_anywhere_is_finished_by_the_next_one(tmp_path, recovery):
    damaged = tmp_path / "damaged"
    _damaged(damaged, recovery=recovery)
    whole = tmp_path / "whole"
    shutil.copytree(damaged, whole)
    counting = FaultyDisk()
    assert _open_and_die(whole, counting, recovery=recovery)
    expected = _comparable(whole)
    assert len(expected[1]) >= 4
    assert len(expected[2]) >= 4

    for number in range(1, len(counting.calls) + 1):
        root = tmp_path / f"failed-{number}"
        shutil.copytree(damaged, root)
        _open_and_die(root, FaultyDisk(number, error=errno.EIO, lasting=True), recovery=recovery)
        with open_store(root, recovery=recovery) as store:
            found = offsets(store)
        assert _comparable(root) == expected, counting.calls[number - 1]
        assert found == _offsets(whole)
        assert not any("pending" in entry for entry in ledger(root))
        shutil.rmtree(root)


def _offsets(root):
    with open_store(root, "r") as store:
        return offsets(store)


def test_with_rocketmqs_rules_a_cut_that_was_interrupted_is_not_taken_back(tmp_path):
    places = _written(tmp_path, recovery="rocketmq")
    flip(tmp_path, places[3].physical_offset + 90)
    counting = FaultyDisk(operations={"write"})
    scratch = tmp_path.parent / "scratch"
    shutil.copytree(tmp_path, scratch)
    assert _open_and_die(scratch, counting, recovery="rocketmq")
    clearing = next(n for n, (_, path) in enumerate(counting.calls, 1) if "/commitlog/" in path)
    failing = FaultyDisk(clearing, error=errno.EIO, lasting=True, operations={"write"})

    assert not _open_and_die(tmp_path, failing, recovery="rocketmq")
    # Half of what was to be cleared is zero now, and sound records stand behind it.
    with open_store(tmp_path, recovery="reput") as store:
        assert offsets(store) == [each.physical_offset for each in places[:3]]


# ------------------------------------------------------------------ where reading begins


class _CountingDisk(QuickDisk):
    """Counts the bytes of the log that are read, and remembers where it is written."""

    def __init__(self):
        self.read_size = 0
        self.written = []

    def _is_log(self, descriptor):
        return "/commitlog/" in os.readlink(f"/proc/self/fd/{descriptor}")

    def read(self, descriptor, size, position):
        data = super().read(descriptor, size, position)
        if self._is_log(descriptor):
            self.read_size += len(data)
        return data

    def read_into(self, descriptor, buffer, position):
        count = super().read_into(descriptor, buffer, position)
        if self._is_log(descriptor):
            self.read_size += count
        return count

    def write(self, descriptor, data, position):
        if self._is_log(descriptor):
            base = int(os.path.basename(os.readlink(f"/proc/self/fd/{descriptor}")))
            self.written.append((base + position, base + position + len(data), bytes(data)))
        super().write(descriptor, data, position)


def _killed_behind_a_flush(root, count, more=5):
    """The places of messages behind the last flush of a store whose writer was killed."""
    store = open_store(root)
    for _ in range(count):
        store.put(reput.Message("T", b"x" * 150))
    store.flush()
    places = [store.put(reput.Message("T", b"y" * 150)) for _ in range(more)]
    kill(store)
    return places


@pytest.mark.shows("short-recovery")
@pytest.mark.parametrize("mode", ["w", "r"])
def test_after_a_kill_only_what_was_written_since_the_last_flush_is_read(tmp_path, mode):
    sizes = []
    for count in (30, 300):
        root = tmp_path / str(count)
        places = _killed_behind_a_flush(root, count)
        disk = _CountingDisk()
        with open_store(root, mode, disk=disk) as store:
            assert store.recovery.start_offset == places[0].physical_offset
            assert store.recovery.message_count == len(places)
            sizes.append(disk.read_size)
            if mode == "r":
                assert len(offsets(store)) == count + len(places)
    if mode == "r":  # a writer without plugins counts queue offsets, which takes all of the log
        assert sizes[1] <= sizes[0] + 4 * FILE_SIZE


def test_a_place_where_another_record_stands_now_is_not_believed(tmp_path):
    places = _killed_behind_a_flush(tmp_path, 30)
    last_flushed = places[0].physical_offset - places[0].size
    flip(tmp_path, last_flushed + 95)

    with open_store(tmp_path) as store:
        assert store.recovery.start_offset == 0
        assert [loss.start_offset for loss in store.losses()] == [last_flushed]
        assert len(offsets(store)) == 30 + len(places) - 1


def test_a_damaged_file_of_that_place_is_not_believed(tmp_path):
    places = _killed_behind_a_flush(tmp_path, 30)
    path = tmp_path / "reput" / "state"
    path.write_bytes(b"\xa5" * 8192 + path.read_bytes()[8192:])

    with open_store(tmp_path) as store:
        assert store.recovery.start_offset == 0
        assert len(offsets(store)) == 30 + len(places)


def test_with_rocketmqs_rules_reading_begins_where_rocketmq_begins(tmp_path):
    _killed_behind_a_flush(tmp_path, 30)

    with open_store(tmp_path, recovery="rocketmq") as store:
        assert store.recovery.start_offset % FILE_SIZE == 0
        assert store.recovery.message_count > 5


@pytest.fixture(params=[True, False], ids=["beside", "before"])
def beside(request, monkeypatch):
    """Whether the log is written again on a thread, which is done when plugins are opened."""
    start, threads = Reflush.start, []

    def start_and_wait(reflush):
        start(reflush)
        threads.extend(reflush._threads)
        until(lambda: reflush._failures or not reflush._left)

    monkeypatch.setattr("reput.log.recovery.repair._BESIDE_MIN", 0)
    monkeypatch.setattr(Reflush, "start", start_and_wait)
    yield request.param
    assert bool(threads) == request.param


@pytest.mark.shows("written-again")
def test_what_is_not_known_to_be_on_disk_is_written_again_and_then_flushed(tmp_path, beside):
    places = _killed_behind_a_flush(tmp_path, 30)
    before = log_bytes(tmp_path)
    disk = _CountingDisk()

    with open_store(tmp_path, disk=disk, threads=beside) as store:
        start, end = places[0].physical_offset, places[-1].end_offset
        again = [(first, stop) for first, stop, data in disk.written if data.strip(b"\0")]
        assert min(first for first, _ in again) == start
        assert max(stop for _, stop in again) == end
        assert sum(stop - first for first, stop in again) == end - start
        assert store.log.flushed_offset == end
    assert log_bytes(tmp_path)[:end] == before[:end]


def test_an_opening_that_fails_does_not_wait_until_all_is_written_again(tmp_path, monkeypatch):
    _killed_behind_a_flush(tmp_path, 30)
    monkeypatch.setattr("reput.log.recovery.repair._BESIDE_MIN", 0)
    monkeypatch.setattr("reput.log.recovery.repair._COPY_SIZE", 16)
    has_begun, reflushes, written = threading.Event(), [], []
    start = Reflush.start
    monkeypatch.setattr(Reflush, "start", lambda each: (reflushes.append(each), start(each)))

    class SlowDisk(Disk):
        def write(self, descriptor, data, position):
            if threading.current_thread().name == "reput-reflush":
                has_begun.set()
                until(lambda: reflushes[0]._is_given_up)
                written.append(threading.get_ident())
            super().write(descriptor, data, position)

    def fail(*_):
        assert has_begun.wait(10)
        raise OSError("no")

    monkeypatch.setattr("reput.store.opening.writeropening.WorkScheduler", fail)
    with pytest.raises(OSError, match="no"):
        open_store(tmp_path, disk=SlowDisk(), threads=True)
    assert len(written) == len(set(written)) > 0  # one piece by each thread
    assert "reput-reflush" not in [thread.name for thread in threading.enumerate()]


def test_a_failed_flush_of_what_was_recovered_is_an_error_of_opening(tmp_path, beside):
    _killed_behind_a_flush(tmp_path, 30)
    failed, state = [], (tmp_path / "reput" / "state").read_bytes()

    class FailingDisk(Disk):
        def flush(self, descriptor):
            path = os.readlink(f"/proc/self/fd/{descriptor}")
            if "/commitlog/" in path:
                failed.append(path)
                raise OSError(errno.EIO, "no")
            super().flush(descriptor)

    with pytest.raises(OSError, match="no"):
        open_store(tmp_path, disk=FailingDisk(), threads=beside)
    assert len(failed) == len(set(failed)) > 0  # a second flush could succeed without the bytes
    assert (tmp_path / "reput" / "state").read_bytes() == state  # no progress beyond the log
    with open_store(tmp_path) as store:
        assert len(offsets(store)) == 35


def test_what_a_full_disk_has_not_taken_is_written_when_there_is_space(tmp_path, beside):
    places = _killed_behind_a_flush(tmp_path, 30)
    refused, flushed = [], []

    class FullDisk(Disk):
        def write_some(self, descriptor, data, position):
            if "/commitlog/" in os.readlink(f"/proc/self/fd/{descriptor}") and not refused:
                refused.append(position)
                raise OSError(errno.ENOSPC, "no space")
            return super().write_some(descriptor, data, position)

        def flush(self, descriptor):
            if "/commitlog/" in os.readlink(f"/proc/self/fd/{descriptor}"):
                flushed.append(descriptor)
            super().flush(descriptor)

    disk = FullDisk()
    if not beside:
        with pytest.raises(OSError, match="no space"):
            open_store(tmp_path, disk=disk, threads=False)
        assert not flushed
    with open_store(tmp_path, disk=disk, threads=beside) as store:
        assert flushed
        assert store.log.flushed_offset == places[-1].end_offset
