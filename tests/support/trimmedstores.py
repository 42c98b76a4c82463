"""Stores whose oldest log files are removed, and plugins that keep them."""

from __future__ import annotations

import os

import reput
from reput_testing import ManualClock, QuickDisk

SIZE = 4_096
HOUR = 3_600_000
LOG = {"file_size": SIZE}
DISPATCH = {"retry_count": 0}


class Notes(reput.Plugin):
    """Keeps the offsets of messages, needs what it is asked to need, and notes `reput_trim`."""

    def __init__(self, name="notes", needs=None):
        super().__init__(None)
        type(self).name = name
        self.offsets = []
        self.told = []
        self.needs = needs
        self.asked = 0

    @reput.hookimpl
    def reput_dispatch(self, batch):
        self.offsets += batch.physical_offset.tolist()

    @reput.hookimpl
    def reput_trim(self, min_physical_offset):
        self.told.append(min_physical_offset)

    @reput.hookimpl
    def reput_hold(self):
        self.asked += 1
        return self.needs() if callable(self.needs) else self.needs


def notes(name="notes", **members):
    """A plugin of a class of its own; ``members`` are hooks as plain functions."""
    made = {key: reput.hookimpl(f) if callable(f) else f for key, f in members.items()}
    return type(f"{name.capitalize()}Notes", (Notes,), made)(name)


def open_with(
    path, *plugins, clock=None, threads=False, disk=None, log=None, rules=None, **retention
):
    config = {"commitlog": {**LOG, **(log or {})}, "dispatch": {**DISPATCH, **(rules or {})}}
    if retention:  # only where the plugin of that name is installed
        config["retention"] = retention
    return reput.open(
        path,
        plugins=plugins,
        config=config,
        clock=clock or ManualClock(),
        threads=threads,
        disk=disk or QuickDisk(),
    )


def fill(store, file_count, clock=None, step_ms=0):
    """Put messages until the log has that many files; ``step_ms`` pass before each file."""
    while store.log.file_count < file_count:
        before = store.log.file_count
        store.put(reput.Message("T", b"x" * 900))
        if store.log.file_count > before and clock is not None:
            clock.advance(step_ms)
    store.wait_dispatched(10)


def keep(store, file_count, **options):
    """Trim the log to its last files."""
    kept = bases(store)[-file_count:]
    return store.trim_log(kept[0] if kept else 0, **options)


def removed(report):
    """Where the removed files began."""
    return list(range(report.start_offset, report.min_physical_offset, SIZE))


def holders(report, below):
    """Plugins that need the log below an offset, with what they need; the lowest first."""
    found = [(h.physical_offset, h.plugin) for h in report.holds if h.physical_offset < below]
    return [(plugin, offset) for offset, plugin in sorted(found)]


def bases(store):
    return list(store.log.files.bases)


def names(path):
    return sorted(os.listdir(path / "commitlog"))


class Deriving(reput.Plugin):
    """Has nothing but its place."""

    name = "deriving"

    def __init__(self):
        super().__init__(None)
        self.offsets = []

    @reput.hookimpl
    def reput_dispatch(self, batch):
        self.offsets += batch.physical_offset.tolist()
