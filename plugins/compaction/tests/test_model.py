"""Random histories: the latest value per key equals a dict's, before, during and after runs."""

from __future__ import annotations

import shutil
from importlib.util import find_spec

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from openstores import reads

import reput
from reput_testing import ManualClock, QuickDisk

pytestmark = pytest.mark.sizes(compaction={"log_file_size": 1200, "queue_file_size": 300})

# Queues are listed by another plugin where that is installed, and by this one where not.
BESIDE = [[], ["consumequeue"]] if find_spec("reput_consumequeue") else [[]]
KEYS = st.sampled_from(["a", "b", "a b", "b a", "ключ", "k" * 40])
BODIES = st.just(b"") | st.binary(min_size=1, max_size=120)
ENTRIES = st.lists(st.tuples(KEYS, BODIES, st.integers(0, 1)), min_size=1, max_size=9)
CONFIG = {
    "commitlog": {"file_size": 1 << 15},
    "compaction": {
        "topics": ["t"],
        "interval_ms": 1_000,
        "roll_ms": 2_000,
        "tombstone_retention_ms": 5_000,
    },
}


class CompactedTopic(RuleBasedStateMachine):
    """A store whose topic ``t`` is compacted, and dicts of what its keys mean."""

    @initialize(memory=st.sampled_from([1 << 16, 1 << 20]), plugins=st.sampled_from(BESIDE))
    def begin(self, memory, plugins):
        self.clock = ManualClock()
        self.root = f"{DIRECTORY}/{id(self)}"
        self.plugins = [*plugins, "compaction"]
        self.latest = [{}, {}]
        self.next_offset = [0, 0]
        self.steps = None
        self.store = self.open(self.root)

    def open(self, root):
        return reput.open(
            root,
            plugins=self.plugins,
            config=CONFIG,
            clock=self.clock,
            disk=QuickDisk(),
            threads=False,
        )

    @rule(entries=ENTRIES, flush=st.booleans())
    def put(self, entries, flush):
        messages = [reput.Message("t", body, queue, keys=key) for key, body, queue in entries]
        self.store.put_many(messages)
        for key, body, queue in entries:
            self.latest[queue].pop(key, None)
            if body:
                self.latest[queue][key] = body
            self.next_offset[queue] += 1
        self.store.wait_dispatched()
        if flush:
            self.store.flush()

    @rule(passes=st.integers(0, 8_000))
    def time_passes(self, passes):
        self.clock.advance(passes)
        self.store.work()

    @rule()
    def compact(self):
        self.store.plugin("compaction").compact()
        self.steps = None

    @precondition(lambda self: self.steps is None)
    @rule(queue=st.integers(0, 1))
    def begin_a_run(self, queue):
        worker = self.store.plugin_objects["compaction"].worker
        found = worker.queues.get(("t", queue))
        if worker._run is None and found is not None:
            self.store.flush()
            found.close_last()
            worker._begin(found, self.clock())
            self.steps = worker

    @precondition(lambda self: self.steps is not None)
    @rule(count=st.integers(1, 4))
    def go_on_with_the_run(self, count):
        for _ in range(count):
            if self.steps._run is not None:
                self.steps._step()
        if self.steps._run is None:
            self.steps = None

    @rule()
    def close_and_open(self):
        self.store.close()
        self.steps = None
        self.store = self.open(self.root)

    @rule()
    def kill(self):
        """What is in the files now is all that the next process finds."""
        self.store.wait_dispatched()
        killed = f"{self.root}x"
        shutil.copytree(self.root, killed)
        self.store.close()
        shutil.rmtree(self.root)
        self.root, self.steps = killed, None
        self.store = self.open(self.root)
        self.store.wait_dispatched()

    @invariant()
    def the_latest_value_of_every_key_is_read(self):
        for queue in (0, 1):
            results = list(reads(self.store, "t", queue, 0, 4))
            views = [view for result in results for view in result]
            assert all(result.holes == () for result in results)
            offsets = [view.queue_offset for view in views]
            assert offsets == sorted(set(offsets))
            end = results[-1].next_queue_offset if results else 0
            assert end == self.next_offset[queue]
            found = {}
            for view in views:
                found[view.properties["KEYS"]] = view.body
            assert {key: body for key, body in found.items() if body} == self.latest[queue]

    def teardown(self):
        if hasattr(self, "store"):
            self.store.close()
            shutil.rmtree(self.root, ignore_errors=True)


DIRECTORY = ""


@pytest.mark.shows("compaction")
@pytest.mark.costly
def test_histories(tmp_path, monkeypatch):
    monkeypatch.setitem(globals(), "DIRECTORY", str(tmp_path))
    case = CompactedTopic.TestCase()
    case.settings = settings(
        max_examples=40,
        stateful_step_count=25,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )

    case.runTest()
