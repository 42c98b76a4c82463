"""A log that both engines derive from gives the same files, byte for byte."""

from __future__ import annotations

import hashlib
import json
import os
import random
import shutil
import subprocess
import sys

import pytest

import reput
from reput_testing import ManualClock

PLUGINS = ["consumequeue", "index"]
CONFIG = {
    "commitlog": {"file_size": 1 << 20},
    "consumequeue": {"units_per_file": 500},
    "index": {"slots_per_file": 200, "items_per_file": 3_000, "tags": True},
}
DERIVE = """
import json, sys
import reput
from reput.engine import ENGINE
root, plugins, config = json.loads(sys.argv[1])
with reput.open(root, plugins=plugins, config=config) as store:
    assert store.wait_dispatched()
    counts = sorted((q.topic, q.queue_id, q.message_count) for q in store.queues())
print(ENGINE.name, len(counts), sum(count for _, _, count in counts))
"""


def messages():
    chance = random.Random(3)
    for number in range(9_000):
        yield reput.Message(
            chance.choice(["orders", "payments", "T" * 100, "%RETRY%group"]),
            chance.randbytes(chance.choice([0, 1, 40, 400])),
            chance.randrange(5),
            tags=chance.choice([None, "TagA", "标签", "x" * 70]),
            keys=chance.choice([None, "k", ["a", "b", "a"], "订单"]),
            properties={"UNIQ_KEY": f"{number:032X}"} if number % 4 else None,
        )


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    """A store from which nothing is derived yet."""
    root = tmp_path_factory.mktemp("log") / "store"
    clock = ManualClock()
    with reput.open(root, plugins=PLUGINS, config=CONFIG, clock=clock, threads=False) as store:
        for message in messages():
            store.put(message)
            clock.advance(350)
    for name in ("consumequeue", "index", "reput"):
        shutil.rmtree(root / name, ignore_errors=True)
    return root


def derived(root, engine):
    """Digests of what an engine derives from a log."""
    environment = os.environ | {"REPUT_ENGINE": engine}
    command = [sys.executable, "-c", DERIVE, json.dumps([str(root), PLUGINS, CONFIG])]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    digests = {
        str(path.relative_to(root)): hashlib.sha256(path.read_bytes()).hexdigest()
        for name in PLUGINS
        for path in sorted((root / name).rglob("*"))
        if path.is_file()
    }
    return done.stdout.split(), digests


@pytest.mark.parametrize("damaged", [False, True])
@pytest.mark.costly
def test_queues_and_index_are_the_same_files(tmp_path, log, damaged):
    for engine in ("native", "python"):
        shutil.copytree(log, tmp_path / engine)
        if damaged:
            path = tmp_path / engine / "commitlog" / f"{0:020d}"
            data = bytearray(path.read_bytes())
            for at in range(50_000, len(data), 90_000):
                data[at] ^= 0x40
            path.write_bytes(data)

    said, native = derived(tmp_path / "native", "native")
    says, python = derived(tmp_path / "python", "python")

    assert (said[0], says[0]) == ("native", "python")
    assert said[1:] == says[1:]
    assert len(native) > 20
    assert native == python
