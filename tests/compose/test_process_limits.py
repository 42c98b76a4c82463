"""Stores in processes that may have few descriptors, or little memory."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

pytest.importorskip("reput_compaction")
pytest.importorskip("reput_consumequeue")
pytest.importorskip("reput_consumer")
pytest.importorskip("reput_filter")
pytest.importorskip("reput_index")
pytest.importorskip("reput_integrity")
pytest.importorskip("reput_schedule")
pytest.importorskip("reput_transaction")

import reput

PLUGINS = [
    "compaction",
    "consumequeue",
    "consumer",
    "filter",
    "index",
    "integrity",
    "schedule",
    "transaction",
]
SMALL = {"commitlog": {"file_size": 1 << 20}, "compaction": {"topics": ["t7"]}}

FEW_DESCRIPTORS = """
import json, resource, sys
import reput
root, limit = sys.argv[1], int(sys.argv[2])
plugins, config = json.loads(sys.argv[3])
resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
with reput.open(root, plugins=plugins, config=config) as store:
    for number in range(2_400):
        topic, body = f"t{number % 80}", bytes([number % 251]) * 900
        store.put(reput.Message(topic, body, number % 3, keys=f"k{number}"))
    assert store.wait_dispatched(60)
    store.flush()
    states = {each.name: each.state for each in store.plugins()}
    read = sum(len(store.read(f"t{n % 80}", n % 3, 0, 100)) for n in range(240))
    found = sum(len(store.query(f"t{n % 80}", f"k{n}").messages) for n in range(0, 2_400, 60))
print(json.dumps([states, read, found]))
"""

LITTLE_MEMORY = """
import json, resource, sys
import reput
from reput.errors import ResourceLimitError
root, size = sys.argv[1], int(sys.argv[2])
reput.open(root, "r").close()  # what is imported has its memory
with open("/proc/self/statm") as file:
    size += int(file.read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (size, size))
try:
    reput.open(root, plugins=json.loads(sys.argv[3])).close()
except ResourceLimitError as error:
    print(error.errno, error)
else:
    print("opened")
"""


def run(script, *arguments):
    """Return what a program prints in the end, in an interpreter of its own."""
    ran = subprocess.run(
        [sys.executable, "-c", script, *map(str, arguments)],
        check=True,
        capture_output=True,
        text=True,
    )
    return ran.stdout.strip()


@pytest.mark.shows("few-descriptors")
@pytest.mark.parametrize("limit", [48, 64, 128])
@pytest.mark.costly
def test_all_plugins_work_with_few_descriptors(tmp_path, limit):
    found = run(FEW_DESCRIPTORS, tmp_path / "store", limit, json.dumps([PLUGINS, SMALL]))

    states, read_count, found_count = json.loads(found)
    assert states == dict.fromkeys(PLUGINS, "running")
    assert (read_count, found_count) == (2_400, 40)


@pytest.mark.shows("process-limits")
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs /proc")
@pytest.mark.parametrize("mib", [1, 30, 300])
@pytest.mark.costly
def test_an_opening_without_memory_is_an_error_and_no_damage(tmp_path, mib):
    plugins = ["consumequeue", "index"]
    with reput.open(tmp_path / "store", plugins=plugins, sizes="rocketmq") as store:  # 1 GiB
        for number in range(20):
            store.put(reput.Message("t", b"%d" % number))

    found = run(LITTLE_MEMORY, tmp_path / "store", mib << 20, json.dumps(plugins))

    assert "the process reached a limit" in found
    with reput.open(tmp_path / "store", plugins=plugins) as store:
        assert [each.body for each in store.read("t", 0, 0, 100)] == [
            b"%d" % number for number in range(20)
        ]
