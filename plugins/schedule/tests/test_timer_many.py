"""Many messages that wait: how much memory they take, and that all of them come in time."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import timerstores

from reput_testing.casebudget import is_last_part, is_soak

PROGRAM = """
import json, resource, sys
from pathlib import Path
sys.path.insert(0, sys.argv[2])
import numpy as np
from timerstores import TimerStore, DAY
from reput.record import Message

COUNT, PER_PUT = int(sys.argv[3]), 10_000

def resident():
    with open("/proc/self/status") as lines:
        facts = dict(line.split(":", 1) for line in lines)
    return int(facts["RssAnon"].split()[0]) // 1024

with TimerStore(Path(sys.argv[1]), log_file_size=100 << 20) as store:
    store.store.close()
    import reput
    from timerstores import TimerPlugin
    from reput_schedule import ScheduleConfig
    store.plugin = TimerPlugin(ScheduleConfig())
    store.store = reput.open(store.root, plugins=["consumequeue", store.plugin], clock=store.clock,
                             threads=False)
    begin = store.clock()
    delays = np.random.default_rng(1).integers(1_000, DAY // 12, COUNT)
    sample = Message("Warm", b"x" * 20, 0, properties={"TIMER_DELAY_MS": "5"})
    store.store.put_many([sample] * PER_PUT)
    store.run_until(begin + 10_000)
    before = resident()
    now = store.clock()
    for first in range(0, COUNT, PER_PUT):
        store.store.put_many([
            Message("Topic", b"x" * 20, 0, properties={"TIMER_DELIVER_MS": str(now + int(each))})
            for each in delays[first:first + PER_PUT]
        ])
        store.store.wait_dispatched()
    store.store.flush()
    waiting = resident() - before
    times, counts = store.timer.pending()
    late = []
    while (due := store.run()) is not None:
        store.clock.now = max(due, store.clock.now)
    delivering = resident() - before
    at, errors = 0, []
    while result := store.store.read("Topic", 0, at, max_count=10_000, max_bytes=1 << 26):
        errors += [m.store_timestamp - int(m.properties["TIMER_DELIVER_MS"]) for m in result]
        at = result.next_queue_offset
    print(json.dumps({
        "pending": int(counts.sum()), "waiting_mb": waiting, "delivering_mb": delivering,
        "delivered": len(errors), "least": min(errors),
        "p99": float(np.percentile(errors, 99)), "most": max(errors),
    }))
"""


@pytest.mark.proof
@pytest.mark.skipif(not is_last_part(), reason="is tried with the last part of the proofs")
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="memory is read from /proc")
def test_many_messages_wait_in_bounded_memory_and_come_in_time(tmp_path):
    count = 1_000_000 if is_soak() else 150_000
    support = Path(timerstores.__file__).parent

    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path / "store"), str(support), str(count)],
        capture_output=True,
        text=True,
        timeout=480,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    facts = json.loads(done.stdout)
    assert facts["pending"] == facts["delivered"] == count
    assert facts["least"] >= 0
    assert facts["p99"] < 1500
    assert facts["most"] < 1000
    # An object for each message would be 75 MB, or 500 of a million. The wheel has 38.7 MB, of
    # which only the pages count that are used.
    assert facts["waiting_mb"] < 60
    assert facts["delivering_mb"] < 70
