"""What a flush brings to disk while others write."""

from __future__ import annotations

from reput.files import FilePool, file_name
from reput_compaction.filepairs.filepair import PairFiles
from reput_compaction.filepairs.queuenames import Places
from reput_compaction.layout import FileSizes
from reput_testing import QuickDisk


class BusyDisk(QuickDisk):
    """Calls back ahead of a write, as another thread might come in between."""

    def __init__(self):
        self.at_write, self.flush_count = None, 0

    def write(self, descriptor, data, position):
        call, self.at_write = self.at_write, None
        if call is not None:
            call()
        super().write(descriptor, data, position)

    def flush(self, descriptor):
        super().flush(descriptor)
        self.flush_count += 1


def test_bytes_that_are_written_during_a_flush_are_for_the_next_one(tmp_path):
    disk = BusyDisk()
    files = PairFiles(str(tmp_path), disk, FilePool(disk, write=True), FileSizes(1200, 200))
    places = Places(*(str(tmp_path / name) for name in ("log", "queue", "notes")))
    pair = files.make(places, 0)
    disk.at_write = files.unflushed.flush

    files.close(pair)
    disk.flush_count = 0
    files.unflushed.flush()

    assert disk.flush_count == 3  # the queue's end mark and the log's blank; notes with them
    assert pair.log.path.endswith(file_name(0))
