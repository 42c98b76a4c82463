"""All plugins in one store that was killed, and readers beside the writer that mends it."""

from __future__ import annotations

import pytest
from besidewriters import check_queue, killed, look_between, open_still
from interleaved import look_across

import reput
from reput_testing import ManualClock

pytest.importorskip("reput_consumequeue")
pytest.importorskip("reput_index")
pytest.importorskip("reput_filter")
pytest.importorskip("reput_schedule")
pytest.importorskip("reput_transaction")
pytest.importorskip("reput_compaction")

from reput_schedule import delayed

pytestmark = [
    pytest.mark.sizes(
        consumequeue={"extend_file_size": 200},
        compaction={"log_file_size": 1200, "queue_file_size": 200},
    ),
    pytest.mark.shows("readers-beside"),
]

PLUGINS = ["consumequeue", "index", "filter", "schedule", "transaction", "compaction"]
CONFIG = {
    "commitlog": {"file_size": 1 << 16},
    "consumequeue": {"units_per_file": 4, "extend": True},
    "index": {"slots_per_file": 7, "items_per_file": 8},
    "compaction": {"topics": ["kept"]},
}


class Life:
    """What was put into a store that is killed."""

    def __init__(self):
        self.ends = []
        self.starts = []
        self.waiting = 0
        self.open = set()
        self.values = []

    def put(self, count):
        def work(store):
            for _ in range(count):
                place = len(self.ends)
                receipt = store.put(reput.Message("plain", b"%d" % place, keys="shared"))
                self.ends.append(receipt.end_offset)
                self.starts.append(receipt.physical_offset)
                store.put(delayed(reput.Message("late", b"x"), delay_ms=60_000 + 1_000 * place))
                store.put(delayed(reput.Message("late", b"x"), level=9))
                self.waiting += 2
                half = store.plugin("transaction").prepare(reput.Message("half", b"x"))
                if place % 2:
                    store.plugin("transaction").rollback(half)
                else:
                    self.open.add(half.record.physical_offset)
                self.values.append(
                    store.put(reput.Message("kept", b"v%d" % place, keys=f"k{place % 3}"))
                )

        return work

    def check(self, reader):
        check_queue(reader, "plain", 0, self.ends, lambda place: b"%d" % place)
        found = reader.query("plain", "shared")
        offsets = {message.physical_offset for message in found}
        assert offsets <= set(self.starts)
        assert offsets >= {each for each in self.starts if each < found.indexed_to}
        # Timed ones that the writer is just putting on the wheel may count twice.
        scheduled = reader.plugin("schedule").scheduled()
        assert self.waiting // 2 <= scheduled.counts.sum() <= self.waiting
        assert scheduled.message_count <= self.waiting + self.waiting // 2
        assert {
            half.record.physical_offset for half in reader.plugin("transaction").dangling()
        } == self.open
        for info in reader.queues():
            assert info.min_queue_offset <= info.max_queue_offset
        at = 0
        while True:
            answer = reader.read("kept", 0, at)
            assert answer.holes == ()
            for place, message in zip(answer.queue_offsets, answer, strict=True):
                assert message.body == b"v%d" % place
            if answer.next_queue_offset <= at:
                break
            at = answer.next_queue_offset
        reader.report()


@pytest.mark.proof
@pytest.mark.parametrize("flushed", [3])
@pytest.mark.costly
def test_whatever_readers_ask_beside_a_writer_that_mends_is_right_or_not_there_yet(
    tmp_path, flushed
):
    life = Life()
    root = killed(
        tmp_path / "store",
        tmp_path / "killed",
        CONFIG,
        PLUGINS,
        life.put(flushed),
        life.put(6 - flushed),
    )

    def reopen(disk):
        with open_still(root, CONFIG, PLUGINS, disk, ManualClock()) as store:
            store.wait_dispatched()

    assert look_between(root, tmp_path / "copies", PLUGINS, reopen, life.check, 15) > 50


@pytest.mark.proof
@pytest.mark.parametrize("seed", [1, 2, 2185])
@pytest.mark.costly
def test_a_look_that_a_writer_interrupts_is_right_or_ends_early(tmp_path, seed):
    life = Life()
    root, left = tmp_path / "store", tmp_path / "killed"
    killed(root, left, CONFIG, PLUGINS, life.put(2), life.put(4))

    def reopen(disk):
        with open_still(left, CONFIG, PLUGINS, disk, ManualClock()) as store:
            store.wait_dispatched()
            store.flush()

    look_across(left, PLUGINS, reopen, life.check, seed)
