"""What queues say of the log, from files in any state."""

from __future__ import annotations

import os

import pytest

import reput
from reput.files import Disk
from reput_consumequeue import ConsumeQueuePlugin
from reput_testing import QuickDisk, damages_of, snapshot


@pytest.fixture
def root(tmp_path):
    with reput.open(
        tmp_path / "store",
        plugins=["consumequeue"],
        config={"consumequeue": {"units_per_file": 4}, "commitlog": {"file_size": 1 << 16}},
        disk=QuickDisk(),
        threads=False,
    ) as store:
        for number in range(20):
            store.put(reput.Message("TU"[number % 2], b"x" * number, number % 4 // 2))
    return str(tmp_path / "store")


def told(root):
    """Place of each message in its queue, by physical offset and size."""
    found = {}
    for part in ConsumeQueuePlugin().reput_tools_hints(root, Disk().at(root)):
        rows = zip(
            part.physical_offset.tolist(),
            part.size.tolist(),
            part.queue_offset.tolist(),
            strict=True,
        )
        for offset, size, queue_offset in rows:
            found[offset, size] = part.topic, part.queue_id, queue_offset
    return found


def test_every_message_is_told_with_its_place(root):
    with reput.open(root, "r", plugins=[]) as store:
        expected = {
            (message.physical_offset, message.size): (
                message.topic,
                message.queue_id,
                message.queue_offset,
            )
            for batch in store.scan()
            for message in map(batch.message, range(len(batch)))
        }

    assert told(root) == expected


def test_pre_blank_units_and_unused_space_tell_nothing(root):
    path = os.path.join(root, "consumequeue", "T", "0", f"{0:020d}")
    with open(path, "r+b") as file:
        file.write(bytes(8) + b"\x7f\xff\xff\xff" + bytes(8) + bytes(20))

    assert sorted(place[2] for place in told(root).values() if place[:2] == ("T", 0)) == [2, 3, 4]


def test_damage_of_any_kind_raises_nothing_and_leaves_the_other_files(root):
    path = os.path.join(root, "consumequeue", "T", "0", f"{0:020d}")
    with open(path, "rb") as file:
        whole = file.read()
    others = {place for place in told(root).items() if place[1][:2] != ("T", 0)}

    for damage in damages_of(path):
        damage.apply(path)
        assert others <= set(told(root).items())
        with open(path, "wb") as file:
            file.write(whole)


def test_names_that_are_no_queues_are_left_out(root):
    queues = os.path.join(root, "consumequeue")
    os.makedirs(os.path.join(queues, "T", "x"))
    os.makedirs(os.path.join(queues, "T", str(1 << 40)))
    os.makedirs(os.path.join(queues, "no topic", "0"))
    before = told(root)
    first = min(snapshot(queues))
    for name in ("notes", "9" * 20):
        with open(os.path.join(queues, os.path.dirname(first), name), "wb") as file:
            file.write(b"\1" * 40)

    assert told(root) == before
