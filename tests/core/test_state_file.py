"""``reput/state``: its slots and its journal, damage in them, and stores without the file."""

from __future__ import annotations

import errno
import os
import re
import struct
import time
import zlib

import pytest
from openstores import plugin
from statefiles import damage_journal, manifest_of, value_of

import reput
from reput.errors import ConfigError, CorruptFileError, ReadOnlyStoreError
from reput.files.system.disk import Disk
from reput.log.progress import Progress, ProgressEntry
from reput.log.stateblocks import JOURNAL, Block, block_of
from reput.log.statefile import HEAD, LOG, StateFile
from reput.storefiles import MANIFEST
from reput_testing import FaultyDisk, QuickDisk

CONFIG = {"commitlog": {"file_size": 1 << 16}}
OLDER = {"a": Progress(100, 60, 7).packed(), LOG: Progress(100, 60, 7).packed(), "a/state": b"{}"}
NEWER = {**OLDER, "a": Progress(200, 160, 8).packed(), LOG: Progress(200, 160, 8).packed()}
PAGE = 4096


def values(slots):
    return [{name: entry.value for name, entry in slot.items()} for slot in slots]


def journal(state):
    return {name: state.value(name) for name in state.names()}


def opened(path):
    return StateFile(str(path), QuickDisk())


NOTES = [{"one": b"1"}, {"one": b"1", "two": b"2" * 300}, {"one": b"1+", "two": b"2" * 300}]
"""What the journal says after each of its blocks."""


def written(path):
    """Save two states and three notes; return the bytes, and where slots and blocks have them."""
    state = opened(path)
    state.save(OLDER)
    for changed, adds in (
        ({"one": b"1"}, False),
        ({"two": b"2" * 300}, False),
        ({"one": b"+"}, True),
    ):
        state.note(changed, adds=adds)
    state.save(NEWER)
    data = path.read_bytes()
    places = [0, PAGE, *(match.start() for match in re.finditer(b"RPSJ", data))]
    sizes = [struct.unpack_from(">I", data, start + 10)[0] + 4 for start in places]
    parts = [range(start, start + size) for start, size in zip(places, sizes, strict=True)]
    assert (len(parts), parts[-1].stop) == (5, len(data))
    return data, parts


def damages(data, used):
    """Cut the file, and garble it, at every byte of some parts; and in two parts at once."""
    for place in (place for part in used for place in part):
        yield data[:place]
        for change in (0x01, 0x80, data[place] or 0xFF):
            yield data[:place] + bytes([data[place] ^ change]) + data[place + 1 :]
    for first, second in zip(*used[:2], strict=False):
        garbled = bytearray(data)
        garbled[first] ^= 0x10
        garbled[second] ^= 0x10
        yield bytes(garbled)


@pytest.mark.shows("progress")
@pytest.mark.parametrize("parts", [slice(0, 2), slice(2, 5)], ids=["slots", "journal"])
def test_what_is_damaged_at_any_byte_does_not_count_and_the_rest_does(tmp_path, parts):
    path = tmp_path / "state"
    data, used = written(path)
    count = 0

    for damaged in damages(data, used[parts]):
        path.write_bytes(damaged)
        state = opened(path)
        found, noted = values(state.load()), journal(state)
        # All entries of one slot or none: what an older slot says is true, too.
        assert found in ([], [OLDER], [NEWER], [NEWER, OLDER])
        assert state.is_damaged == (found == [])
        if noted != NOTES[-1] and NEWER in found:
            assert state.damage
        assert set(noted) <= {"one", "two"}
        assert noted.get("one") in (None, b"1", b"+", b"1+")
        assert noted.get("two") in (None, b"2" * 300)
        state.save({"b": b"next"})
        state.note({"three": b"3"})
        again = opened(path)
        kept = values(again.load())
        assert kept[0] == {**(found[0] if found else {}), "b": b"next"}
        assert kept[1:] == found[:1]
        assert journal(again) == {**noted, "three": b"3"}
        assert again.damage == ""
        for each in tmp_path.glob("state.damaged*"):
            each.unlink()
        count += 1

    assert count > 3 * sum(map(len, used[parts]))


def test_a_damaged_file_is_kept_before_it_is_replaced(tmp_path):
    path = tmp_path / "state"
    data, used = written(path)
    damaged = bytearray(data)
    damaged[used[3].start + 60] ^= 1
    path.write_bytes(damaged)

    opened(path).save({"b": b"next"})

    assert (tmp_path / "state.damaged").read_bytes() == damaged


def test_one_copy_of_a_damaged_file_is_kept_however_often_it_cannot_be_replaced(tmp_path):
    path = tmp_path / "state"
    data, _ = written(path)
    path.write_bytes(data[:-1])
    state = opened(path)
    state.disk = FaultyDisk(1, error=errno.EIO, lasting=True, below="state.new")

    for _ in range(3):
        with pytest.raises(OSError):
            state.save({"b": b"next"})

    assert [each.name for each in tmp_path.glob("state.damaged*")] == ["state.damaged"]


@pytest.mark.parametrize("count", range(4))
def test_a_part_that_was_being_written_is_overwritten(tmp_path, count):
    """A kill leaves a part of a block, or of the next one, behind the journal."""
    path = tmp_path / "state"
    data, used = written(path)
    block = data[used[3].start : used[3].stop]
    torn = (b"RPSJ", block[:50], bytes(len(block)), block)[count]
    path.write_bytes(data + torn)

    state = opened(path)
    assert (journal(state), state.damage) == (NOTES[-1], "")
    state.note({"two": b""})
    again = opened(path)
    assert (journal(again), again.damage) == ({"one": b"1+"}, "")


def test_a_journal_that_is_cut_below_what_a_slot_knows_is_damaged(tmp_path):
    path = tmp_path / "state"
    data, used = written(path)
    path.write_bytes(data[: used[4].start])

    state = opened(path)
    state.load()

    assert (journal(state), state.damage) == (
        NOTES[1],
        f"the journal is damaged at byte {used[4].start}",
    )


def test_a_journal_of_which_little_counts_is_written_again(tmp_path):
    path, state = tmp_path / "state", opened(tmp_path / "state")
    state.save({"a": b"x"})
    for number in range(100):
        state.note({"times": bytes([number]) * 2_000})
        state.note({"rows": bytes([number])}, adds=True)
    again = opened(path)

    assert path.stat().st_size < 2 * PAGE + 12_000
    assert again.value("times") == bytes([99]) * 2_000
    assert again.value("rows") == bytes(range(100))
    assert values(again.load()) == [{"a": b"x"}]


def test_a_reader_sees_what_was_noted_before_the_newest_slot(tmp_path):
    path = tmp_path / "state"
    state = opened(path)
    state.save({"a": b"1"})
    reader = opened(path)
    reader.load()
    state.note({"n": b"noted"})
    state.save({"a": b"2"})

    assert reader.value("n") == b""
    assert values(reader.load())[0] == {"a": b"2"}
    assert reader.value("n") == b"noted"


def test_a_reader_follows_slots_that_have_grown_or_are_gone(tmp_path):
    path, state = tmp_path / "state", opened(tmp_path / "state")
    state.save({"a": b"1"})
    reader = opened(path)
    reader.load()

    state.save({"b": b"x" * PAGE})
    assert values(reader.load())[0] == {"a": b"1", "b": b"x" * PAGE}
    path.unlink()
    assert reader.load() == []


class FullDisk(QuickDisk):
    """Has no space for more than so many bytes of new files."""

    def __init__(self, size=0):
        self.size = size

    def create_fresh(self, path):
        if not self.size:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)
        return super().create_fresh(path)

    def write_some(self, descriptor, data, position):
        if position + len(data) > self.size > 0 == position:
            super().write_some(descriptor, data[: self.size], position)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return super().write_some(descriptor, data, position)


@pytest.mark.parametrize("size", [0, 3 * PAGE])
def test_slots_and_journal_are_written_in_place_on_a_disk_without_space_for_a_file(tmp_path, size):
    path, state = tmp_path / "state", opened(tmp_path / "state")
    state.save({"a": b"1"})
    state.note({"n": b"x" * 2 * PAGE})
    state.note({"n": b"y"})
    state.disk, used = FullDisk(size), path.stat().st_size

    state.note({"n": b"z" * 2 * PAGE})  # would have the file written again
    state.note({"n": b"!"}, adds=True)
    state.save({"a": b"2"})

    again = opened(path)
    assert values(again.load()) == [{"a": b"2"}, {"a": b"1"}]
    assert journal(again) == journal(state) == {"n": b"z" * 2 * PAGE + b"!"}
    assert path.stat().st_size > used
    assert os.listdir(tmp_path) == ["state"]
    state.disk = QuickDisk()
    for value in (b"soon", b"later"):
        state.note({"n": value})
    assert path.stat().st_size < 3 * PAGE
    assert journal(opened(path)) == {"n": b"later"}


class HandlerDisk(QuickDisk):
    """Calls a function before one of its operations, as a signal handler would."""

    def __init__(self):
        self.left, self.handler = -1, None

    def _step(self):
        self.left -= 1
        if self.left == 0:
            self.handler()

    def open(self, *args, **options):
        self._step()
        return super().open(*args, **options)

    def write(self, *args):
        self._step()
        return super().write(*args)

    def flush(self, *args):
        self._step()
        return super().flush(*args)

    def rename(self, *args):
        self._step()
        return super().rename(*args)


CHANGES = {
    "save": lambda state, name: state.save({name: b"saved"}),
    "grow": lambda state, name: state.save({name: b"x" * PAGE}),
    "both": lambda state, name: state.save_in_both({name: b"saved"}),
    "note": lambda state, name: state.note({name: b"noted"}),
    "add": lambda state, name: state.note({"rows": name.encode() * 20}, adds=True),
    "load": lambda state, name: state.load(),
}


@pytest.mark.parametrize("of_handler", CHANGES)
@pytest.mark.parametrize("interrupted", CHANGES)
def test_a_signal_handler_may_write_in_the_middle_of_a_call(tmp_path, interrupted, of_handler):
    for step in range(1, 20):
        path, disk = tmp_path / f"state{step}", HandlerDisk()
        state = StateFile(str(path), disk)
        state.note_everywhere({"first": b"1"}, {})
        state.note({"rows": b"begun"})
        disk.left, disk.handler = step, lambda of=state: CHANGES[of_handler](of, "h")
        CHANGES[interrupted](state, "m")

        again = opened(path)
        assert values(again.load()) == values(state.known)
        assert (journal(again), again.damage) == (journal(state), "")
        if disk.left > 0:
            break
    assert step > 1


def test_a_note_that_cannot_be_written_changes_nothing(tmp_path):
    path = tmp_path / "state"
    written(path)
    disk = FaultyDisk(1, error=errno.EIO, operations={"flush"})
    state = StateFile(str(path), disk)
    before = journal(state)

    with pytest.raises(OSError):
        state.note({"one": b"other"})
    assert journal(state) == before
    state.note({"two": b"next"})

    assert journal(opened(path)) == {**before, "two": b"next"}


def slot(
    sequence, entries, *, count=None, magic=b"RPST", version=2, size=None, pages=1, generation=1
):
    body = b"".join(
        bytes([len(name)]) + name + struct.pack(">qI", 1, length) + value
        for name, length, value in entries
    )
    total = 42 + len(body) if size is None else size
    count = len(entries) if count is None else count
    header = magic, version, count, total, pages * PAGE, generation, sequence, 2 * pages * PAGE
    data = struct.pack(">4sHIIIqqq", *header) + body
    return data + struct.pack(">I", zlib.crc32(data[:total]))


@pytest.mark.parametrize(
    "wrong",
    [
        slot(2, [(b"a", 5, b"x")]),
        slot(2, [(b"a", 1 << 31, b"x")]),
        slot(2, [(b"a", 1, b"x")], count=2),
        slot(2, [(b"a", 1, b"x")], count=(1 << 32) - 1),
        slot(2, [(b"\xff", 1, b"x")]),
        slot(2, [], size=4),
        slot(2, [], size=(1 << 32) - 1),
        slot(2, [], magic=b"RPUT"),
        slot(2, [], version=3),
        slot(2, [], pages=0),
        slot(2, [], pages=1 << 19),
        slot(2, [], generation=0),
        slot(2, [], generation=(1 << 63) - 1),
        slot(1, []),  # in the place of the other slot
        slot(0, []),
        slot(1 << 62, []),
        slot(-2, []),
    ],
)
def test_a_slot_that_no_writer_makes_does_not_count(tmp_path, wrong):
    path = tmp_path / "state"
    path.write_bytes(wrong.ljust(PAGE, b"\0") + slot(1, [(b"b", 1, b"y")]).ljust(PAGE, b"\0"))

    assert values(opened(path).load()) == [{"b": b"y"}]


def test_many_parts_that_only_seem_to_be_a_journal_are_looked_at_for_a_short_time(tmp_path):
    """Each would have a checksum of all bytes behind it, were it whole."""
    path, size = tmp_path / "state", 1 << 21
    data = bytearray(slot(2, []).ljust(PAGE, b"\0") + slot(1, []).ljust(PAGE, b"\0"))
    sequence = 1
    while len(data) < size - 42_000:
        for start in range(len(data), len(data) + 900 * 42, 42):
            counts = 0, size - start - 4, PAGE, 1, 7, size
            data += struct.pack(">4sHIIIqqq", b"RPSJ", 2, *counts)
        sequence += 2
        data += block_of(JOURNAL, Block(PAGE, 1, sequence, len(data), {}))
    path.write_bytes(data.ljust(size, b"\0"))

    begun = time.thread_time()
    opened(path).load()
    assert time.thread_time() - begun < 5


def test_a_journal_is_written_again_before_it_is_longer_than_what_is_read(tmp_path, monkeypatch):
    monkeypatch.setattr("reput.log.statefile._SIZE_MAX", 1 << 16)
    state = opened(tmp_path / "state")
    state.save({"a": b"1"})
    for number in range(2):
        state.note({"rows": bytes([number]) * 29_000})

    assert opened(tmp_path / "state").value("rows") == b"\1" * 29_000


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

    assert ProgressEntry(state, "a").load() is None
    assert ProgressEntry(state, "a").recorded() is None


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
    ProgressEntry(state, "a").save(Progress(10))
    before = ProgressEntry(read, "a").recorded()
    state.save({"b": b"x"})
    ProgressEntry(state, LOG).save(Progress(99))
    unchanged = ProgressEntry(read, "a").recorded()
    ProgressEntry(state, "a").save(Progress(5))  # as a recovery lowers it
    ProgressEntry(state, "a").save(Progress(10))

    assert before == unchanged
    assert before != ProgressEntry(read, "a").recorded()
    assert before.physical_offset == ProgressEntry(read, "a").recorded().physical_offset


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
@pytest.mark.parametrize("left", ["missing", "empty", "cut", "zeros", "noise", "journal"])
def test_without_a_whole_slot_everything_is_derived_from_the_log_again(tmp_path, left, killed):
    with seen_by(tmp_path, []) as store:
        starts = [store.put(reput.Message("t", b"x")).physical_offset for _ in range(5)]
        store.suspend_plugin("notes")
    path = tmp_path / "reput" / "state"
    data = path.read_bytes()
    size = len(data)
    path.unlink()
    damaged = {"empty": b"", "cut": b"RPST", "zeros": bytes(size), "noise": b"\xa5" * size}
    damaged["journal"] = bytes(2 * PAGE) + data[2 * PAGE :]
    if left in damaged:
        path.write_bytes(damaged[left])
    if killed:
        (tmp_path / "abort").touch()

    with seen_by(tmp_path, [], "r") as reader:
        problems = [each for each in reader.problems if "none of its two slots is whole" in each]
    if left not in ("missing", "journal"):
        with pytest.raises(CorruptFileError, match="move the file away to name the plugins again"):
            seen_by(tmp_path, [])
        path.rename(tmp_path / "reput" / "state.old")
    again = []
    with seen_by(tmp_path, again) as store:
        assert store.wait_dispatched(10)
        assert [store.get(start).body for start in starts] == [b"x"] * 5
        after = ProgressEntry(StateFile.of(str(tmp_path), Disk()), HEAD).load()

    assert again == starts
    assert len(problems) == (left != "missing")
    assert after == Progress(0)


def test_a_state_file_of_another_release_is_refused_by_its_number(tmp_path):
    with seen_by(tmp_path, []):
        pass
    path = tmp_path / "reput" / "state"
    for magic in (b"RPST", b"RPSJ"):
        path.write_bytes(path.read_bytes().replace(magic + b"\0\2", magic + b"\0\3"))

    with pytest.raises(CorruptFileError, match="found format 3, this release reads format 2"):
        seen_by(tmp_path, [])


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


def test_the_plugins_of_a_store_are_noted_again_where_one_part_of_the_file_has_lost_them(tmp_path):
    with seen_by(tmp_path, []):
        pass
    damage_journal(tmp_path)
    assert value_of(tmp_path, MANIFEST) == b""
    kept = manifest_of(tmp_path)

    with seen_by(tmp_path, []):
        pass

    path = tmp_path / "reput" / "state"
    assert manifest_of(tmp_path) == kept
    path.write_bytes(bytes(2 * PAGE) + path.read_bytes()[2 * PAGE :])
    assert manifest_of(tmp_path) == kept


def test_a_plugin_of_a_store_that_is_only_read_cannot_save_a_note(tmp_path):
    kept = []

    def opened(self, context):
        kept.append(context.notes)

    for mode in ("w", "r"):
        with reput.open(
            tmp_path, mode, plugins=[plugin("notes", reput_open=opened)], config=CONFIG
        ):
            if mode == "w":
                kept[0].save_object("one", {"n": 1})
            else:
                with pytest.raises(ReadOnlyStoreError, match=r"context\.writable"):
                    kept[1].save("one", b"2")
                assert kept[1].read_object("one") == {"n": 1}


def test_a_name_of_a_plugin_or_of_its_note_is_as_long_as_the_file_can_have_it(tmp_path):
    name = "p" * 249

    def opened(self, context):
        context.notes.save("x" * 5, b"1")
        with pytest.raises(ConfigError, match="has more than 255 bytes"):
            context.notes.save("x" * 6, b"1")

    for _ in range(2):
        with reput.open(tmp_path, plugins=[plugin(name, reput_open=opened)], config=CONFIG):
            pass
    assert f"{name}/state" in StateFile.of(str(tmp_path), Disk()).known[0]
