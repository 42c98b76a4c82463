"""No trip of a store waits for the disk more often than it has to, counted at the disk's seam."""

from __future__ import annotations

import os
import sys

import reput
from reput.files.system.disk import Disk

# What each trip may wait for, with the default plugins: the data of log, queues and index, then
# notes of the store, then `checkpoint`.
CEILINGS = {"flush": 5, "flush of nothing": 0, "close": 9, "open after a close": 1}


class CountingDisk(Disk):
    """Counts the waits for files and directories."""

    def __init__(self):
        super().__init__()
        self.waits = []

    def flush(self, descriptor):
        self.waits.append(os.path.basename(os.readlink(f"/proc/self/fd/{descriptor}")))
        super().flush(descriptor)

    def flush_directory(self, path):
        self.waits.append(path)
        super().flush_directory(path)

    def take(self):
        waits = list(self.waits)
        self.waits.clear()
        return waits


def test_no_trip_waits_more_often_than_its_ceiling(tmp_path):
    disk, waits = CountingDisk(), {}
    with reput.open(tmp_path, disk=disk, threads=False) as store:
        for _ in range(3):
            store.put(reput.Message("orders", b"x", keys="k"))
            store.wait_dispatched()
            disk.take()
            store.flush()
            waits["flush"] = disk.take()
            store.flush()
            waits["flush of nothing"] = disk.take()
        store.put(reput.Message("orders", b"x", keys="k"))
    waits["close"] = disk.take()
    store = reput.open(tmp_path, disk=disk, threads=False)
    waits["open after a close"] = disk.take()
    store.close()

    for trip, found in waits.items():
        sys.stdout.write(f"{trip:20} {len(found)} waits, at most {CEILINGS[trip]}: {found}\n")
    assert {trip: found for trip, found in waits.items() if len(found) > CEILINGS[trip]} == {}
    assert waits.keys() == CEILINGS.keys()
    assert len(waits["flush"]) >= 5
