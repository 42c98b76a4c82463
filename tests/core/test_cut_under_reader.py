"""Another process cuts or removes files of the log under whoever has the store open.

In processes of their own, as what is guarded against is a signal (SIGBUS) that ends one.
"""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

import reput

pytestmark = pytest.mark.shows("cut-under-reader")

FILE_SIZE = 65_536  # several pages, so that cutting takes whole pages away
_READ_ALL = """
import os, sys
import reput
from reput.errors import ReputError

root, mode, what, size = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])
store = reput.open(root, mode, plugins=[], threads=False)
offsets = [int(o) for batch in store.scan() for o in batch.physical_offset]
name = os.path.join(root, "commitlog", sorted(os.listdir(os.path.join(root, "commitlog")))[-1])
if what == "cut":
    os.truncate(name, size)
else:
    os.unlink(name)
found = sum(len(batch) for batch in store.scan(check_crc=True))
answers = 0
for offset in offsets:
    try:
        store.get(offset)
        answers += 1
    except ReputError:
        pass
print(len(offsets), found, answers)
"""


def _filled(root):
    config = {"commitlog": {"file_size": FILE_SIZE}}
    with reput.open(root, plugins=[], config=config, threads=False) as store:
        return [store.put(reput.Message("T", b"%d" % n * 1000)) for n in range(60)]


def _run(code, *arguments):
    return subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("mode", ["r", "w"])
@pytest.mark.parametrize(("what", "size"), [("cut", 0), ("cut", 4096), ("cut", 5000), ("gone", 0)])
@pytest.mark.costly
def test_reading_a_file_that_was_taken_away_gives_less_and_no_signal(tmp_path, mode, what, size):
    receipts = _filled(tmp_path)
    whole = sum(receipt.end_offset <= FILE_SIZE + size for receipt in receipts)
    assert receipts[-1].physical_offset > FILE_SIZE + 5000

    ended = _run(_READ_ALL, tmp_path, mode, what, size)

    assert ended.returncode == 0, ended.stderr
    before, found, answers = map(int, ended.stdout.split())
    assert before == len(receipts)
    if what == "cut":
        assert found == answers == whole
    else:
        # A descriptor that is open goes on showing a file that has lost its name.
        assert found <= before
        assert answers <= before


_PUT = """
import os, sys
import reput

root = sys.argv[1]
store = reput.open(root, plugins=[], threads=False)
name = os.path.join(root, "commitlog", sorted(os.listdir(os.path.join(root, "commitlog")))[-1])
print("open", flush=True)
if sys.argv[2] == "cut":
    os.truncate(name, 0)
else:
    os.unlink(name)
try:
    store.put(reput.Message("T", b"more"))
    store.flush()
    print("put")
except reput.ReputError as error:
    print("refused", error)
"""


@pytest.mark.costly
def test_a_writer_whose_file_is_cut_dies_of_it_and_the_store_says_what_is_wrong(tmp_path):
    # The one place where a signal is possible: the file that is mapped for writing. Asking for its
    # size in front of every put would cost more than a put, and would still be a race.
    _filled(tmp_path)

    ended = _run(_PUT, tmp_path, "cut")

    assert ended.stdout.startswith("open")
    assert ended.returncode == -signal.SIGBUS or "refused" in ended.stdout
    # A file without bytes is none: what it held is gone, and the log ends in front of it.
    with reput.open(tmp_path, "r", plugins=[]) as store:
        assert 0 < sum(len(batch) for batch in store.scan()) < 60


@pytest.mark.costly
def test_a_writer_whose_file_is_removed_is_told_at_the_next_flush_and_the_store_opens(tmp_path):
    _filled(tmp_path)

    ended = _run(_PUT, tmp_path, "gone")

    # What it put since then is in a file that nobody will find again: no success can be reported.
    assert "refused SERVICE_NOT_AVAILABLE" in ended.stdout
    assert "removed or cut" in ended.stdout
    with reput.open(tmp_path, "r", plugins=[]) as store:
        assert sum(len(batch) for batch in store.scan()) > 0
