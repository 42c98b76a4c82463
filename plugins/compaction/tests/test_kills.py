"""Compacted queues when the process is killed between any two file operations."""

from __future__ import annotations

import os
import struct

import pytest
from compactedstores import many, open_store, put

import reput
from reput_testing import KillPoints, ManualClock, copy_store
from reput_testing.casebudget import is_soak

pytestmark = pytest.mark.shows("compaction")

_LATER = 40 * 86_400_000  # ms


def latest(entries):
    """The last value of each key of each queue; a deleted one has none."""
    found = {}
    for key, body, queue_id, topic in entries:
        found[topic, queue_id, key] = body
    return {place: body for place, body in found.items() if body}


def values(store):
    """The same, of what can be read, whose keys must come in the order of their offsets."""
    found = {}
    for topic in ("t", "u"):
        for queue_id in range(3):
            result = store.read(topic, queue_id, 0, 10_000, 1 << 24)
            assert list(result.queue_offsets) == sorted(set(result.queue_offsets))
            for message in result.messages:
                found[topic, queue_id, message.keys[0]] = message.body
    return {place: body for place, body in found.items() if body}


def a_flush(store):
    store.flush()


def a_run(store):
    store.flush()
    store.plugin("compaction").compact()


def a_close(store):
    store.close()


@pytest.mark.proof
@pytest.mark.parametrize("works_first", [True, False] if is_soak() else [True])
@pytest.mark.parametrize("life", [a_flush, a_run, a_close], ids=lambda life: life.__name__)
@pytest.mark.costly
def test_whenever_it_is_killed_the_last_value_of_each_key_is_there(tmp_path, life, works_first):
    clock = ManualClock()
    entries = [each for each in many(360, 60) if each[2:] == (0, "t")][:24]
    disk = KillPoints(tmp_path / "store", tmp_path / "killed")
    store = open_store(disk.root, clock, disk)
    put(store, entries[:14])
    store.plugin("compaction").compact()
    put(store, entries[14:20])
    store.wait_dispatched()
    for key, body, queue_id, topic in entries[20:]:
        store.put(reput.Message(topic, body, queue_id, keys=key))
    store.wait_dispatched()
    with disk.watching():
        life(store)
    store.close()
    expected = latest(entries)

    def check(root, point):
        with open_store(root, ManualClock(clock() + _LATER)) as after:
            if works_first:
                after.plugin("compaction").compact()
            after.wait_dispatched()
            assert values(after) == expected
            after.plugin("compaction").compact()
            assert values(after) == expected

    assert disk.check_each(check, 12) >= 3


@pytest.mark.parametrize("damage", ["record", "size of the notes", "twin"])
def test_an_opening_that_cuts_damage_and_is_killed_loses_no_message(tmp_path, damage):
    """The files are cut before the store has noted from where on the plugin needs the log."""
    entries = [(f"key-{number}", b"value %d" % number, 0, "t") for number in range(40)]
    with open_store(tmp_path / "made") as store:
        put(store, entries)
        copy_store(store.root, tmp_path / "store")  # of a store that is not closed
    damages = {
        "record": ("compaction/compactionLog/t/0", lambda path: path.write_bytes(zeroed(path))),
        "size of the notes": ("reput/compaction/t/0", lambda path: os.truncate(path, 64)),
        "twin": ("compaction/compactionCq/t/0", lambda path: path.unlink()),
    }
    directory, work = damages[damage]
    work(sorted((tmp_path / "store" / directory).glob("0*"))[-2])
    disk = KillPoints(tmp_path / "store", tmp_path / "killed")

    with disk.watching():
        store = open_store(disk.root, disk=disk)
    store.close()

    def check(root, point):
        with open_store(root) as after:
            after.wait_dispatched()
            assert values(after) == latest(entries)

    assert disk.check_each(check, 200) > 10


def zeroed(path):
    """The bytes of a file of records, whose second record has none of its own any more."""
    data = bytearray(path.read_bytes())
    (size,) = struct.unpack_from(">i", data)
    data[size + 8 : size + 60] = bytes(52)
    return data
