"""A damaged unit states the size of a large record: no memory is taken for what the log denies."""

from __future__ import annotations

import struct
import subprocess
import sys

import pytest

import reput

LARGE = b"large" * 300_000
OPTIONS = {"topics": ["T"]}
READ = """
import sys
import reput

def peak():
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("VmHWM"))  # KiB

with reput.open(sys.argv[1], "r") as store:
    assert len(store.read("T", 0, 1, 1)) == 1  # a large record
    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")  # the peak is what is held now
    before = peak()
    answer = store.read("T", 0, 0, 9)
    print([each.body[:5] for each in answer], [hole.queue_offset for hole in answer.holes])
    print((peak() - before) >> 10)
"""


@pytest.fixture
def root(tmp_path):
    path = tmp_path / "store"
    with reput.open(path, plugins=["compaction"], config={"compaction": OPTIONS}) as store:
        for key, body in ("a", b"first"), ("b", LARGE), ("c", b"last"):
            store.put(reput.Message("T", body, keys=key))
        assert store.wait_dispatched()
    return path


@pytest.mark.parametrize("size", [64 << 20, 40 << 20])
@pytest.mark.costly
def test_a_unit_that_states_too_large_a_record_costs_no_memory(root, size):
    (units,) = root.joinpath("compaction", "compactionCq", "T", "0").iterdir()
    with units.open("r+b") as file:
        file.seek(8)
        file.write(struct.pack(">i", size))

    done = subprocess.run([sys.executable, "-c", READ, str(root)], capture_output=True, text=True)

    assert (done.returncode, done.stderr) == (0, "")
    found, grown = done.stdout.splitlines()
    assert found == "[b'large', b'last'] [0]"
    assert int(grown) < 16  # MiB


def test_a_large_record_is_read(root):
    with reput.open(root, "r") as store:
        bodies = [each.body for each in store.read("T", 0, 0, 9, max_bytes=1 << 27)]

    assert bodies == [b"first", LARGE, b"last"]
