"""``reput/state``: its two slots, damage in them, and stores that have lost the file."""

from __future__ import annotations

import os
import struct
import zlib

import pytest
from openstores import plugin

import reput
from reput.files.system.disk import Disk
from reput.log.progress import HEAD, LOG, Progress, StateFile
from reput_testing import QuickDisk

CONFIG = {"commitlog": {"file_size": 1 << 16}}
OLDER = {"a": Progress(100, 60, 7).packed(), LOG: Progress(100, 60, 7).packed(), "a/state": b"{}"}
NEWER = {**OLDER, "a": Progress(200, 160, 8).packed(), LOG: Progress(200, 160, 8).packed()}
PAGE = 4096


def values(slots):
    return [{name: entry.value for name, entry in slot.items()} for slot in slots]


def written(path):
    """Save two states; return the bytes of the file, and where each slot has them."""
    state = StateFile(str(path), QuickDisk())
    state.save(OLDER)
    state.save(NEWER)
    data = path.read_bytes()
    sizes = [struct.unpack_from(">I", data, start + 16)[0] + 4 for start in (0, PAGE)]
    return data, [range(start, start + size) for start, size in zip((0, PAGE), sizes, strict=True)]


def damages(data, used):
    """Cut the file, and garble it, at every byte that either slot uses; and in both slots."""
    places = [place for part in used for place in part]
    for place in places:
        yield data[:place]
        for change in (0x01, 0x80, data[place] or 0xFF):
            yield data[:place] + bytes([data[place] ^ change]) + data[place + 1 :]
    for first, second in zip(*used, strict=False):
        garbled = bytearray(data)
        garbled[first] ^= 0x10
        garbled[second] ^= 0x10
        yield bytes(garbled)
        yield data[:first] + bytes(PAGE - first) + data[PAGE:second] + bytes(PAGE)


@pytest.mark.shows("progress")
def test_a_slot_that_is_damaged_at_any_byte_is_none_and_the_other_one_counts(tmp_path):
    path = tmp_path / "state"
    data, used = written(path)
    count = 0

    for damaged in damages(data, used):
        path.write_bytes(damaged)
        state = StateFile(str(path), QuickDisk())
        found = values(state.load())
        # All entries of one slot or none: what an older slot says is true, too.
        assert found in ([], [OLDER], [NEWER], [NEWER, OLDER])
        assert state.is_damaged == (found == [] and damaged != b"")
        state.save({"b": b"next"})
        kept = values(StateFile(str(path), QuickDisk()).load())
        assert kept == [{**(found[0] if found else {}), "b": b"next"}, *found[:1]]
        count += 1

    assert count > 4 * sum(map(len, used))


def slot(sequence, entries, *, count=None, magic=b"RPST", version=1, size=None):
    body = b"".join(
        bytes([len(name)]) + name + struct.pack(">qI", 1, length) + value
        for name, length, value in entries
    )
    total = 20 + len(body) if size is None else size
    count = len(entries) if count is None else count
    data = struct.pack(">4sHHqI", magic, version, count, sequence, total) + body
    return data + struct.pack(">I", zlib.crc32(data[:total]))


@pytest.mark.parametrize(
    "wrong",
    [
        slot(2, [(b"a", 5, b"x")]),
        slot(2, [(b"a", 1 << 31, b"x")]),
        slot(2, [(b"a", 1, b"x")], count=2),
        slot(2, [(b"a", 1, b"x")], count=65_535),
        slot(2, [(b"\xff", 1, b"x")]),
        slot(2, [], size=4),
        slot(2, [], size=(1 << 32) - 1),
        slot(2, [], magic=b"RPUT"),
        slot(2, [], version=2),
        slot(1, []),  # in the place of the other slot
        slot(0, []),
        slot(1 << 62, []),
        slot(-2, []),
    ],
)
def test_a_slot_that_no_writer_makes_does_not_count(tmp_path, wrong):
    path = tmp_path / "state"
    path.write_bytes(wrong.ljust(PAGE, b"\0") + slot(1, [(b"b", 1, b"y")]).ljust(PAGE, b"\0"))

    assert values(StateFile(str(path), QuickDisk()).load()) == [{"b": b"y"}]


@pytest.mark.parametrize(
    "value",
    [
        b"",
        bytes(24),
        bytes(26),
        struct.pack(">BqqII", 0, -1, -1, 0, 0),
        struct.pack(">BqqII", 0, 5, 6, 0, 0),
    ],
)
def test_a_value_that_is_no_progress_does_not_count(tmp_path, value):
    state = StateFile(str(tmp_path / "state"), QuickDisk())
    state.save({"a": value})

    assert state.entry("a").load() is None
    assert state.entry("a").recorded() is None


def test_slots_grow_with_their_entries_and_are_written_in_place_then(tmp_path):
    path, state = tmp_path / "state", StateFile(str(tmp_path / "state"), QuickDisk())
    for number in range(300):
        state.save({f"plugin{number}/state": b"x" * 100})
    grown, inode = path.stat().st_size, path.stat().st_ino
    state.save({"plugin7/state": b"y"})

    found = values(StateFile(str(path), QuickDisk()).load())
    assert (grown % (2 * PAGE), path.stat().st_size, path.stat().st_ino) == (0, grown, inode)
    assert [len(each) for each in found] == [300, 300]
    assert [each["plugin7/state"] for each in found] == [b"y", b"x" * 100]


def test_only_a_change_of_its_own_entry_changes_what_a_reader_compares(tmp_path):
    state, read = (StateFile(str(tmp_path / "state"), QuickDisk()) for _ in range(2))
    state.entry("a").save(Progress(10))
    before = read.entry("a").recorded()
    state.save({"b": b"x"})
    state.entry(LOG).save(Progress(99))
    unchanged = read.entry("a").recorded()
    state.entry("a").save(Progress(5))  # as a recovery lowers it
    state.entry("a").save(Progress(10))

    assert before == unchanged
    assert before != read.entry("a").recorded()
    assert before.physical_offset == read.entry("a").recorded().physical_offset


class TornDisk(QuickDisk):
    """Shows a half-written slot to the first so many reads."""

    def __init__(self, torn):
        self.torn = torn

    def read_if_exists(self, path, limit=1 << 20):
        data = super().read_if_exists(path, limit)
        if self.torn:
            self.torn -= 1
            return bytes(byte ^ 1 for byte in data)
        return data


@pytest.mark.parametrize(("torn", "found"), [(2, [NEWER, OLDER]), (3, [])])
def test_a_reader_reads_again_when_both_slots_change_under_it(tmp_path, torn, found):
    written(tmp_path / "state")

    assert values(StateFile(str(tmp_path / "state"), TornDisk(torn)).load()) == found


# --------------------------------------------------------------------------- whole stores


def seen_by(path, batches, mode="w"):
    """Open a store whose plugin notes what it gets."""

    def dispatch(self, batch):
        batches.extend(batch.physical_offset.tolist())

    return reput.open(path, mode, plugins=[plugin("notes", reput_dispatch=dispatch)], config=CONFIG)


@pytest.mark.parametrize("killed", [False, True])
@pytest.mark.parametrize("left", ["missing", "empty", "cut", "zeros", "noise"])
def test_without_a_whole_slot_everything_is_derived_from_the_log_again(tmp_path, left, killed):
    with seen_by(tmp_path, []) as store:
        starts = [store.put(reput.Message("t", b"x")).physical_offset for _ in range(5)]
        store.suspend_plugin("notes")
    path = tmp_path / "reput" / "state"
    size = path.stat().st_size
    path.unlink()
    damaged = {"empty": b"", "cut": b"RPST", "zeros": bytes(size), "noise": b"\xa5" * size}
    if left in damaged:
        path.write_bytes(damaged[left])
    if killed:
        (tmp_path / "abort").touch()

    with seen_by(tmp_path, [], "r") as reader:
        problems = [each for each in reader.problems if "reput/state: damaged" in each]
    again = []
    with seen_by(tmp_path, again) as store:
        assert store.wait_dispatched(10)
        assert [store.get(start).body for start in starts] == [b"x"] * 5
        after = StateFile.of(str(tmp_path), Disk()).entry(HEAD).load()

    assert again == starts
    assert len(problems) == (left in ("cut", "zeros", "noise", "empty"))
    assert after == Progress(0)


def test_files_of_an_earlier_layout_are_ignored_and_the_log_is_derived_again(tmp_path):
    with seen_by(tmp_path, []) as store:
        starts = [store.put(reput.Message("t", b"x")).physical_offset for _ in range(5)]
    own = tmp_path / "reput"
    (own / "state").unlink()
    for name in ("progress/notes", "plugins/notes.json", "flushed", "head"):
        os.makedirs((own / name).parent, exist_ok=True)
        (own / name).write_bytes(b"RPUT" + bytes(60))

    again = []
    with seen_by(tmp_path, again) as store:
        assert store.wait_dispatched(10)
    with seen_by(tmp_path, again) as store:
        assert store.problems == ()
        assert store.wait_dispatched(10)

    assert again == starts
