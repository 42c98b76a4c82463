"""A damaged unit states the size of a large record: no memory is taken for what the log denies."""

from __future__ import annotations

import struct
import subprocess
import sys

import pytest

import reput

READ = """
import sys
import reput

def peak():
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("VmHWM"))  # KiB

with reput.open(sys.argv[1], "r", plugins=["consumequeue"]) as store:
    assert len(store.read("T", 0, 1, 1)) == 1  # a large record
    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")  # the peak is what is held now
    before = peak()
    answer = store.read("T", 0, 0, 9, as_columns=sys.argv[3] == "columns")
    bodies = answer.batch.body.as_bytes() if sys.argv[3] == "columns" else [m.body for m in answer]
    print([body[:5] for body in bodies], [hole.queue_offset for hole in answer.holes])
    assert store.log.read_message(0, int(sys.argv[2])) is None
    print((peak() - before) >> 10)
"""


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    """Three messages in a queue, and 72 MiB behind the first."""
    path = tmp_path_factory.mktemp("large") / "store"
    log = {"file_size": 128 << 20, "max_message_size": 1 << 23}
    with reput.open(path, plugins=["consumequeue"], config={"commitlog": log}) as store:
        store.put(reput.Message("T", b"first"))
        store.put(reput.Message("T", b"large" * 500_000))
        store.put(reput.Message("T", b"last"))
        for _ in range(9):
            store.put(reput.Message("other", bytes((1 << 23) - 1)))
        assert store.wait_dispatched()
    return path


@pytest.mark.parametrize("answers", ["messages", "columns"])
@pytest.mark.parametrize("size", [64 << 20, 40 << 20])
@pytest.mark.costly
def test_a_unit_that_states_too_large_a_record_costs_no_memory(root, size, answers):
    (units,) = root.joinpath("consumequeue", "T", "0").iterdir()
    with units.open("r+b") as file:
        file.seek(8)
        file.write(struct.pack(">i", size))
    command = [sys.executable, "-c", READ, str(root), str(size), answers]

    done = subprocess.run(command, capture_output=True, text=True)

    assert (done.returncode, done.stderr) == (0, "")
    found, grown = done.stdout.splitlines()
    assert found == "[b'large', b'last'] [0]"
    assert int(grown) < 16  # MiB
