"""What a plugin's state survives: calls that end late, damage beside a resumption, bad disks."""

from __future__ import annotations

import json
import os
import threading

import pytest
from openstores import only_hangs, plugin, put, state_of, until

import reput
from reput.dispatch.runtime.pluginstate import Stopped
from reput.files.system.disk import Disk
from reput.log.progress import ProgressEntry
from reput.log.statefile import StateFile
from reput_testing.crashes.storeinternals import store_internals

CONFIG = {
    "commitlog": {
        "file_size": 65_536,
    },
    "dispatch": {"stall_ms": 200, "retry_count": 1},
}

pytestmark = [
    pytest.mark.usefixtures("quiet"),
    pytest.mark.sizes(
        commitlog={"plugin_flush_interval_ms": 3_600_000},
        dispatch={"close_timeout_ms": 500, "retry_pause_ms": 1},
    ),
    pytest.mark.shows("plugin-fault"),
]


@pytest.fixture(autouse=True)
def nothing_else_hangs(monkeypatch):
    only_hangs(monkeypatch, ("late", "reput_dispatch"))


class LateFailure(reput.Plugin):
    """Its dispatch raises, but not before the test lets it; it sees nothing else."""

    name = "late"

    def __init__(self, config=None):
        super().__init__(config)
        self.inside, self.may_raise = threading.Event(), threading.Event()
        self.calls, self.flush_error = 0, None

    @reput.hookimpl
    def reput_dispatch(self, batch):
        self.calls += 1
        self.inside.set()
        assert self.may_raise.wait(60)
        raise ValueError("too late to matter")

    @reput.hookimpl
    def reput_flush(self):
        if self.flush_error is not None:
            error, self.flush_error = self.flush_error, None
            raise error


def test_a_dispatch_that_fails_late_does_not_undo_a_suspension(tmp_path):
    late = LateFailure()
    with reput.open(tmp_path, plugins=[late], config=CONFIG) as store:
        put(store, 3)
        assert late.inside.wait(10)
        store.suspend_plugin("late")

        late.may_raise.set()
        until(lambda: state_of(store, "late").last_error is not None)

        assert state_of(store, "late").state == "suspended"
        assert "too late" in state_of(store, "late").last_error
        assert late.calls == 1
        assert store_internals(store).loop.board.runners["late"].stopped is Stopped.BY_USER


def test_a_dispatch_that_fails_late_has_no_failed_flush_believed(tmp_path):
    late = LateFailure()
    late.flush_error = OSError(5, "Input/output error")
    with reput.open(tmp_path, plugins=[late], config=CONFIG) as store:
        put(store, 3)
        assert late.inside.wait(10)
        store.flush()
        assert state_of(store, "late").state == "suspended"

        late.may_raise.set()
        until(lambda: "too late" in (state_of(store, "late").last_error or ""))
        store.flush()

        assert state_of(store, "late").state == "suspended"
        assert ProgressEntry(StateFile.of(str(tmp_path), Disk()), "late").load() is None


def test_a_plugin_that_is_resumed_beside_damage_is_moved_past_nothing(tmp_path, monkeypatch):
    seen = []
    witness = plugin("witness", reput_dispatch=lambda self, batch: seen.append(batch.start_offset))
    with reput.open(tmp_path, plugins=[witness], config=CONFIG, threads=False) as store:
        offsets = put(store, 5)
        store.log.flusher.flush()
        with open(tmp_path / "commitlog" / f"{0:020}", "r+b") as file:
            file.seek(offsets[2])
            file.write(b"\xff" * 8)
        loop, note = store_internals(store).loop, store.log.note_loss

        def resumed_meanwhile(*arguments):
            note(*arguments)
            monkeypatch.setattr(store.log, "note_loss", note)
            loop.board.runners["witness"].resume(0)

        monkeypatch.setattr(store.log, "note_loss", resumed_meanwhile)
        store.wait_dispatched()

    assert seen == [offsets[0], offsets[0], offsets[3]]


class UnreadableDisk(Disk):
    """A disk whose log cannot be read while the test says so."""

    is_broken = False

    def read_into(self, descriptor, buffer, position):
        if self.is_broken and "/commitlog/" in os.readlink(f"/proc/self/fd/{descriptor}"):
            raise OSError(5, "Input/output error")
        return super().read_into(descriptor, buffer, position)


@pytest.mark.shows("unreadable-log")
def test_a_log_that_cannot_be_read_is_told_and_tried_again(tmp_path):
    seen, disk = [], UnreadableDisk()
    witness = plugin(
        "witness", reput_dispatch=lambda self, batch: seen.extend(batch.physical_offset.tolist())
    )
    with reput.open(tmp_path, plugins=[witness], config=CONFIG, disk=disk) as store:
        disk.is_broken = True
        offsets = put(store, 3)

        with pytest.raises(OSError, match="Input/output"):
            store.wait_dispatched(30)
        state = state_of(store, "witness")
        disk.is_broken = False

        assert (state.state, state.dispatched_to) == ("running", 0)
        assert "the log cannot be read" in state.last_error
        until(lambda: seen == offsets)
        until(lambda: state_of(store, "witness").last_error is None)


@pytest.mark.shows("unreadable-log")
def test_a_store_whose_log_cannot_be_read_closes(tmp_path):
    disk = UnreadableDisk()
    witness = plugin("witness", reput_dispatch=lambda self, batch: None)
    store = reput.open(tmp_path, plugins=[witness], config=CONFIG, disk=disk)
    disk.is_broken = True
    offsets = put(store, 3)

    store.close()

    disk.is_broken = False
    with reput.open(tmp_path, plugins=[witness], config=CONFIG) as store:
        assert store.wait_dispatched(10)
        assert store.get(offsets[-1]).body == b"2"


def test_what_a_later_release_notes_of_a_plugin_leaves_it_suspended(tmp_path):
    witness = plugin("witness", reput_dispatch=lambda self, batch: None)
    with reput.open(tmp_path, plugins=[witness], config=CONFIG) as store:
        store.suspend_plugin("witness")
    state = StateFile.of(str(tmp_path), Disk())
    record = {**json.loads(state.load()[0]["witness/state"].value), "of_a_later_release": [1]}
    state.save({"witness/state": json.dumps(record).encode()})

    with reput.open(tmp_path, plugins=[witness], config=CONFIG) as store:
        assert state_of(store, "witness").state == "suspended"
