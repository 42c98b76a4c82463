"""Plugins of an open store come and go, are suspended and resumed, and all of it is remembered."""

from __future__ import annotations

import errno
import logging
import os
import zlib

import attrs
import pytest
from openstores import put, state_of, until
from statefiles import manifest_of

import reput
from reput.dispatch.storedpluginstates import StoredPluginStates
from reput.errors import PluginError, PluginOrderError
from reput.log.progress import Progress, ProgressEntry
from reput.log.statefile import StateFile
from reput_testing import FaultyDisk, KillPoints, QuickDisk
from reput_testing.crashes.storeinternals import store_internals

pytestmark = pytest.mark.sizes(
    commitlog={"plugin_flush_interval_ms": 5}, dispatch={"retry_pause_ms": 1}
)

CONFIG = {
    "commitlog": {"file_size": 65_536},
    "dispatch": {"retry_count": 0, "stall_ms": 2_000},
}


@attrs.define(eq=False)
class NotesPlugin(reput.Plugin):
    """Keeps the physical offset of every message in a file of its own, eight bytes each."""

    name = "notes"
    config: object = None
    opened: int = 0
    broken: BaseException | None = None
    offsets: list[int] = attrs.field(factory=list)

    @reput.hookimpl
    def reput_open(self, context):
        self.opened += 1
        self.context = context
        self.path = context.directory(f"{self.name}.bin")
        data = b""
        if context.disk.exists(self.path):
            data = context.disk.read_file(self.path)
        self.offsets = [int.from_bytes(data[at : at + 8]) for at in range(0, len(data), 8)]

    @reput.hookimpl
    def reput_recover(self, max_physical_offset, progress):
        end = min(max_physical_offset, progress)
        self.offsets = [offset for offset in self.offsets if offset < end]
        return progress if self.offsets else 0

    @reput.hookimpl
    def reput_dispatch(self, batch):
        if self.broken is not None:
            raise self.broken
        last = self.offsets[-1] if self.offsets else -1
        self.offsets += batch.after(last + 1).physical_offset.tolist()

    @reput.hookimpl
    def reput_flush(self):
        data = b"".join(offset.to_bytes(8) for offset in self.offsets)
        descriptor = self.context.disk.open(self.path, create=True)
        try:
            self.context.disk.write(descriptor, data, 0)
            self.context.disk.truncate(descriptor, len(data))
            self.context.disk.flush(descriptor)
        finally:
            self.context.disk.close(descriptor)


class OtherPlugin(NotesPlugin):
    name = "other"
    requires = frozenset({"notes"})


class FirstPlugin(NotesPlugin):
    name = "first"
    runs_after = frozenset({"last"})


class LastPlugin(NotesPlugin):
    name = "last"
    runs_after = frozenset({"first"})


def open_with(path, *plugins, **options):
    return reput.open(path, plugins=plugins, config=CONFIG, **options)


def notes_of(store):
    return state_of(store, "notes")


# --------------------------------------------------------------------------- coming and going


@pytest.mark.parametrize("threads", [True, False])
def test_a_plugin_that_is_added_sees_everything_and_is_there_next_time(tmp_path, threads):
    plugin = NotesPlugin()
    with open_with(tmp_path, threads=threads) as store:
        offsets = put(store, 10)

        assert store.add_plugin(plugin) == "notes"

        assert store.wait_dispatched(10)
        offsets += put(store, 5)
        assert store.wait_dispatched(10)
        assert plugin.offsets == offsets
        assert [state.name for state in store.plugins()] == ["notes"]
    assert manifest_of(tmp_path).plugins == ("notes",)

    with pytest.raises(PluginError, match=r"forget=\['notes'\]"):
        open_with(tmp_path)
    again = NotesPlugin()
    with open_with(tmp_path, again) as store:
        assert again.offsets == offsets


@pytest.mark.parametrize("threads", [True, False])
def test_a_plugin_that_is_removed_gets_nothing_and_goes_on_where_it_stopped(tmp_path, threads):
    plugin = NotesPlugin()
    with open_with(tmp_path, plugin, threads=threads) as store:
        offsets = put(store, 10)
        assert store.wait_dispatched(10)

        store.remove_plugin("notes")

        more = put(store, 5)
        assert store.wait_dispatched(10)
        assert plugin.offsets == offsets
        assert store.plugins() == []

        again = NotesPlugin()
        store.add_plugin(again)
        assert again.offsets == offsets  # from its file: it is not derived once more
        assert store.wait_dispatched(10)
        assert again.offsets == offsets + more

    assert manifest_of(tmp_path).plugins == ("notes",)


@pytest.mark.parametrize("was_suspended", [True, False])
def test_a_plugin_that_was_removed_is_at_a_later_opening_as_its_user_left_it(
    tmp_path, was_suspended
):
    with open_with(tmp_path, NotesPlugin()) as store:
        put(store, 10)
        if was_suspended:
            store.suspend_plugin("notes")
        store.remove_plugin("notes")

    with open_with(tmp_path, NotesPlugin()) as store:
        assert state_of(store, "notes").state == ("suspended" if was_suspended else "running")


def test_a_kill_while_a_plugin_is_removed_does_not_leave_it_suspended(tmp_path):
    root = tmp_path / "store"
    root.mkdir()
    disk = KillPoints(root, tmp_path / "killed")
    with open_with(root, NotesPlugin(), disk=disk, threads=False) as store:
        put(store, 10)
        store.wait_dispatched()
        with disk.watching():
            store.remove_plugin("notes")
            store.add_plugin(NotesPlugin())

    def check(left, point):
        with open_with(left, NotesPlugin(), threads=False) as store:
            assert state_of(store, "notes").state == "running"

    assert disk.check_each(check) > 10


def test_what_cannot_be_added_or_removed_leaves_the_store_as_it_was(tmp_path):
    class Broken(NotesPlugin):
        name = "broken"

        @reput.hookimpl
        def reput_open(self, context):
            raise ValueError("no good")

    with open_with(tmp_path, NotesPlugin()) as store:
        with pytest.raises(PluginError, match="uses it already"):
            store.add_plugin(NotesPlugin())
        with pytest.raises(PluginError, match="no good"):
            store.add_plugin(Broken())
        with pytest.raises(PluginError, match="not installed"):
            store.add_plugin("nobody")
        with pytest.raises(PluginError, match="uses notes"):
            store.remove_plugin("nobody")
        store.add_plugin(OtherPlugin())
        with pytest.raises(PluginOrderError, match="required by other"):
            store.remove_plugin("notes")
        assert [state.name for state in store.plugins()] == ["notes", "other"]
        assert {state.state for state in store.plugins()} == {"running"}
        offsets = put(store, 3)
        assert store.wait_dispatched(10)
        assert store.plugin_objects["other"].offsets == offsets


def test_a_requirement_that_is_missing_and_a_cycle_name_the_plugins(tmp_path):
    with open_with(tmp_path) as store:
        with pytest.raises(PluginOrderError, match="'other': needs notes"):
            store.add_plugin(OtherPlugin())
        store.add_plugin(FirstPlugin())
        with pytest.raises(PluginOrderError, match=r"each waits for another: first, last$"):
            store.add_plugin(LastPlugin())

    class Behind(NotesPlugin):
        name = "behind"
        runs_after = frozenset({"first"})

    with pytest.raises(PluginOrderError, match=r"each waits for another: first, last$"):
        open_with(tmp_path / "other", FirstPlugin(), LastPlugin(), Behind())


# --------------------------------------------------------------------------- suspending, resuming


@pytest.mark.parametrize("threads", [True, False])
def test_a_suspension_that_was_asked_for_lasts_until_it_is_lifted(tmp_path, threads):
    plugin = NotesPlugin()
    with open_with(tmp_path, plugin, threads=threads) as store:
        offsets = put(store, 4)
        assert store.wait_dispatched(10)
        store.suspend_plugin("notes")
        more = put(store, 6)
        assert store.wait_dispatched(10)
        state = notes_of(store)
        assert (state.state, state.lag_count, state.last_error) == ("suspended", 6, None)
        assert plugin.offsets == offsets

    again = NotesPlugin()
    with open_with(tmp_path, again, threads=threads) as store:
        assert store.wait_dispatched(10)
        assert notes_of(store).state == "suspended"
        assert again.offsets == offsets

        store.resume_plugin("notes")

        assert store.wait_dispatched(10)
        assert again.offsets == offsets + more
        assert again.opened == 2
    with open_with(tmp_path, NotesPlugin()) as store:
        assert notes_of(store).state == "running"


def test_a_plugin_that_failed_is_tried_again_at_the_next_opening(tmp_path, caplog):
    caplog.set_level(logging.CRITICAL, "reput")
    plugin = NotesPlugin(broken=ValueError("bad day"))
    with open_with(tmp_path, plugin) as store:
        offsets = put(store, 4)
        until(lambda: notes_of(store).state == "suspended")

    with open_with(tmp_path, NotesPlugin(), mode="r") as store:
        state = notes_of(store)
        assert (state.state, state.last_error) == (
            "suspended",
            "message T/0@0: ValueError: bad day",
        )
        assert state.lag_count == 4

    again = NotesPlugin()
    with open_with(tmp_path, again) as store:
        assert store.wait_dispatched(10)
        assert again.offsets == offsets
        assert notes_of(store).last_error is None


def test_resuming_one_that_fails_again_says_so_and_one_that_runs_does_nothing(tmp_path, caplog):
    caplog.set_level(logging.CRITICAL, "reput")
    plugin = NotesPlugin(broken=ValueError("bad day"))
    with open_with(tmp_path, plugin) as store:
        put(store, 4)
        until(lambda: notes_of(store).state == "suspended")
        store.resume_plugin("notes")
        until(lambda: notes_of(store).state == "suspended")
        plugin.broken = None
        store.resume_plugin("notes")
        assert store.wait_dispatched(10)
        opened = plugin.opened
        store.resume_plugin("notes")
        assert plugin.opened == opened
        with pytest.raises(PluginError, match="uses notes"):
            store.resume_plugin("nobody")


def test_another_process_asks_the_one_that_has_the_store_open(tmp_path):
    with open_with(tmp_path, NotesPlugin()) as store:
        outside = StoredPluginStates.of(os.fspath(tmp_path), QuickDisk())
        outside.ask("notes", "suspend")
        until(lambda: not outside.is_asked("notes"))
        until(lambda: StoredPluginStates.of(os.fspath(tmp_path), QuickDisk()).load("notes").asked)
        assert notes_of(store).state == "suspended"

        outside.ask("notes", "resume")
        until(lambda: notes_of(store).state == "running")
        outside.ask("nobody", "resume")
        outside.ask("notes", "dance")
        until(lambda: not outside.is_asked("nobody") and not outside.is_asked("notes"))
        assert notes_of(store).state == "running"


def test_a_record_that_is_damaged_is_none(tmp_path):
    with open_with(tmp_path, NotesPlugin()) as store:
        store.suspend_plugin("notes")
    state = StateFile.of(os.fspath(tmp_path), QuickDisk())
    whole = state.load()[0]["notes/state"].value

    for data in (b"", whole[:20], b"[]", b"\xff" * 50, whole.replace(b"true", b'"true"')):
        state.save({"notes/state": data})
        assert StoredPluginStates.of(os.fspath(tmp_path), QuickDisk()).load("notes").asked is False


# --------------------------------------------------------------------------- failing flushes


class _OneFileFails(QuickDisk):
    """Flushing the notes fails while ``failing``; what was written since the last flush is lost."""

    failing = False

    def __init__(self, path):
        self.path = os.fspath(path)
        self.flushed = b""

    def flush(self, descriptor):
        if os.readlink(f"/proc/self/fd/{descriptor}") != self.path:
            return super().flush(descriptor)
        if self.failing:
            raise OSError(errno.EIO, "Input/output error", self.path)
        self.flushed = os.pread(descriptor, 1 << 20, 0)
        return super().flush(descriptor)


@pytest.mark.shows("failed-plugin-flush")
@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="needs to know a descriptor's path")
@pytest.mark.parametrize("reopen", [True, False])
def test_a_failed_flush_is_not_tried_again_and_the_files_are_derived_from_the_last_progress(
    tmp_path, reopen, caplog
):
    caplog.set_level(logging.CRITICAL, "reput")
    disk, plugin = _OneFileFails(tmp_path / "notes.bin"), NotesPlugin()
    store = open_with(tmp_path, plugin, disk=disk, threads=False)
    offsets = put(store, 5)
    store.wait_dispatched()
    store.flush()
    good = disk.flushed
    disk.failing = True
    offsets += put(store, 5)
    store.wait_dispatched()
    store.flush()
    state = notes_of(store)
    assert (state.state, "Input/output" in state.last_error) == ("suspended", True)
    disk.failing = False
    store.flush()
    assert disk.flushed == good

    if reopen:
        store.close()
        # The page cache still shows what the failed flush did not write.
        assert len((tmp_path / "notes.bin").read_bytes()) > len(good)
        plugin = NotesPlugin()
        store = open_with(tmp_path, plugin, disk=disk, threads=False)
    else:
        store.resume_plugin("notes")
    assert plugin.offsets == offsets[:5]
    store.wait_dispatched()
    assert plugin.offsets == offsets
    store.flush()
    assert len(disk.flushed) == 80
    store.close()
    assert StoredPluginStates.of(os.fspath(tmp_path), disk).load("notes").cut_to is None


def test_progress_that_cannot_be_written_stops_nobody_and_is_written_later(tmp_path):
    disk = FaultyDisk(operations={"rename"})
    with open_with(tmp_path, NotesPlugin(), disk=disk) as store:
        offsets = put(store, 1)  # its file is made by renaming, too
        disk.fail_at, disk.lasting = len(disk.calls) + 1, True
        offsets += put(store, 5)
        assert store.wait_dispatched(10)
        until(lambda: disk.failed)
        disk.fail_at = None
        calls = len(disk.calls)
        offsets += put(store, 5)
        assert store.wait_dispatched(10)
        until(lambda: len(disk.calls) > calls)  # the checkpoint, by the flush thread
        assert store.plugin_objects["notes"].offsets == offsets
        assert notes_of(store).state == "running"


@pytest.mark.parametrize("threads", [True, False])
def test_a_plugin_that_the_manifest_cannot_name_is_closed_and_not_added(tmp_path, threads):
    class Closing(NotesPlugin):
        closed = 0

        @reput.hookimpl
        def reput_close(self):
            self.closed += 1

    disk, plugin = FaultyDisk(operations={"write"}, below="state"), Closing()
    with open_with(tmp_path, disk=disk, threads=threads) as store:
        offsets = put(store, 3)
        disk.fail_at, disk.lasting = 1, True
        disk.calls.clear()
        with pytest.raises(OSError, match="No space"):
            store.add_plugin(plugin, {})
        assert plugin.closed == 1
        assert store.plugins() == []

        disk.mend()
        store.add_plugin(plugin)
        assert store.wait_dispatched(10)
        assert plugin.offsets == offsets


@pytest.mark.parametrize("threads", [True, False])
def test_a_plugin_that_the_manifest_still_names_is_not_removed_and_goes_on(tmp_path, threads):
    disk, plugin = FaultyDisk(operations={"write"}, below="state"), NotesPlugin()
    with open_with(tmp_path, plugin, disk=disk, threads=threads) as store:
        offsets = put(store, 3)
        assert store.wait_dispatched(10)
        disk.fail_at, disk.lasting = 1, True
        disk.calls.clear()
        with pytest.raises(OSError, match="No space"):
            store.remove_plugin("notes")

        disk.mend()
        offsets += put(store, 2)
        assert store.wait_dispatched(10)
        assert notes_of(store).state == "running"
        assert plugin.offsets == offsets


@pytest.mark.parametrize("change", ["add", "remove"])
def test_a_change_that_failed_is_not_made_by_the_next_opening(tmp_path, change):
    """The first of the two slots that have the manifest may be written before the error."""
    for number in range(1, 30):
        root, disk = tmp_path / str(number), FaultyDisk(error=errno.EIO, below="state")
        plugins = [NotesPlugin()] if change == "remove" else []
        config = {"commitlog": CONFIG["commitlog"]}
        with reput.open(root, plugins=plugins, config=config, disk=disk, threads=False) as store:
            disk.plan(number, error=errno.EIO, below="state")
            is_done = True
            try:
                store.add_plugin(NotesPlugin()) if change == "add" else store.remove_plugin("notes")
            except OSError:
                is_done = False
            disk.mend()
            used = sorted(store.plugin_objects)
        assert list(manifest_of(root).plugins) == used
        if is_done:
            break
    assert number > 6


# --------------------------------------------------------------------------- progress


@pytest.mark.shows("progress")
def test_the_older_slot_is_believed_where_the_newer_one_does_not_agree_with_the_log(
    tmp_path, caplog
):
    with open_with(tmp_path, threads=False) as store:
        offsets = put(store, 3)
        disk, log = QuickDisk(), store.log
        file = ProgressEntry(StateFile(os.fspath(tmp_path / "slots"), disk), "p")
        right = store.get(offsets[0]).record
        file.save(Progress(offsets[1], offsets[0], zlib.crc32(right)))
        file.save(Progress(offsets[2], offsets[1], 12_345))
        assert ProgressEntry(StateFile(file.path, disk), "p").believable(log) == offsets[1]
        assert "rewritten below" in caplog.text
        file.save(Progress(offsets[2] + 1_000_000, -1, 0))
        file.save(Progress(offsets[2] + 2_000_000, -1, 0))
        assert ProgressEntry(StateFile(file.path, disk), "p").believable(log) is None
    assert ProgressEntry(StateFile(os.fspath(tmp_path / "none"), disk), "p").believable(log) is None


# --------------------------------------------------------------------------- read horizon


@pytest.mark.parametrize(
    ("flush", "horizon", "is_durable"),
    [
        ("async", "", False),
        ("async", "appended", False),
        ("async", "durable", True),
        ("sync", "", True),
        ("sync", "durable", True),
        ("sync", "appended", False),
    ],
)
def test_plugins_are_given_what_is_within_the_read_horizon(tmp_path, flush, horizon, is_durable):
    log = {"file_size": 4096, "flush": flush, "read_horizon": horizon}
    plugin = NotesPlugin()
    with reput.open(tmp_path, plugins=[plugin], config={"commitlog": log}, threads=False) as store:
        first = store.put(reput.Message("T", b"durable"))
        first.wait()
        second = store.put(reput.Message("T", b"appended", properties={"WAIT": "false"}))
        assert second.durability is reput.Durability.APPENDED

        while store_internals(store).loop.shared.step():
            pass

        ends = [first.physical_offset] if is_durable else list(map(_start, (first, second)))
        assert plugin.offsets == ends
        assert store.wait_dispatched()
        assert plugin.offsets == list(map(_start, (first, second)))
        assert (second.durability is reput.Durability.DURABLE) == is_durable


def _start(receipt):
    return receipt.physical_offset
