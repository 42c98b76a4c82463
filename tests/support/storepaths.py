"""Stores with every kind of file, and every path that the code may touch in them.

Not a test module.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
from pathlib import Path

import reput
from reput.dispatch.storedpluginstates import SUSPEND, StoredPluginStates
from reput.errors import ReputError
from reput_schedule import delayed
from reput_testing import ManualClock, QuickDisk
from reput_tools.offline import LocalEngine, rebuild

PLUGINS = ["compaction", "consumequeue", "filter", "index", "schedule", "transaction"]
CONFIG = {
    "commitlog": {"file_size": 8192},
    "consumequeue": {"units_per_file": 20, "extend": True},
    "index": {"slots_per_file": 20, "items_per_file": 60},
    "compaction": {"topics": ["prices"]},
    "schedule": {"precision_ms": 1_000},
    "filter": {"bit_maps": True},
}
_RANDOM = re.compile(r"[0-9a-f]{32}|stays-|keys-\d")
"""In names that only this process can know; and in those of files in directories so named."""


class NotingDisk(QuickDisk):
    """A disk that notes every path it is asked for below a store's root."""

    def __init__(self, root):
        self.home = f"{root}/"
        self.seen = {}  # path below the root -> whether it was used as a directory

    def _note(self, path, *, is_directory=False):
        if path.startswith(self.home):
            name = path.removeprefix(self.home)
            if not _RANDOM.search(name):
                self.seen[name] = self.seen.get(name, False) or is_directory

    def open(self, path, **options):
        self._note(path)
        return super().open(path, **options)

    def rename(self, source, target):
        self._note(source)
        self._note(target)
        super().rename(source, target)

    def remove(self, path):
        self._note(path)
        super().remove(path)

    def exists(self, path):
        self._note(path)
        return super().exists(path)

    def list(self, path):
        self._note(path, is_directory=True)
        return super().list(path)

    def make_one_directory(self, path):
        self._note(path, is_directory=True)
        super().make_one_directory(path)


def opened(root, mode="w", *, disk=None, clock=None):
    """The store with every plugin, driven by hand."""
    return reput.open(
        root,
        mode,
        plugins=PLUGINS,
        config=CONFIG if mode == "w" else None,
        clock=clock or ManualClock(),
        disk=disk or QuickDisk(),
        threads=False,
    )


def put(store, numbers):
    """Messages for every plugin; a half that is committed, one that is rolled back, one left."""
    for number in numbers:
        store.put(reput.Message("orders", b"o%d" % number * 9, tags="A", keys=f"k{number}"))
        store.put(reput.Message("prices", b"p%d" % number, keys=f"k{number % 4}"))
        store.put(delayed(reput.Message("orders", b"level"), level=2))
        store.put(delayed(reput.Message("orders", b"timer"), delay_ms=9_000 + 1_000 * number))
        half = store.plugin("transaction").prepare(reput.Message("orders", b"half %d" % number))
        if number % 3 == 0:
            store.plugin("transaction").commit(half)
        elif number % 3 == 1:
            store.plugin("transaction").rollback(half)


def live(root, *, clock, disk=None, numbers=range(12)):
    """One life of the store, without its end."""
    store = opened(root, disk=disk, clock=clock)
    store.plugin_objects["filter"].register("group", "orders", "price > 3")
    put(store, numbers)
    store.wait_dispatched()
    store.flush()
    clock.now += 8_000
    for _ in range(8):
        store.work()
    store.wait_dispatched()
    store.plugin("compaction").compact()
    store.flush()
    return store


def make(root, disk=None):
    """Make a closed store with all kinds of files; the copy of it that a crash has left."""
    clock = ManualClock()
    live(root, clock=clock, disk=disk).close()
    store = live(root, clock=clock, disk=disk, numbers=range(12, 24))
    crashed = Path(f"{root}-crashed")
    shutil.copytree(root, crashed)
    store.close()
    return crashed


def paths_of(root):
    """Every path that a Disk sees in long lives of a store; by path whether it is a directory."""
    disk = NotingDisk(root)
    crashed = make(root, disk)
    shutil.rmtree(root)
    shutil.move(crashed, root)
    # Damage, which is noted and passed over; and behind the last record, what is cut and kept.
    files = sorted((root / "commitlog").iterdir())
    _overwrite(files[1], 3_000)
    last = next(path for path in reversed(files) if path.read_bytes().strip(b"\0"))
    _overwrite(last, len(last.read_bytes().rstrip(b"\0")) - 40)
    disk.seen.update(
        (str(path.relative_to(root)), path.is_dir())
        for path in root.rglob("*")
        if not _RANDOM.search(path.name)
    )
    operate(root, disk)
    disk.seen.update(
        (str(path.relative_to(root)), path.is_dir())
        for path in root.rglob("*")
        if not _RANDOM.search(path.name)
    )
    return {name: disk.seen[name] for name in sorted(disk.seen) if name}


def _overwrite(path, position):
    with path.open("r+b") as file:
        file.seek(position)
        file.write(b"\xff" * 300)


# --------------------------------------------------------------------------- what is done to it


def operate(root, disk=None):
    """Everything that is done with a store, each whatever became of what was before.

    Returns:
        Errors by what was being done.
    """
    errors = {}
    clock = ManualClock()
    clock.now += 60_000
    options = {"plugins": (), "jobs": 1, "disk": disk or QuickDisk()}

    @contextlib.contextmanager
    def doing(what):
        try:
            yield
        except (ReputError, ValueError, AttributeError) as error:
            errors[what] = error

    with doing("read"), opened(root, "r", disk=disk, clock=clock) as store:
        look_at(store)
    with doing("ask"):
        bound = (disk or QuickDisk()).at(str(root))
        StoredPluginStates.of(str(root), bound).ask("filter", SUSPEND)
    with doing("check"):
        rebuild(root, check=True, **options)
    with doing("write"):
        store = opened(root, disk=disk, clock=clock)
        try:
            write_to(store, clock, doing)
        finally:
            with doing("close"):
                store.close()
    with doing("rebuild"):
        rebuild(root, **options)
    with doing("backfill"), opened(root, disk=disk, clock=clock) as store:
        store.remove_plugin("index")
        store.add_plugin("index")
        store.wait_dispatched()
    return errors


def look_at(store):
    """Read in every way."""
    store.report()
    store.losses()
    list(store.scan())
    store.read("orders", 0, 0)
    store.query("orders", "k3")
    store.read("prices", 0, 0)
    store.plugin("schedule").scheduled()
    store.plugin("transaction").dangling()


def write_to(store, clock, doing):
    """Put, flush, and have every plugin do its work."""
    with doing("put"):
        put(store, range(30, 36))
    with doing("flush"):
        store.wait_dispatched()
        store.flush()
    for _ in range(6):
        with doing("work"):
            clock.now += 2_000
            store.work()
    with doing("compact"):
        store.plugin("compaction").compact()
    with doing("compact by a job"):
        put(store, range(36, 40))
        store.wait_dispatched()
        store.plugin("compaction").compact(engine=LocalEngine(1))
    with doing("suspend"):
        store.suspend_plugin("filter")
        store.resume_plugin("filter")
    with doing("look"):
        look_at(store)
    with doing("clean"):
        store.trim_log(store.log.file_offsets[-4:][0])


def link_in(root, name, canary):
    """Put a link to ``canary`` in the place of a path of the store; False where it cannot be."""
    path = root / name
    if any(parent.is_file() for parent in path.parents):
        return False
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
    os.symlink(canary, path)
    return True
