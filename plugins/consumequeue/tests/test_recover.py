"""What a queue is after a crash, a cut log or a trimmed one, against plain models of its units."""

from __future__ import annotations

import shutil
import struct
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from openstores import bodies_in

import reput
from reput.errors import CorruptFileError, PluginError
from reput.files import FilePool
from reput_consumequeue.layout import UNIT_SIZE, pre_blank_units
from reput_consumequeue.queue.consumequeue import ConsumeQueue
from reput_consumequeue.queue.recovery import correct_min_offset, recover, truncate
from reput_consumequeue.recordfiles import FileSet
from reput_testing import QuickDisk, ReadOnlyDisk, kill, snapshot

PER_FILE = 4
FILE_SIZE = PER_FILE * UNIT_SIZE
SIZE = 100  # of every record; record n begins at 250 n, so that there are gaps between them
STEP = 250


def _unit(number):
    return struct.pack(">qiq", STEP * number, SIZE, number)


def _place(root, units, *, first_file=0, per_file=PER_FILE):
    """Write unit bytes as the files of one queue, zeros behind them."""
    directory = Path(root) / "T" / "0"
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    data = b"".join(units)
    size = per_file * UNIT_SIZE
    for number in range(max(-(-len(data) // size), 1)):
        path = directory / f"{(first_file + number) * size:020d}"
        path.write_bytes(data[number * size : (number + 1) * size].ljust(size, b"\0"))
    return directory


def _load(root, *, writable=True, per_file=PER_FILE):
    disk = QuickDisk() if writable else ReadOnlyDisk()
    shared = FileSet(disk, FilePool(disk, 4, write=writable), per_file, writable=writable)
    queue = ConsumeQueue("T", 0, f"{root}/T/0", shared)
    queue.files.load()
    return queue


def _on_disk(root):
    paths = sorted((Path(root) / "T" / "0").iterdir())
    return b"".join(path.read_bytes() for path in paths)


def _extent(queue):
    return queue.min_offset, queue.max_offset, queue.max_physical_offset


def _end_of(number):
    return STEP * number + SIZE if number >= 0 else -1


# ------------------------------------------------------------------ finding the end


@pytest.mark.parametrize("kept", range(1, UNIT_SIZE))
@pytest.mark.parametrize("last", [2, 3, 6])
def test_a_unit_that_is_beyond_what_was_flushed_is_cut_however_it_was_torn(tmp_path, last, kept):
    torn = _unit(last)[:kept]
    _place(tmp_path, [*map(_unit, range(last)), torn])
    queue = _load(tmp_path)
    flushed = _end_of(last - 1)

    recover(queue, clean=False, known_offset=flushed)
    truncate(queue, flushed)

    assert _extent(queue) == (0, last, flushed)
    assert _on_disk(tmp_path).rstrip(b"\0") == b"".join(map(_unit, range(last))).rstrip(b"\0")


@pytest.mark.parametrize("hole", range(9))
def test_units_behind_a_hole_are_cut_and_do_not_come_back(tmp_path, hole):
    units = [_unit(number) for number in range(9)]
    units[hole] = bytes(UNIT_SIZE)
    _place(tmp_path, units)
    queue = _load(tmp_path)

    recover(queue, clean=False)
    again = _load(tmp_path)
    recover(again, clean=True)

    assert _extent(queue) == (0, hole, _end_of(hole - 1))
    assert _extent(again) == _extent(queue)
    assert _on_disk(tmp_path).rstrip(b"\0") == b"".join(units[:hole]).rstrip(b"\0")


@pytest.mark.parametrize("hole", range(1, 24))
def test_a_hole_is_found_however_many_files_were_written_since_the_last_flush(tmp_path, hole):
    units = [_unit(number) for number in range(24)]
    units[hole] = bytes(UNIT_SIZE)
    _place(tmp_path, units)
    queue = _load(tmp_path)

    recover(queue, clean=False, known_offset=_end_of(0))

    assert queue.max_offset == hole


def test_a_queue_that_was_closed_is_not_written_to(tmp_path):
    stale = [*map(_unit, range(5)), bytes(UNIT_SIZE), _unit(6)]
    _place(tmp_path, stale)
    before = snapshot(tmp_path)

    recover(_load(tmp_path), clean=True)

    assert snapshot(tmp_path) == before


def test_pre_blank_units_are_no_records_of_two_gibibytes(tmp_path):
    blank = pre_blank_units(1)
    _place(tmp_path, [blank, blank])
    empty = _load(tmp_path)
    recover(empty, clean=False)
    truncate(empty, 100_000)
    _place(tmp_path, [blank, blank, _unit(1)])
    queue = _load(tmp_path)
    recover(queue, clean=False)
    truncate(queue, 100_000)
    correct_min_offset(queue, 0)

    assert _extent(empty) == (0, 2, -1)
    assert _extent(queue) == (2, 3, _end_of(1))


# ------------------------------------------------------------------ cutting


@pytest.mark.parametrize("count", [1, 4, 5, 9])
def test_units_are_cut_above_every_end_of_the_log(tmp_path, count):
    for end in sorted({*range(0, STEP * count + STEP, 50), SIZE - 1, SIZE + 1}):
        _place(tmp_path, map(_unit, range(count)))
        queue = _load(tmp_path)
        recover(queue, clean=False)

        truncate(queue, end)

        kept = sum(_end_of(number) <= end for number in range(count))
        assert _extent(queue) == (0, kept, _end_of(kept - 1))
        left = _on_disk(tmp_path)
        assert left.rstrip(b"\0") == b"".join(map(_unit, range(kept))).rstrip(b"\0")
        assert len(left) == -(-kept // PER_FILE) * FILE_SIZE
        assert len(queue.files.bases) * FILE_SIZE == len(left)


def test_a_file_whose_first_unit_is_cut_goes_but_for_a_sole_one_that_names_the_place(tmp_path):
    _place(tmp_path, map(_unit, range(2 * PER_FILE, 2 * PER_FILE + 2)), first_file=2)
    queue = _load(tmp_path)
    recover(queue, clean=False)

    truncate(queue, 0)

    assert queue.files.bases == (2 * PER_FILE,)
    assert (queue.min_offset, queue.max_offset) == (2 * PER_FILE, 2 * PER_FILE)
    assert not _on_disk(tmp_path).strip(b"\0")


# ------------------------------------------------------------------ the minimum


@settings(max_examples=60, deadline=None)
@given(
    count=st.integers(1, 14),
    first_file=st.integers(0, 2),
    blanks=st.integers(0, PER_FILE - 1),
    minima=st.lists(st.integers(0, 20 * STEP), min_size=1, max_size=4),
    per_file=st.integers(2, PER_FILE),
)
def test_the_minimum_is_the_first_unit_that_the_log_still_has(
    tmp_path_factory, count, first_file, blanks, minima, per_file
):
    root = tmp_path_factory.mktemp("queue")
    blanks = min(blanks, per_file - 1)
    units = [pre_blank_units(1)] * blanks + [_unit(number) for number in range(count)]
    _place(root, units, first_file=first_file, per_file=per_file)
    queue = _load(root, per_file=per_file)
    recover(queue, clean=True)
    first = first_file * per_file + blanks

    for low in sorted(minima):
        correct_min_offset(queue, low)

        gone = sum(STEP * number < low for number in range(count))
        assert queue.min_offset == first + gone
        assert queue.max_offset == first + count
        queue.files.trim(queue.min_offset)
        bases = queue.files.bases
        assert bases[0] + per_file > queue.min_offset or len(bases) == 1


# ------------------------------------------------------------------ reading only


@pytest.mark.parametrize("damage", ["none", "torn", "hole", "beyond", "empty file"])
@pytest.mark.parametrize("clean", [True, False])
def test_a_read_only_opening_changes_nothing_whatever_it_finds(tmp_path, damage, clean):
    units = [_unit(number) for number in range(7)]
    if damage == "torn":
        units[6] = units[6][:11]
    if damage == "hole":
        units[3] = bytes(UNIT_SIZE)
    directory = _place(tmp_path, units)
    if damage == "empty file":
        (directory / f"{2 * FILE_SIZE:020d}").touch()
    before = snapshot(tmp_path)
    queue = _load(tmp_path, writable=False)

    recover(queue, clean=clean)
    truncate(queue, _end_of(1) if damage == "beyond" else 1 << 40)
    correct_min_offset(queue, STEP)

    assert snapshot(tmp_path) == before
    assert queue.max_offset == {"beyond": 2, "hole": 7 if clean else 3, "torn": 6}.get(damage, 7)


# ------------------------------------------------------------------ files that are wrong


@pytest.mark.parametrize("size", [1, 19, 20, FILE_SIZE - 1, FILE_SIZE + 20])
@pytest.mark.parametrize("number", [0, 1, 2])
def test_a_file_of_another_size_is_named_with_what_to_do(tmp_path, number, size):
    directory = _place(tmp_path, map(_unit, range(12)))
    path = directory / f"{number * FILE_SIZE:020d}"
    path.write_bytes(bytes(size))

    with pytest.raises(CorruptFileError) as caught:
        _load(tmp_path)

    assert caught.value.path == str(path)
    assert str(size) in str(caught.value)
    assert str(FILE_SIZE) in str(caught.value)
    assert "remove" in str(caught.value)


def test_an_empty_file_and_those_behind_it_are_none_and_known_to_be_lost(tmp_path):
    directory = _place(tmp_path, map(_unit, range(12)))
    (directory / f"{FILE_SIZE:020d}").write_bytes(
        b""
    )  # a power cut took a size that was not flushed

    files = _load(tmp_path).files

    assert files.lost_last
    assert files.bases == (0,)
    assert [path.name for path in directory.iterdir()] == [f"{0:020d}"]


@pytest.mark.parametrize("missing", [1, 2])
def test_a_missing_file_is_an_error_that_names_the_one_behind_it(tmp_path, missing):
    directory = _place(tmp_path, map(_unit, range(16)))
    (directory / f"{missing * FILE_SIZE:020d}").unlink()

    with pytest.raises(CorruptFileError) as caught:
        _load(tmp_path)

    assert caught.value.path == str(directory / f"{(missing + 1) * FILE_SIZE:020d}")
    assert "remove" in str(caught.value)


def test_a_file_named_by_no_multiple_of_its_size_is_an_error(tmp_path):
    directory = _place(tmp_path, map(_unit, range(4)))
    path = directory / f"{FILE_SIZE + 20:020d}"
    path.write_bytes(bytes(FILE_SIZE))

    with pytest.raises(CorruptFileError) as caught:
        _load(tmp_path)

    assert caught.value.path == str(path)


def test_files_that_are_no_part_of_a_queue_are_passed_over(tmp_path):
    directory = _place(tmp_path, map(_unit, range(8)))
    (directory / "notes.txt").write_text("mine")
    (directory / ("١" * 20)).write_text("digits of another script")
    (directory / f"{2 * FILE_SIZE:020d}").mkdir()

    queue = _load(tmp_path)
    recover(queue, clean=False)

    assert queue.max_offset == 8
    assert len(list(directory.iterdir())) == 5


# ------------------------------------------------------------------ the whole store

CONFIG = {"commitlog": {"file_size": 4096}, "consumequeue": {"units_per_file": PER_FILE}}


def _store(root, mode="w"):
    config = CONFIG if mode == "w" else None
    return reput.open(root, mode, plugins=["consumequeue"], config=config, disk=QuickDisk())


def _filled(root, count=30):
    with _store(root) as store:
        store.put_many([reput.Message("T", b"%d" % n, n % 2) for n in range(count)])
    return {info.queue_id: info.max_queue_offset for info in _queues(root)}


def _queues(root):
    with _store(root, "r") as store:
        return store.queues()


def test_what_the_error_advises_brings_every_message_back(tmp_path):
    _filled(tmp_path)
    path = tmp_path / "consumequeue" / "T" / "1" / f"{FILE_SIZE:020d}"
    path.write_bytes(path.read_bytes()[:-3])
    with _store(tmp_path) as store:
        # The store opens without the plugin, and says what is wrong where somebody asks it.
        (state,) = store.plugins()
        assert (state.state, str(path) in state.last_error) == ("suspended", True)
        with pytest.raises(PluginError, match="could not be opened"):
            store.read("T", 0, 0)
        with pytest.raises(PluginError, match="could not be opened"):
            store.queues()
        assert store.put(reput.Message("T", b"30", 0)).queue_offset == 15
        advised = state.last_error.split("remove ")[1].split(", and")[0]

        shutil.rmtree(advised)

        store.resume_plugin("consumequeue")
        assert store.wait_dispatched(10)
        assert bodies_in(store, "T", 0) == [b"%d" % n for n in range(0, 32, 2)]
        assert bodies_in(store, "T", 1) == [b"%d" % n for n in range(1, 30, 2)]

    with _store(tmp_path) as store:
        assert bodies_in(store, "T", 0) == [b"%d" % n for n in range(0, 32, 2)]
        assert bodies_in(store, "T", 1) == [b"%d" % n for n in range(1, 30, 2)]


def test_stray_files_do_not_say_how_large_a_queues_files_are(tmp_path):
    _filled(tmp_path)
    (tmp_path / "consumequeue" / "T" / "0" / ".notes").write_text("mine")

    with _store(tmp_path) as store:
        assert len(bodies_in(store, "T", 0)) == 15


def test_a_store_keeps_the_size_of_its_files_whatever_is_asked_for(tmp_path):
    _filled(tmp_path)
    other = {"consumequeue": {"units_per_file": 99}}

    with reput.open(tmp_path, plugins=["consumequeue"], config=other) as store:
        store.put(reput.Message("T", b"more", 0))
        store.wait_dispatched(10)
        assert store.report()["plugins"]["consumequeue"]["units_per_file"] == PER_FILE
        assert len(bodies_in(store, "T", 0)) == 16


class _NotingDisk(QuickDisk):
    """Notes which directories were flushed."""

    def __init__(self):
        self.flushed = []

    def flush_directory(self, path):
        self.flushed.append(path)
        super().flush_directory(path)


def test_units_that_are_cut_as_by_rocketmq_are_gone_before_the_next_message(tmp_path):
    config = {"commitlog": {"file_size": 4096, "recovery": "rocketmq"}}
    store = reput.open(tmp_path, plugins=["consumequeue"], config=config, threads=False)
    store.put(reput.Message("T", b"on disk"))
    end = store.log.max_physical_offset
    store.put(reput.Message("U", b"lost"))
    store.wait_dispatched()
    kill(store)
    with open(tmp_path / "commitlog" / f"{0:020d}", "r+b") as log:
        log.seek(end)
        log.write(bytes(4096 - end))

    disk = _NotingDisk()
    with reput.open(tmp_path, disk=disk, threads=False) as store:
        assert store.log.max_physical_offset == end
        assert not list((tmp_path / "consumequeue" / "U" / "0").iterdir())
        assert str(tmp_path / "consumequeue" / "U" / "0") in disk.flushed
