"""What a recovery reads at once: a follower that was killed opens its store again and again."""

from __future__ import annotations

import tracemalloc

import numpy as np

import reput
from reput_index.recovery import _sound_items

KEYS = 1_000  # of one message
ITEMS = 200_000
LIMIT = 12 << 20  # bytes


def test_checking_many_items_after_a_crash_takes_little_memory(tmp_path):
    config = {"index": {"slots_per_file": 5_000, "items_per_file": ITEMS + 1}}
    keys = " ".join(f"k{at}" for at in range(KEYS))
    with reput.open(tmp_path / "s", plugins=["index"], config=config) as store:
        for _ in range(ITEMS // KEYS):
            store.put(reput.Message("T", b"", keys=keys))
        store.wait_dispatched()
        store.flush()
        (file,) = store.plugin("index").index.files
        np.unique(np.zeros(1))  # its first call imports modules, which is not what is measured
        tracemalloc.start()
        try:
            count, _ = _sound_items(file, store.log.max_physical_offset)
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()

    assert count == ITEMS
    assert peak < LIMIT
