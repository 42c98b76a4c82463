"""An interpreter that ends with a store open loses nothing that was put."""

from __future__ import annotations

import subprocess
import sys

import pytest

import reput

pytestmark = pytest.mark.shows("interpreter-exit")

OPEN = """
import atexit, os, sys, threading
import reput
config = {"commitlog": {"file_size": 1 << 20}}
store = reput.open(sys.argv[1], plugins=[], config=config)
print(store.put(reput.Message("T", b"x")).physical_offset, flush=True)
"""
WAYS = {
    "no-close": "",
    "atexit": "atexit.register(store.close)",
    # Kept by a module, and so collected when daemon threads do not run any more.
    "collected": """
class Holder:
    def __del__(self):
        assert self.store.closed
        self.store.close()
sys.holder = Holder()
sys.holder.store = store
del store
""",
    # Not printed by Python: a thread that ends in the middle of that is a fatal error there.
    "daemon-thread-that-puts": """
begun = threading.Event()
def put():
    try:
        while True:
            os.write(1, b"%d\\n" % store.put(reput.Message("T", b"x")).physical_offset)
            begun.set()
    except reput.ReputError:
        pass  # the store was closed
threading.Thread(target=put, daemon=True).start()
begun.wait()
""",
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.costly
def test_an_interpreter_that_ends_with_a_store_open_ends_and_loses_nothing(tmp_path, way):
    done = subprocess.run(
        [sys.executable, "-c", OPEN + WAYS[way], str(tmp_path)],
        capture_output=True,
        text=True,
    )

    assert done.returncode == 0, done.stderr
    assert "AssertionError" not in done.stderr
    # The last line may be cut where a thread was ended in the middle of it.
    acknowledged = {int(line) for line in done.stdout.splitlines(keepends=True) if line[-1] == "\n"}
    with reput.open(tmp_path) as store:
        found = {offset for batch in store.scan() for offset in batch.physical_offset.tolist()}
        assert store.clean
    assert acknowledged
    assert acknowledged <= found
