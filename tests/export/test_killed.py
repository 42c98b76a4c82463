"""Exports that are killed, whenever, leave increments in which every message is once."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pyarrow.dataset as ds
import pytest

import reput

PROGRAM = """
import sys
from reput_arrow.export.exporter.exportjob import export
from reput_tools.offline import LocalEngine

print("ready", flush=True)
sys.stdin.readline()
export(sys.argv[1], sys.argv[2], LocalEngine(1), incremental=True, partition_by=("topic",))
print("done", flush=True)
"""


def put(root, first, count):
    config = {"commitlog": {"file_size": 1 << 20}}
    with reput.open(root, plugins=(), config=config) as store:
        for start in range(first, first + count, 1_000):
            store.put_many(
                [
                    reput.Message(f"T{number % 3}", b"%d" % number * 20, flag=number)
                    for number in range(start, start + 1_000)
                ]
            )


@pytest.mark.proof
@pytest.mark.costly
def test_every_message_is_exported_once_whenever_it_is_killed(tmp_path, record_property):
    root, out = str(tmp_path / "store"), str(tmp_path / "out")
    kills = 0

    for round_number, seconds in enumerate([0.01, 0.08, 0.2, 0.4]):
        put(root, round_number * 4_000, 4_000)
        process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, root, out],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        with process:
            assert process.stdin is not None
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            process.stdin.write("\n")
            process.stdin.flush()
            try:
                process.wait(seconds)
            except subprocess.TimeoutExpired:
                os.kill(process.pid, signal.SIGKILL)
                kills += 1
    subprocess.run([sys.executable, "-c", PROGRAM, root, out], input="\n", text=True, check=True)

    found = ds.dataset(out, partitioning="hive").to_table(columns=["flag"])
    assert sorted(found["flag"].to_pylist()) == list(range(16_000))
    assert [name for name in os.listdir(tmp_path) if name.endswith(".staging")] == []
    record_property("killed exports", kills)
    assert kills > 0
