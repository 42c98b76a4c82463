"""A log that ends before its queues: what is gone is listed, with the places that it had."""

from __future__ import annotations

import json
import os

import pytest
from click.testing import CliRunner

import reput
from reput_testing import ManualClock
from reput_tools.cli.root import reput as command

pytestmark = pytest.mark.shows("lost-ends")

CONFIG = {"commitlog": {"file_size": 1 << 16}}


def open_store(root, mode="w"):
    return reput.open(
        root,
        mode,
        plugins=["consumequeue"],
        config=CONFIG if mode == "w" else None,
        threads=False,
        clock=ManualClock(),
    )


def crashed(root, count=90, lost=60):
    """A store that was not closed, whose log lost its last messages; where they began and ended."""
    with open_store(root) as store:
        receipts = [
            store.put(reput.Message("orders", b"body %d" % number, number % 3))
            for number in range(count)
        ]
        store.wait_dispatched()
    first = receipts[count - lost].physical_offset
    with open(root / "commitlog" / f"{0:020d}", "r+b") as file:
        size = os.fstat(file.fileno()).st_size
        file.seek(first)
        file.write(bytes(size - first))
    (root / "abort").write_bytes(b"")
    for name in ("reput/state", "checkpoint"):
        (root / name).unlink(missing_ok=True)
    return first, receipts[-1].physical_offset + receipts[-1].size


def gone(store):
    return [
        (loss.topic, loss.queue_id, loss.queue_offset, loss.queue_end_offset)
        for loss in store.losses()
        if loss.reason == "GONE"
    ]


EXPECTED = [("orders", queue_id, 10, 30) for queue_id in range(3)]


@pytest.mark.parametrize("mode", ["r", "w"])
def test_messages_beyond_the_logs_end_are_listed_by_queue(tmp_path, mode):
    first, end = crashed(tmp_path)

    with open_store(tmp_path, mode) as store:
        assert gone(store) == EXPECTED
        assert min(loss.start_offset for loss in store.losses()) == first
        assert max(loss.end_offset for loss in store.losses()) == end
        assert all(loss.action == "cut" for loss in store.losses())
        assert len(list(store.read("orders", 0, 0, 100))) == 10


def test_a_writer_keeps_the_list_and_notes_nothing_twice(tmp_path):
    crashed(tmp_path)
    with open_store(tmp_path):
        pass

    for mode in ("w", "r", "w"):
        with open_store(tmp_path, mode) as store:
            assert gone(store) == EXPECTED


def test_an_opening_that_is_interrupted_behind_the_note_makes_no_second_one(tmp_path):
    crashed(tmp_path)
    queue = tmp_path / "consumequeue" / "orders" / "1" / f"{0:020d}"
    units = queue.read_bytes()
    with open_store(tmp_path):
        pass
    queue.write_bytes(units)
    (tmp_path / "abort").write_bytes(b"")

    with open_store(tmp_path) as store:
        assert gone(store) == EXPECTED


def test_a_crash_that_cost_nothing_lists_nothing(tmp_path):
    crashed(tmp_path, lost=1)
    with open_store(tmp_path) as store:
        store.put(reput.Message("orders", b"once more", 2))
        store.wait_dispatched()
    (tmp_path / "abort").write_bytes(b"")

    with open_store(tmp_path) as store:
        assert gone(store) == [("orders", 2, 29, 30)]  # of the crash before


def test_a_reader_beside_a_writer_is_told_of_no_loss(tmp_path):
    with open_store(tmp_path) as store:
        for number in range(20):
            store.put(reput.Message("orders", b"body %d" % number))
            store.wait_dispatched()
            with open_store(tmp_path, "r") as reader:
                assert reader.losses() == []


def test_a_store_that_rocketmq_left_so_is_listed_too(golden_store):
    root = golden_store("crash-log-behind-queues")

    done = CliRunner().invoke(command, ["losses", str(root), "--json"])

    losses = json.loads(done.stdout)["losses"]
    ranges = [(each["queue_offset"], each["queue_end_offset"]) for each in losses]
    assert {each["reason"] for each in losses} == {"GONE"}
    assert sum(end - first for first, end in ranges) == 20
    (people,) = {CliRunner().invoke(command, ["losses", str(root)]).stdout}
    assert all(f"@{first}..{end}" in people for first, end in ranges)
