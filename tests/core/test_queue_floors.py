"""Floors of queue offsets: a queue gives no lower offset, whatever the log has lost."""

from __future__ import annotations

import threading

from reput.files import Disk
from reput.log.statefile import StateFile
from reput.log.writer.queueoffsets import QueueFloors


class WaitingDisk(Disk):
    """One whose first replacement waits to be let go."""

    def __init__(self):
        super().__init__()
        self.inside, self.may_go = threading.Event(), threading.Event()

    def replace(self, *arguments, **options):
        if not self.inside.is_set():
            self.inside.set()
            assert self.may_go.wait(60)
        return super().replace(*arguments, **options)


def test_floors_that_two_threads_keep_at_once_are_all_kept(tmp_path):
    disk = WaitingDisk()
    floors = QueueFloors(StateFile.of(str(tmp_path), disk), writable=True)
    threads = [
        threading.Thread(target=floors.keep, args=({("t", number): number + 5},))
        for number in range(2)
    ]

    threads[0].start()
    assert disk.inside.wait(60)
    threads[1].start()
    threads[1].join(0.2)  # it waits for the other one, or has read the floors before it
    disk.may_go.set()
    for each in threads:
        each.join()

    expected = {("t", 0): 5, ("t", 1): 6}
    assert dict(floors.known) == expected
    assert dict(QueueFloors(StateFile.of(str(tmp_path), Disk()), writable=False).known) == expected
