"""Transactions when the process is killed between any two file operations of a flush or a close."""

from __future__ import annotations

import pytest

import reput
from reput_testing import KillPoints, ManualClock, QuickDisk
from reput_transaction import TransactionPlugin

pytestmark = [
    pytest.mark.sizes(transaction={"snapshot_size": 4_096}),
    pytest.mark.shows("transaction"),
]

HOUR = 3_600_000


class Transactions:
    """A store with transactions, whose worker is called by hand."""

    def __init__(self, root, clock, disk=None):
        self.clock = clock
        self.asked = []
        self.plugin = TransactionPlugin()
        self.store = reput.open(
            root,
            plugins=["consumequeue", self.plugin],
            config={
                "commitlog": {"file_size": 1 << 16},
                "consumequeue": {"units_per_file": 64},
            },
            clock=clock,
            disk=disk or QuickDisk(),
            threads=False,
        )
        self.store.plugin("transaction").on_check(self._asked)

    def _asked(self, half):
        self.asked.append(half.body)

    def begin(self, *names):
        """One transaction that is not ended."""
        return [
            self.store.plugin("transaction").prepare(reput.Message("orders", name.encode()))
            for name in names
        ]

    def settle(self):
        for _ in range(20):
            self.store.work()

    def visible(self):
        self.store.wait_dispatched()
        return [message.body for message in self.store.read("orders", 0, 0, 1_000)]


def fill(store):
    """So much that a snapshot of the index is due."""
    store.put(reput.Message("other", b"x" * 5_000))


def a_flush(at):
    """Behind ends of transactions of which some were flushed before."""
    first = at.begin("committed", "rolled back", "open")
    fill(at.store)
    at.settle()
    at.store.flush()
    at.store.plugin("transaction").commit(first[0])
    at.store.plugin("transaction").rollback(first[1])
    second = at.begin("committed 2", "open 2")
    at.store.plugin("transaction").commit(second[0])
    fill(at.store)
    at.clock.advance(4_000)
    at.settle()


@pytest.mark.parametrize("works_first", [True, False], ids=["work", "dispatch"])
@pytest.mark.parametrize("step", ["flush", "close"])
def test_whenever_it_is_killed_each_transaction_is_ended_once(tmp_path, step, works_first):
    clock = ManualClock()
    disk = KillPoints(tmp_path / "store", tmp_path / "killed")
    before = Transactions(disk.root, clock, disk)
    a_flush(before)
    with disk.watching():
        getattr(before.store, step)()
    before.store.close()

    def check(root, point):
        after = Transactions(root, ManualClock(clock() + HOUR))
        for _ in range(5 if works_first else 0):
            after.plugin.reput_work(now=after.clock())
        after.settle()
        assert after.visible() == [b"committed", b"committed 2"]
        assert sorted(set(after.asked)) == [b"open", b"open 2"]
        assert sorted(half.body for half in after.store.plugin("transaction").dangling()) == [
            b"open",
            b"open 2",
        ]
        after.store.close()

    assert disk.check_each(check) > 5


def test_a_snapshot_that_vanishes_beside_a_damaged_one_is_not_missed(tmp_path):
    clock = ManualClock()
    at = Transactions(tmp_path, clock)
    for number in range(4):
        at.begin(f"open {number}")
        fill(at.store)
        at.settle()
        at.store.flush()
    at.store.close()
    snapshots = sorted(tmp_path.rglob("transaction/[0-9]*"))
    snapshots[-1].write_bytes(b"damaged")

    class OtherWriterDisk(QuickDisk):
        """Another process removes the snapshot before the damaged one when it was read once."""

        count = 0

        def read_file(self, path, limit=1 << 26):
            data = super().read_file(path, limit)
            self.count += path == str(snapshots[-2])
            if self.count == 2:
                raise FileNotFoundError(path)
            return data

    disk = OtherWriterDisk()
    with reput.open(
        tmp_path, "r", plugins=["consumequeue", at.plugin.__class__()], clock=clock, disk=disk
    ) as reader:
        assert len(reader.plugin("transaction").dangling()) == 4
    assert disk.count == 2
