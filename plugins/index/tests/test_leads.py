"""What the key index says of the log, from files in any state."""

from __future__ import annotations

import os

import pytest

import reput
from reput.files import Disk
from reput.record import java_string_hash
from reput_index import IndexPlugin
from reput_testing import ManualClock, QuickDisk, damages_of, snapshot


@pytest.fixture
def root(tmp_path):
    clock = ManualClock()
    with reput.open(
        tmp_path / "store",
        plugins=["index"],
        config={"index": {"slots_per_file": 5, "items_per_file": 12}},
        disk=QuickDisk(),
        clock=clock,
        threads=False,
    ) as store:
        for number in range(18):
            clock.now += 700
            store.put(reput.Message("T", b"x", keys=[f"k-{number}", "all"]))
    return str(tmp_path / "store")


def told(root):
    """Hashes of keys and the time of each message, by physical offset."""
    found = {}
    for part in IndexPlugin().reput_tools_hints(root, Disk().at(root)):
        assert part.topic is None
        rows = zip(
            part.physical_offset.tolist(),
            part.key_hash.tolist(),
            part.store_timestamp.tolist(),
            strict=True,
        )
        for offset, key_hash, timestamp in rows:
            found.setdefault(offset, []).append((key_hash, timestamp))
    return found


def test_every_key_is_told_with_its_message_and_time(root):
    found = told(root)

    with reput.open(root, "r", plugins=[]) as store:
        for batch in store.scan():
            for message in map(batch.message, range(len(batch))):
                items = found.pop(message.physical_offset)
                hashes = {abs(java_string_hash(f"T#{key}")) for key in message.keys}
                assert {key_hash for key_hash, _ in items} == hashes
                for _, timestamp in items:
                    assert 0 <= message.store_timestamp - timestamp < 1_000
    assert found == {}


def test_damage_of_any_kind_raises_nothing(root):
    path = os.path.join(root, "index", min(snapshot(os.path.join(root, "index"))))
    with open(path, "rb") as file:
        whole = file.read()
    before = told(root)

    for damage in damages_of(path):
        damage.apply(path)
        assert set(told(root)) & set(before), "the other files are still read"
        with open(path, "wb") as file:
            file.write(whole)
