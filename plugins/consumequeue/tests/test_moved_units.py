"""Queues whose units moved are compared a part at a time, also over the ends of files."""

from __future__ import annotations

import tracemalloc
from types import SimpleNamespace

import numpy as np
import pytest

from reput.files import Disk
from reput_consumequeue.layout import UNIT_DTYPE, UNIT_SIZE
from reput_consumequeue.offline.compare import weigh
from reput_tools.offline import Comparison, Difference

PER_FILE = 100_000
GONE = 150_000


def write_queue(root, rows, *, grows):
    directory = root / "consumequeue" / "t" / "0"
    directory.mkdir(parents=True)
    for start in range(0, len(rows), PER_FILE):
        part = rows[start : start + PER_FILE]
        units = np.zeros(len(part) if grows else PER_FILE, UNIT_DTYPE)
        units["physical_offset"][: len(part)] = 200 * part
        units["size"][: len(part)] = 200
        units.tofile(directory / f"{start * UNIT_SIZE:020d}")


@pytest.mark.parametrize("grows", [False, True])
@pytest.mark.parametrize("count", [6 * PER_FILE, 5 * PER_FILE + 1])
def test_a_unit_less_is_found_in_memory_that_no_queue_fills(count, grows, tmp_path):
    rows = np.arange(count)
    write_queue(tmp_path / "own", np.delete(rows, GONE), grows=grows)
    write_queue(tmp_path / "built", rows, grows=grows)
    comparison = Comparison(
        str(tmp_path / "own"),
        str(tmp_path / "built"),
        SimpleNamespace(min_physical_offset=0, read_message=lambda offset: None),
        Disk(),
        frozenset({"consumequeue"}),
        limit=100,
    )
    differs = Difference(f"consumequeue/t/0/{PER_FILE * UNIT_SIZE:020d}", 0, "bytes differ")

    tracemalloc.start()
    try:
        (found,) = weigh(comparison, [differs]).differences
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert (found.path, found.position) == (differs.path, (GONE - PER_FILE) * UNIT_SIZE)
    assert [each.physical_offset for each in found.messages] == [200 * GONE]
    assert f"the {count - GONE - 1} units after it are 1 earlier" in found.found
    assert peak < count * UNIT_SIZE
