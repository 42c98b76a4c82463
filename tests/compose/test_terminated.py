"""``close(); os._exit(0)`` in a handler of SIGTERM leaves everything that was put on disk."""

from __future__ import annotations

import random
import signal
import subprocess
import sys

import pytest

pytest.importorskip("reput_consumequeue")
pytest.importorskip("reput_index")

import reput
from reput_testing.casebudget import is_soak

pytestmark = pytest.mark.shows("signal", more="REPUT_SOAK=1")

PROGRAM = """
import os, signal, sys, threading
import reput

store = reput.open(sys.argv[1], plugins=["consumequeue", "index"],
                   config={"commitlog": {"file_size": 1 << 16, "flush": sys.argv[2]}})

def terminate(number, frame):
    store.close()
    os._exit(0)

def put():
    try:
        while True:
            message = reput.Message("orders", b"x" * 100, 0, keys="k")
            os.write(1, b"%d\\n" % store.put(message).physical_offset)
    except reput.ReputError:
        pass  # the store was closed

signal.signal(signal.SIGTERM, terminate)
threading.Thread(target=put, daemon=True).start()
put()
"""


@pytest.mark.parametrize("flush", ["async", "sync"])
@pytest.mark.costly
def test_a_writer_that_closes_and_exits_on_sigterm_leaves_everything_on_disk(tmp_path, flush):
    chance = random.Random(flush)
    for number in range(10 if is_soak() else 2):
        root = tmp_path / str(number)
        command = [sys.executable, "-c", PROGRAM, root, flush]
        pipe = subprocess.PIPE
        with subprocess.Popen(command, stdout=pipe, stderr=pipe, bufsize=0) as writer:
            begun = [writer.stdout.readline() for _ in range(chance.randrange(1, 400))]
            writer.send_signal(signal.SIGTERM)
            rest, errors = writer.communicate(timeout=60)

        assert (writer.returncode, errors) == (0, b"")
        # The handler may interrupt a put whose message is stored and not acknowledged yet.
        acknowledged = {int(line) for line in [*begun, *rest.splitlines()]}
        with reput.open(root, mode="r") as store:
            assert store.clean
            found = {at for batch in store.scan() for at in batch.physical_offset.tolist()}
            (queue,) = store.queues()
            answer = store.query("orders", "k", limit=len(found) + 1)
        assert acknowledged <= found
        assert len(answer.messages) == queue.max_queue_offset == len(found)
