from __future__ import annotations

import itertools
import os
import pickle
import threading

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from openstores import until

import reput
from reput.errors import (
    ConfigError,
    CreateMappedFileError,
    ForkedStoreError,
    MessageIllegalError,
    MessageTooLargeError,
    NoReaderError,
    OffsetOutOfRangeError,
    ReadOnlyStoreError,
    ServiceNotAvailableError,
    StoreClosedError,
    StoreLockedError,
    StoreNotFoundError,
)
from reput.files.system.disk import Disk
from reput_testing import traces
from reput_testing.crashes.storeinternals import store_internals

SMALL = {"commitlog": {"file_size": 4096}}


def open_small(path, **options):
    return reput.open(path, plugins=[], config=SMALL, **options)


def bodies_of(store):
    return [
        batch.message(row).body for batch in store.scan(check_crc=True) for row in range(len(batch))
    ]


def test_prepared_and_rolled_back_messages_take_no_queue_offset(tmp_path):
    flags = [0x0, 0x4, 0x8, 0xC, 0x0]
    with open_small(tmp_path) as store:
        one_by_one = [store.put(reput.Message("T", b"", 0, sys_flag=f)).queue_offset for f in flags]
        together = store.put_many([reput.Message("T", b"", 1, sys_flag=f) for f in flags])

    assert one_by_one == [0, 0, 1, 0, 2]
    assert together.queue_offsets.tolist() == [0, 0, 1, 0, 2]


@pytest.mark.costly
def test_put_many_writes_the_bytes_that_single_puts_write(tmp_path):
    sent = [
        reput.Message(
            f"topic{n % 3}",
            os.urandom(n * 7 % 300),
            n % 4,
            tags=[None, "TagA", "标签"][n % 3],
            keys=[None, "k1 k2", ["a", "b"]][n % 3],
            properties={"price": str(n)} if n % 2 else None,
            flag=n - 50,
            sys_flag=[0, 1, 8][n % 3],
            born_host=None if n % 2 else ("10.0.0.9", n),
            born_timestamp=None if n % 5 else 1_600_000_000_000 + n,
            reconsume_times=n,
            prepared_transaction_offset=n,
        )
        for n in range(300)
    ]
    with open_small(tmp_path / "one", clock=lambda: 1_700_000_000_000) as store:
        for message in sent:
            store.put(message)
    with open_small(tmp_path / "many", clock=lambda: 1_700_000_000_000) as store:
        receipts = list(store.put_many(sent))

    assert {receipt.store_timestamp for receipt in receipts} == {1_700_000_000_000}
    assert _log_bytes(tmp_path / "one") == _log_bytes(tmp_path / "many")
    assert len(receipts) == 300


@pytest.mark.parametrize(
    ("columns", "field"),
    [
        ({"body": ["text"]}, "body"),
        ({"body": [b"x"], "topic": "a/b"}, "topic"),
        ({"body": [b"x", b"y"], "topic": ["T"]}, "topic"),
        ({"body": [b"x"], "queue_id": [-1]}, "queue_id"),
        ({"body": [b"x"], "queue_id": 1 << 31}, "queue_id"),
        ({"body": [b"x"], "queue_id": ["one"]}, "queue_id"),
        ({"body": [b"x"], "flag": [1, 2]}, "flag"),
        ({"body": [b"x"], "tags": ["a\x02b"]}, "properties"),
        ({"body": [b"x"], "keys": ["\ud800"]}, "properties"),
        ({"body": (np.array([0, 9]), b"x")}, "body"),
        ({"body": (np.array([1, 0]), b"x")}, "body"),
        ({"body": [b"x" * 5_000_000]}, "body"),
        ({"body": [b"x"], "properties": [b"p" * 40_000]}, "properties"),
    ],
)
def test_one_bad_row_of_columns_stores_nothing_and_is_named(tmp_path, columns, field):
    with reput.open(tmp_path, plugins=[]) as store:
        with pytest.raises(reput.ReputError) as caught:
            store.put_many(reput.Columns(**{"topic": "T", **columns}))

        assert caught.value.field == field
        assert store.log.max_physical_offset == 0
        assert len(store.put_many([])) == 0


def _log_bytes(root):
    files = sorted((root / "commitlog").iterdir())
    return [(file.name, file.read_bytes()) for file in files]


def test_ipv6_hosts_and_record_checksums_go_through_put_many_too(tmp_path):
    sent = [
        reput.Message("T", b"a", born_host=("2001:db8::1", 5)),
        reput.Message("T", b"b"),
    ]
    config = {
        "commitlog": {"store_address": "[fe80::1]:10911", "record_crc": True, "file_size": 4096}
    }
    ticks = itertools.count(1_700_000_000_000)
    with reput.open(tmp_path, plugins=[], config=config, clock=lambda: next(ticks)) as store:
        receipts = list(store.put_many(sent))

        views = [store.get(receipt.msg_id) for receipt in receipts]
        assert [view.body for view in views] == [b"a", b"b"]
        assert [view.store_timestamp for view in views] == [r.store_timestamp for r in receipts]
        assert views[0].born_host == ("2001:db8::1", 5)
        assert {view.store_host for view in views} == {("fe80::1", 10_911)}
        assert all("__CRC32#" in view.properties for view in views)


def test_light_queues_get_offsets_of_their_own(tmp_path):
    config = {"commitlog": {"max_light_queues": 2, "file_size": 4096}}
    names = {"INNER_MULTI_DISPATCH": "%LMQ%a,other,%LMQ%b"}
    with reput.open(tmp_path, plugins=[], config=config) as store:
        store.put(reput.Message("T", b"1", properties=names))
        receipt = store.put(reput.Message("T", b"2", properties=names))

        view = store.get(receipt.msg_id)
        assert view.properties["INNER_MULTI_QUEUE_OFFSET"] == "1,,1"
        with pytest.raises(reput.ReputError, match="LMQ_CONSUME_QUEUE_NUM_EXCEEDED"):
            store.put(reput.Message("T", b"3", properties={"INNER_MULTI_DISPATCH": "%LMQ%c"}))
        expected = {("T", 0): 2, ("%LMQ%a", 0): 2, ("%LMQ%b", 0): 2}
        assert store.log.queue_offsets == expected

    with reput.open(tmp_path, plugins=[]) as store:
        assert store.log.queue_offsets == expected


@pytest.mark.parametrize(
    "refused",
    [
        {"properties": {"INNER_MULTI_DISPATCH": "%LMQ%a,%LMQ%b"}},  # one queue too many
        {"properties": {"INNER_NUM": "5"}},
        {"flag": 1 << 31},
        {"body": b"x" * 5_000},
    ],
    ids=["light queues", "inner batch", "field", "size"],
)
@pytest.mark.parametrize(
    "first", [{"properties": {"INNER_MULTI_DISPATCH": "%LMQ%a"}}, {}], ids=["light", "plain"]
)
def test_of_many_messages_none_is_stored_where_a_later_one_is_refused(tmp_path, first, refused):
    config = {"commitlog": {"max_light_queues": 1, "file_size": 4096}}
    many = [reput.Message("T", **{"body": b"1", **each}) for each in (first, refused)]

    with reput.open(tmp_path, plugins=[], config=config) as store:
        with pytest.raises(reput.ReputError):
            store.put_many(many)

        assert store.log.max_physical_offset == 0
        assert store.log.queue_offsets == {}
        # What was refused does not count.
        store.put(reput.Message("T", b"1", properties={"INNER_MULTI_DISPATCH": "%LMQ%c"}))
        with pytest.raises(reput.ReputError, match="LMQ_CONSUME_QUEUE_NUM_EXCEEDED"):
            store.put(reput.Message("T", b"2", properties={"INNER_MULTI_DISPATCH": "%LMQ%d"}))


def test_light_queues_of_one_put_many_go_on_from_each_other(tmp_path):
    config = {"commitlog": {"max_light_queues": 2, "file_size": 4096}}
    names = [{"INNER_MULTI_DISPATCH": text} for text in ("%LMQ%a", "%LMQ%a,%LMQ%b", "%LMQ%b")]

    with reput.open(tmp_path, plugins=[], config=config) as store:
        receipt = store.put_many([reput.Message("T", b"x", properties=each) for each in names])

        offsets = [store.get(msg_id).properties for msg_id in receipt.msg_id.split(",")]
        assert [each["INNER_MULTI_QUEUE_OFFSET"] for each in offsets] == ["0", "1,0", "1"]
        assert receipt.queue_offsets.tolist() == [0, 1, 2]


def test_an_inner_batch_advances_its_queue_by_its_count(tmp_path):
    with open_small(tmp_path) as store:
        batch = reput.Message("T", b"wire", sys_flag=0xC0, properties={"INNER_NUM": "5"})
        first, second = store.put(batch), store.put(batch)

        assert (first.queue_offset, second.queue_offset) == (0, 5)
        assert store.get(second.msg_id).properties["INNER_BASE"] == "5"
        with pytest.raises(MessageIllegalError, match="INNER_NUM"):
            store.put(reput.Message("T", b"", properties={"INNER_NUM": "5"}))


def test_a_message_larger_than_a_file_is_refused_before_anything_is_written(tmp_path):
    with open_small(tmp_path) as store:
        with pytest.raises(MessageTooLargeError, match="files of this size"):
            store.put(reput.Message("T", b"x" * 4_000))
        with pytest.raises(MessageTooLargeError):
            store.put_many([reput.Message("T", b"x" * 4_000)])
        store.put(reput.Message("T", b"x" * (4096 - 8 - 92)))

        assert store.log.max_physical_offset == 4088


def test_receipts_say_which_level_was_reached_and_can_wait(tmp_path):
    config = {"commitlog": {"file_size": 4096, "flush_interval_ms": 3_600_000}}
    with reput.open(tmp_path, plugins=[], config=config) as store:
        receipt = store.put(reput.Message("T", b"x"))
        before = receipt.durability
        after = receipt.wait()

        assert (before, after) == (reput.Durability.APPENDED, reput.Durability.DURABLE)
        assert receipt.status is reput.PutStatus.PUT_OK
        assert store.put_many([reput.Message("T", b"y")] * 100).wait() is reput.Durability.DURABLE


def test_a_synchronous_put_returns_when_it_is_on_disk(tmp_path):
    config = {"commitlog": {"file_size": 4096, "flush": "sync"}}
    with reput.open(tmp_path, plugins=[], config=config) as store:
        assert store.put(reput.Message("T", b"x")).durability is reput.Durability.DURABLE
        unhurried = reput.Message("T", b"y", properties={"WAIT": "false"})
        assert store.put(unhurried).durability is reput.Durability.APPENDED
        assert store.put_many([reput.Message("T")] * 50).durability is reput.Durability.DURABLE


def test_many_producers_share_flushes_and_lose_nothing(tmp_path):
    flushes, first_ends = [], []

    class CountingDisk(Disk):
        def flush(self, descriptor):
            flushes.append(descriptor)
            if first_ends:  # the other seven put meanwhile, and share the next flush
                end = first_ends.pop()
                until(lambda: store.log.max_physical_offset >= end)
            super().flush(descriptor)

    config = {"commitlog": {"file_size": 1 << 16, "flush": "sync"}}
    with reput.open(tmp_path, plugins=[], config=config) as store:
        size = store.put(reput.Message("T", b"0-0")).size
    with reput.open(tmp_path, plugins=[], config=config, disk=CountingDisk()) as store:
        flushes.clear()
        first_ends.append(store.log.max_physical_offset + 8 * size)
        receipts = [[] for _ in range(8)]

        def produce(number):
            for index in range(50):
                receipts[number].append(
                    store.put(reput.Message("T", b"%d-%d" % (number, index), number))
                )

        threads = [threading.Thread(target=produce, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

        assert len(flushes) < 8 * 50
        first = [1, *[0] * 7]  # of queue 0, which has one message already
        assert [[r.queue_offset for r in each] for each in receipts] == [
            [first[number] + index for index in range(50)] for number in range(8)
        ]
        expected = sorted(b"%d-%d" % (n, i) for n in range(8) for i in range(50))
        assert sorted(bodies_of(store)[1:]) == expected


def test_a_flush_in_a_signal_handler_in_a_flush_takes_no_file_from_it(tmp_path):
    class InterruptedDisk(Disk):
        interrupts = 0

        def flush(self, descriptor):
            if self.interrupts:
                self.interrupts -= 1
                store.flush()
            super().flush(descriptor)

    disk = InterruptedDisk()
    config = {"commitlog": {"file_size": 4096, "flush_interval_ms": 3_600_000}}
    with reput.open(tmp_path, plugins=[], config=config, disk=disk, threads=False) as store:
        for body in (b"x", b"y", b"z"):
            store.put(reput.Message("T", body * 2_500))
        disk.interrupts = 1

        store.flush()

        assert disk.interrupts == 0
        store.put(reput.Message("T", b"after")).wait()
        assert [body[:1] for body in bodies_of(store)] == [b"x", b"y", b"z", b"a"]


@pytest.mark.shows("failed-flush")
def test_a_failed_flush_refuses_every_later_put_and_reading_goes_on(tmp_path):
    class FailingDisk(Disk):
        fails = False

        def flush(self, descriptor):
            if self.fails:
                raise OSError(5, "Input/output error")
            super().flush(descriptor)

    disk = FailingDisk()
    store = open_small(tmp_path, disk=disk)
    receipt = store.put(reput.Message("T", b"x"))
    disk.fails = True

    with pytest.raises(ServiceNotAvailableError, match="Input/output error"):
        store.flush()
    disk.fails = False
    for _ in range(2):
        with pytest.raises(ServiceNotAvailableError, match="Input/output error"):
            store.put(reput.Message("T", b"y"))
        with pytest.raises(ServiceNotAvailableError, match="Input/output error"):
            store.flush()
    with pytest.raises(ServiceNotAvailableError):
        receipt.wait()
    assert store.get(receipt.msg_id).body == b"x"
    with pytest.raises(ServiceNotAvailableError):
        store.close()
    assert (tmp_path / "abort").exists()
    reput.open(tmp_path).close()


@pytest.mark.shows("full-disk")
def test_no_room_for_the_next_file_fails_the_put_and_the_one_after_goes_on(tmp_path):
    class FullDisk(Disk):
        full = False

        def allocate(self, descriptor, size):
            if self.full:
                raise OSError(28, "No space left on device")
            super().allocate(descriptor, size)

    disk = FullDisk()
    config = {"commitlog": {"file_size": 4096}}
    with reput.open(tmp_path, plugins=[], config=config, disk=disk) as store:
        store.put(reput.Message("T", b"x" * 3000))
        disk.full = True
        with pytest.raises(CreateMappedFileError, match="No space left"):
            store.put(reput.Message("T", b"y" * 3000))
        store.put(reput.Message("T", b"small enough for this file"))
        disk.full = False
        store.put(reput.Message("T", b"z" * 3000))

        assert [body[:1] for body in bodies_of(store)] == [b"x", b"s", b"z"]


def test_a_store_has_one_writer_and_any_number_of_readers(tmp_path):
    with open_small(tmp_path) as store:
        store.put(reput.Message("T", b"x"))
        with pytest.raises(StoreLockedError) as caught:
            open_small(tmp_path)
        assert caught.value.holder_pid == os.getpid()
        with reput.open(tmp_path, "r") as first, reput.open(tmp_path, "r") as second:
            assert bodies_of(first) == bodies_of(second) == [b"x"]
        store.put(reput.Message("T", b"y"))
    open_small(tmp_path).close()


def test_a_reader_follows_the_writer_across_files(tmp_path):
    with open_small(tmp_path) as store, reput.open(tmp_path, "r") as reader:
        assert bodies_of(reader) == []
        for number in range(100):
            store.put(reput.Message("T", b"%d" % number * 30))
            assert reader.log.max_physical_offset == store.log.max_physical_offset
        assert len(bodies_of(reader)) == 100


def test_a_reader_writes_nothing(tmp_path):
    with open_small(tmp_path) as store:
        store.put(reput.Message("T", b"x"))
    before = traces(tmp_path)

    with reput.open(tmp_path, "r") as reader:
        assert bodies_of(reader) == [b"x"]
        with pytest.raises(ReadOnlyStoreError, match='mode="w"'):
            reader.put(reput.Message("T"))
        with pytest.raises(ReadOnlyStoreError):
            reader.put_many([reput.Message("T")])
        reader.flush()

    assert traces(tmp_path) == before


def test_what_is_no_store_is_not_made_by_looking_at_it(tmp_path):
    with pytest.raises(StoreNotFoundError, match=r'not exist: .*"commitlog"; mode="w" creates'):
        reput.open(tmp_path / "none", "r")
    with pytest.raises(StoreNotFoundError, match="this directory is not a store"):
        reput.open(tmp_path, "r")
    with pytest.raises(ValueError, match="mode"):
        reput.open(tmp_path / "none", "rw")
    assert not (tmp_path / "none").exists()


def test_a_closed_store_says_so(tmp_path):
    store = open_small(tmp_path)
    receipt = store.put(reput.Message("T", b"x"))
    store.close()
    store.close()

    with pytest.raises(StoreClosedError, match="closed"):
        store.put(reput.Message("T"))
    with pytest.raises(StoreClosedError):
        store.put_many([reput.Message("T")])
    with pytest.raises(StoreClosedError):
        store.get(receipt.msg_id)
    with pytest.raises(StoreClosedError):
        store.queues()
    assert store.closed
    assert "closed" in repr(store)


@pytest.mark.parametrize("error", [StoreClosedError("/s"), ForkedStoreError("/s", 1, 2)])
def test_who_waits_out_a_store_that_takes_no_puts_waits_out_a_closed_one(error):
    again = pickle.loads(pickle.dumps(error))

    assert isinstance(again, ServiceNotAvailableError)
    assert again.status is reput.PutStatus.SERVICE_NOT_AVAILABLE
    assert (again.path, str(again)) == ("/s", str(error))
    assert again.args == error.args


def test_without_a_plugin_that_reads_queues_the_error_says_what_to_install(tmp_path):
    with open_small(tmp_path) as store:
        for ask in (
            store.queues,
            lambda: store.read("T", 0, 0),
            lambda: store.offset_by_time("T", 0, 0),
        ):
            with pytest.raises(NoReaderError, match=r"(\./plugins/|plugins=\[')consumequeue"):
                ask()


def test_messages_that_are_not_there_are_errors_that_say_what_is(tmp_path):
    with open_small(tmp_path) as store:
        store.put(reput.Message("T", b"x"))
        for offset in (-1, 1, 50, 4096, 1 << 40):
            with pytest.raises(OffsetOutOfRangeError, match=r"holds \[0, 93\)"):
                store.get(offset)
        with pytest.raises(ValueError, match="not an offset message id"):
            store.get("nonsense")


def test_the_file_size_of_a_store_cannot_be_changed(tmp_path):
    with open_small(tmp_path) as store:
        store.put(reput.Message("T", b"x"))

    with reput.open(tmp_path, plugins=[]) as store:
        assert store.log.file_size == 4096
    with pytest.raises(ConfigError, match="4096 bytes"):
        reput.open(tmp_path, plugins=[], config={"commitlog": {"file_size": 8192}})


def test_configuration_comes_from_toml_and_is_remembered(tmp_path):
    (tmp_path / "reput.toml").write_text(
        '[commitlog]\nfile_size = 8192\nstore_address = "10.0.0.7:10911"\n'
    )
    with reput.open(tmp_path / "s", plugins=[], config=tmp_path / "reput.toml") as store:
        store.put(reput.Message("T", b"x"))

    with reput.open(tmp_path / "s") as store:
        assert store.get(0).store_host == ("10.0.0.7", 10_911)
        assert store.config.store_host == ("10.0.0.7", 10_911)
    with pytest.raises(ConfigError):
        reput.open(tmp_path / "s", config=tmp_path / "none.toml")


def test_idle_threads_burn_no_processor_time(tmp_path):
    # No clock is read here: the reput thread must be blocked on its event, not on a timer.
    with open_small(tmp_path) as store:
        waiting = threading.Event()
        original = store_internals(store).loop.shared.awake.wait

        def wait(timeout=None):
            if timeout is None:  # else a rest after a small round
                waiting.set()
            return original(timeout)

        store_internals(store).loop.shared.awake.wait = wait
        store.put(reput.Message("T", b"x"))
        assert waiting.wait(10)


class LogMachine(RuleBasedStateMachine):
    """Puts, rolls and reopenings against a list of bodies and a dict of counters."""

    @initialize()
    def begin(self):
        import tempfile

        self.directory = tempfile.TemporaryDirectory()
        self.now = 1_700_000_000_000
        self.bodies = []
        self.counts = {}
        self.store = self.open()

    def open(self):
        return reput.open(
            self.directory.name,
            plugins=[],
            config={"commitlog": {"file_size": 2048}},
            clock=lambda: self.now,
        )

    def expect(self, message, receipt):
        key = message.topic, message.queue_id
        assert receipt.queue_offset == self.counts.get(key, 0)
        self.counts[key] = receipt.queue_offset + 1
        self.bodies.append(message.body)

    topics = st.sampled_from(["A", "B"])
    queues = st.integers(0, 2)
    bodies = st.binary(max_size=700)

    @rule(topic=topics, queue=queues, body=bodies, step=st.integers(0, 5))
    def put(self, topic, queue, body, step):
        self.now += step
        message = reput.Message(topic, body, queue)
        self.expect(message, self.store.put(message))

    @rule(rows=st.lists(st.tuples(topics, queues, bodies), max_size=8))
    def put_many(self, rows):
        messages = [reput.Message(topic, body, queue) for topic, queue, body in rows]
        for message, receipt in zip(messages, self.store.put_many(messages), strict=True):
            self.expect(message, receipt)

    @rule()
    def reopen(self):
        self.store.close()
        self.store = self.open()

    @rule()
    def read_for(self):
        with reput.open(self.directory.name, "r") as reader:
            assert bodies_of(reader) == self.bodies

    @invariant()
    def everything_is_there(self):
        if hasattr(self, "store"):
            assert bodies_of(self.store) == self.bodies
            assert self.store.log.queue_offsets == self.counts

    def teardown(self):
        if hasattr(self, "store"):
            self.store.close()
            self.directory.cleanup()


TestLogMachine = LogMachine.TestCase
TestLogMachine.settings = settings(max_examples=25, stateful_step_count=20, deadline=None)


def test_what_a_terminal_shows_of_a_store_says_what_matters(tmp_path):
    with reput.open(tmp_path) as store:
        receipt = store.put(reput.Message("T", b"x" * 65, queue_id=2))
        batch = store.put_many([reput.Message("T", b"short")] * 3)
        receipt.wait()
        long, short = store.get(receipt.msg_id), store.get(batch[0].msg_id)

    assert repr(receipt) == (
        f"<Receipt T/2 queue_offset=0 physical_offset=0 size={receipt.size} "
        f"msg_id={receipt.msg_id} DURABLE>"
    )
    assert f"<BatchReceipt 3 messages physical_offset={receipt.size} end_offset=" in repr(batch)
    assert "T/2 queue_offset=0" in repr(long)
    assert f"body={b'x' * 64!r}… (65 bytes)" in repr(long)
    assert "body=b'short' (5 bytes)" in repr(short)
    assert repr(batch.first(0)) == "<BatchReceipt 0 messages>"


def test_a_package_lists_its_public_names_only():
    assert dir(reput) == sorted(reput.__all__)
