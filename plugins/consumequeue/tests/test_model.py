"""A store with queues against a dict of lists: whatever is done to it, it says the same."""

from __future__ import annotations

import bisect
import shutil
import tempfile

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from openstores import bodies_in

import reput
from reput.status import ReadStatus
from reput_testing import ManualClock, QuickDisk, ReadOnlyDisk

TOPICS = st.sampled_from(["T", "orders", "%RETRY%group"])
QUEUES = st.integers(0, 2)
TRANSACTIONS = st.sampled_from([0, 0, 0, 0x4, 0x8, 0xC])


class StoreMachine(RuleBasedStateMachine):
    """Each queue is a list of ``(body, store time)``."""

    def __init__(self):
        super().__init__()
        self.directory = tempfile.mkdtemp(prefix="reput-model-")
        self.clock = ManualClock()
        self.queues = {}
        self.store = None
        self.count = 0

    @initialize(units_per_file=st.integers(2, 5), file_size=st.sampled_from([512, 1024]))
    def create(self, units_per_file, file_size):
        self.config = {
            # The flush thread sleeps: a copy of the store's files must not see one of its come and
            # go.
            "commitlog": {
                "file_size": file_size,
                "flush_interval_ms": 3_600_000,
            },
            "consumequeue": {"units_per_file": units_per_file},
        }
        self.units_per_file = units_per_file
        self._open()

    def _open(self):
        self.store = reput.open(
            self.directory,
            plugins=["consumequeue"],
            config=self.config,
            clock=self.clock,
            disk=QuickDisk(),
        )

    def _message(self, topic, queue_id, sys_flag):
        self.count += 1
        body = b"message %d" % self.count
        if sys_flag & 0xC in (0, 0x8):
            self.queues.setdefault((topic, queue_id), []).append((body, self.clock.now))
        return reput.Message(topic, body, queue_id, sys_flag=sys_flag)

    # ------------------------------------------------------------------ changes

    @rule(topic=TOPICS, queue_id=QUEUES, sys_flag=TRANSACTIONS)
    def put(self, topic, queue_id, sys_flag):
        self.store.put(self._message(topic, queue_id, sys_flag))

    @rule(rows=st.lists(st.tuples(TOPICS, QUEUES, TRANSACTIONS), min_size=1, max_size=12))
    def put_many(self, rows):
        self.store.put_many([self._message(*row) for row in rows])

    @rule(topic=TOPICS, queue_id=QUEUES, count=st.integers(1, 12))
    def roll_a_queue_into_its_next_file(self, topic, queue_id, count):
        self.store.put_many([self._message(topic, queue_id, 0) for _ in range(count)])

    @rule(duration_ms=st.integers(1, 5))
    def wait(self, duration_ms):
        self.clock.advance(duration_ms)

    @rule()
    def flush(self):
        self.store.flush()

    @rule()
    def reopen(self):
        self.store.close()
        self._open()

    @rule()
    def lose_the_queues_and_reopen(self):
        self.store.close()
        shutil.rmtree(f"{self.directory}/consumequeue", ignore_errors=True)
        self._open()

    @rule()
    def reopen_as_after_a_crash(self):
        """The files of a store that lives are those that a killed process would leave."""
        self.store.wait_dispatched(10)
        copy = tempfile.mkdtemp(prefix="reput-model-")
        shutil.copytree(self.directory, copy, dirs_exist_ok=True)
        self.store.close()
        shutil.rmtree(self.directory)
        self.directory = copy
        self._open()
        assert not self.store.clean

    # ------------------------------------------------------------------ questions

    def _known(self, topic, queue_id):
        return self.queues.get((topic, queue_id), [])

    @rule(topic=TOPICS, queue_id=QUEUES, offset=st.integers(-1, 20), max_count=st.integers(1, 9))
    def read(self, topic, queue_id, offset, max_count):
        self.store.wait_dispatched(10)
        self._compare_read(self.store, topic, queue_id, offset, max_count)

    def _compare_read(self, store, topic, queue_id, offset, max_count):
        known = self._known(topic, queue_id)
        end = len(known)
        answer = store.read(topic, queue_id, offset, max_count)
        bodies = [message.body for message in answer]
        assert (answer.min_queue_offset, answer.max_queue_offset) == (0, end)
        if end == 0:
            expected = ReadStatus.NO_MESSAGE_IN_QUEUE, 0, []
        elif offset < 0:
            expected = ReadStatus.OFFSET_TOO_SMALL, 0, []
        elif offset == end:
            expected = ReadStatus.OFFSET_OVERFLOW_ONE, end, []
        elif offset > end:
            expected = ReadStatus.OFFSET_OVERFLOW_BADLY, end, []
        else:
            in_file = self.units_per_file - offset % self.units_per_file
            stop = min(offset + max_count, offset + in_file, end)
            expected = ReadStatus.FOUND, stop, [body for body, _ in known[offset:stop]]
        assert (answer.status, answer.next_queue_offset, bodies) == expected

    @rule(topic=TOPICS, queue_id=QUEUES, ago=st.integers(-2, 30))
    def read_by_time(self, topic, queue_id, ago):
        self.store.wait_dispatched(10)
        times = [time for _, time in self._known(topic, queue_id)]
        asked = self.clock.now - ago

        lower = self.store.offset_by_time(topic, queue_id, asked)
        upper = self.store.offset_by_time(topic, queue_id, asked, "upper")

        assert lower == bisect.bisect_left(times, asked)
        assert upper == max(bisect.bisect_right(times, asked) - 1, 0)

    @rule()
    def read_beside_the_writer(self):
        self.store.wait_dispatched(10)
        with reput.open(
            self.directory, "r", plugins=["consumequeue"], disk=ReadOnlyDisk()
        ) as reader:
            self._compare_all(reader)
            self.put("T", 0, 0)
            self.put("new-topic", 1, 0)
            self.store.wait_dispatched(10)
            self._compare_all(reader)

    def _compare_all(self, store):
        extents = {(q.topic, q.queue_id): q.max_queue_offset for q in store.queues()}
        assert extents == {queue: len(known) for queue, known in self.queues.items()}
        for (topic, queue_id), known in self.queues.items():
            assert bodies_in(store, topic, queue_id) == [body for body, _ in known]

    @precondition(lambda self: self.store is not None)
    @invariant()
    def every_queue_holds_what_was_put(self):
        self.store.wait_dispatched(10)
        self._compare_all(self.store)
        assert [state.state for state in self.store.plugins()] == ["running"]

    def teardown(self):
        if self.store is not None:
            self.store.close()
        shutil.rmtree(self.directory, ignore_errors=True)


TestStoreMachine = StoreMachine.TestCase
TestStoreMachine.settings = settings(
    max_examples=20,
    stateful_step_count=15,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
