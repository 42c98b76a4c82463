"""Transactions against a plain model: a dict of what each one was told to become."""

from __future__ import annotations

import shutil
import tempfile
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

import reput
from reput_testing import ManualClock, QuickDisk
from reput_transaction import TransactionEndedError

pytestmark = [
    pytest.mark.sizes(transaction={"snapshot_size": 4_096}),
    pytest.mark.shows("transaction"),
]
CONFIG = {
    "commitlog": {"file_size": 8_192},
    "consumequeue": {"units_per_file": 50},
    "transaction": {"check_max": 3, "keep_hours": 100_000},
}


class Transactions(RuleBasedStateMachine):
    """A store is opened, killed and asked; the model knows what must be visible, once."""

    def __init__(self) -> None:
        super().__init__()
        self.directory = Path(tempfile.mkdtemp(prefix="reput-model-"))
        self.number = 0
        self.clock = ManualClock()
        self.committed: set[bytes] = set()
        self.dropped: set[bytes] = set()
        self.waiting: dict[str, list[bytes]] = {}  # transaction id -> bodies of its transaction
        self.answers: dict[bytes, str | None] = {}
        self.root = self.directory / "0"
        self.open()

    def open(self) -> None:
        self.store = reput.open(
            self.root,
            plugins=["consumequeue", "transaction"],
            config=CONFIG,
            clock=self.clock,
            disk=QuickDisk(),
            threads=False,
        )

    def teardown(self) -> None:
        self.store.close()
        shutil.rmtree(self.directory)

    def body(self) -> bytes:
        self.number += 1
        return b"%d" % self.number

    def end(self, bodies: list[bytes], into: set[bytes]) -> None:
        into.update(bodies)
        for name in [name for name, known in self.waiting.items() if known[0] in bodies]:
            del self.waiting[name]

    # ------------------------------------------------------------------ what happens

    @rule()
    def prepare(self) -> None:
        body = self.body()
        half = self.store.plugin("transaction").prepare(reput.Message("orders", body))
        self.waiting[half.transaction_id] = [body]

    @rule(count=st.integers(1, 4), outcome=st.sampled_from(["commit", "raise", "die"]))
    def transact(self, count: int, outcome: str) -> None:
        bodies = [self.body() for _ in range(count)]
        transaction = self.store.plugin("transaction").transaction()
        if outcome == "die":
            halves = transaction.put_many([reput.Message("orders", body) for body in bodies])
            for half in halves:
                self.waiting[half.transaction_id] = bodies
            return
        try:
            with transaction:
                for body in bodies:
                    transaction.put(reput.Message("orders", body))
                if outcome == "raise":
                    raise KeyError
        except KeyError:
            self.dropped.update(bodies)
        else:
            self.committed.update(bodies)

    @precondition(lambda self: self.waiting)
    @rule(data=st.data(), commits=st.booleans())
    def decide(self, data: st.DataObject, commits: bool) -> None:
        # By number: the names are made of the process and the time, other ones in each run.
        name = list(self.waiting)[data.draw(st.integers(0, len(self.waiting) - 1))]
        bodies = self.waiting[name]
        if commits:
            self.store.plugin("transaction").commit(name)
        else:
            self.store.plugin("transaction").rollback(name)
        self.end(bodies, self.committed if commits else self.dropped)

    @rule(answer=st.sampled_from(["commit", "rollback", None]), minutes=st.integers(1, 3))
    def check(self, answer: str | None, minutes: int) -> None:
        def asked(half):
            bodies = self.waiting[half.transaction_id]
            if answer is not None:
                self.end(bodies, self.committed if answer == "commit" else self.dropped)
            return answer

        self.store.plugin("transaction").on_check(asked)
        stop = self.clock.now + minutes * 60_000
        while (due := self.store.work()) is not None and due <= stop:
            self.clock.now = max(self.clock.now, due)
        self.clock.now = stop
        self.store.plugin("transaction").on_check(None)
        for message in self.read("TRANS_CHECK_MAX_TIME_TOPIC"):
            for name in [n for n, known in self.waiting.items() if message.body in known]:
                left = [body for body in self.waiting[name] if body != message.body]
                if name == message.unique_key:
                    del self.waiting[name]
                else:
                    self.waiting[name] = left
            self.dropped.add(message.body)

    @rule(step=st.integers(-60_000, 60_000))
    def work(self, step: int) -> None:
        self.store.wait_dispatched()
        self.clock.advance(step)
        self.store.work()

    @rule(name=st.text(max_size=40))
    def end_unknown(self, name: str) -> None:
        for end in (
            self.store.plugin("transaction").commit,
            self.store.plugin("transaction").rollback,
        ):
            try:
                end(name)
            except (LookupError, TransactionEndedError):
                continue
            raise AssertionError(f"{name!r} was ended")

    @rule()
    def flush(self) -> None:
        self.store.flush()

    @rule()
    def reopen(self) -> None:
        self.store.close()
        self.open()

    @rule()
    def die(self) -> None:
        """A killed process: all bytes are there, and nothing was closed."""
        killed = self.directory / f"{int(self.root.name) + 1}"
        shutil.copytree(self.root, killed)
        self.store.close()
        shutil.rmtree(self.root)
        self.root = killed
        self.open()

    @rule()
    def lose_snapshots(self) -> None:
        self.store.close()
        shutil.rmtree(self.root / "transaction", ignore_errors=True)
        self.open()

    # ------------------------------------------------------------------ what holds

    def read(self, topic: str) -> list[reput.MessageView]:
        self.store.wait_dispatched()
        found: list[reput.MessageView] = []
        while result := self.store.read(topic, 0, len(found), 1_000):
            found += result
        return found

    @invariant()
    def what_was_committed_is_visible_once_and_nothing_else(self) -> None:
        visible = Counter(message.body for message in self.read("orders"))
        assert visible == Counter(self.committed)

    @invariant()
    def what_is_open_is_dangling_and_nothing_else(self) -> None:
        dangling = Counter(
            half.transaction_id for half in self.store.plugin("transaction").dangling()
        )
        assert dangling == Counter(list(self.waiting))


TestTransactions = Transactions.TestCase
TestTransactions.settings = settings(max_examples=25, stateful_step_count=25, deadline=None)
