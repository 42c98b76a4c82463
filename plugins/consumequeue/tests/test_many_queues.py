"""Ten thousand queues, in a process that may have 1024 files open."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from reput_testing.casebudget import is_last_part

COUNT = 10_000

PROGRAM = """
import json, os, resource, sys
import reput
from reput_testing import QuickDisk

resource.setrlimit(resource.RLIMIT_NOFILE, (1024, 1024))
root, step, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
config = {"commitlog": {"file_size": 1 << 22}, "consumequeue": {"units_per_file": 2}}
store = reput.open(root, plugins=["consumequeue"], config=config, disk=QuickDisk())
before = len(store.queues())
sent = int(step[-1]) - 1
store.put_many(
    reput.Columns(
        topic=[f"topic-{n % 100}" for n in range(count)],
        queue_id=[n // 100 for n in range(count)],
        body=[b"%d of round %d" % (n, sent) for n in range(count)],
    )
)
assert store.wait_dispatched(60)
some = [
    [message.body.decode() for message in store.read(f"topic-{n % 100}", n // 100, sent)]
    for n in range(0, count, 97)
]
offsets = sorted({info.max_queue_offset for info in store.queues()})
open_files = len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0
facts = {
    "before": before,
    "queues": len(store.queues()),
    "offsets": offsets,
    "read": some,
    "open_files": open_files,
    "clean": store.clean,
    "state": [state.state for state in store.plugins()],
}
print(json.dumps(facts), flush=True)
if step.startswith("die"):
    os._exit(0)
store.close()
"""


@pytest.mark.proof
@pytest.mark.skipif(not is_last_part(), reason="is tried with the last part of the proofs")
@pytest.mark.skipif(sys.platform == "win32", reason="limits on open files are POSIX")
def test_ten_thousand_queues_need_no_more_files_than_a_process_may_have(tmp_path):
    before, clean = 0, True
    for number, step in enumerate(["close-1", "die-2", "close-3"]):
        facts = _run(tmp_path, step)

        assert facts["state"] == ["running"]
        assert facts["clean"] is clean
        assert facts["before"] == before
        assert facts["queues"] == COUNT
        assert facts["offsets"] == [number + 1]
        assert facts["read"] == [[f"{n} of round {number}"] for n in range(0, COUNT, 97)]
        assert facts["open_files"] < 700
        before, clean = COUNT, step.startswith("close")


def _run(root, step):
    command = [sys.executable, "-c", PROGRAM, str(root / "store"), step, str(COUNT)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)
