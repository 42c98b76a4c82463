"""A replica: a store whose log is fed with the bytes of another one."""

from __future__ import annotations

import itertools
import os
import shutil
import threading
from pathlib import Path

import pytest

import reput
from reput.errors import (
    CreateMappedFileError,
    NotReplicaError,
    ReadOnlyStoreError,
    ReplicaError,
    ServiceNotAvailableError,
    StoreClosedError,
)
from reput_server.follow import CorruptFeedError, DivergedError, FeedGapError, ReplicaFeed
from reput_testing import FaultyDisk

FILE_SIZE = 4096
CONFIG = {"commitlog": {"file_size": FILE_SIZE}}
MASTER = "broker-a at 10.0.0.7:10911"


def message(number, size=40):
    body = bytes([number % 251]) * size
    return reput.Message("orders", body, queue_id=number % 3, tags="a")


@pytest.fixture
def master(tmp_path):
    """A closed store of several files."""
    with reput.open(tmp_path / "master", plugins=(), config=CONFIG) as store:
        for number in range(60):
            store.put(message(number, 20 + 37 * number % 600))
    return tmp_path / "master"


def log_of(path, start=0):
    """The bytes of a closed store's log, from its first file up to its last record."""
    with reput.open(path, "r", plugins=()) as store:
        end = store.log.max_physical_offset
    names = sorted(os.listdir(path / "commitlog"))
    data = b"".join((path / "commitlog" / name).read_bytes() for name in names)
    return data[start : end - int(names[0])]


def files_of(path):
    return {each.name: each.read_bytes() for each in sorted((Path(path) / "commitlog").iterdir())}


def open_replica(path, **options):
    return reput.open(path, plugins=(), config=CONFIG, master=MASTER, **options)


def test_a_replica_stays_one_until_it_is_promoted(tmp_path, master):
    path = tmp_path / "replica"
    with open_replica(path) as store:
        feed = ReplicaFeed(store)
        feed.feed(0, log_of(master))
    with reput.open(path, plugins=()) as store:
        assert (store.role, store.master) == ("replica", MASTER)
        store.promote()
        assert (store.role, store.master) == ("primary", None)
    with reput.open(path, plugins=()) as store:
        assert (store.role, store.master) == ("primary", None)


def test_a_reader_knows_the_role(tmp_path):
    open_replica(tmp_path).close()
    with reput.open(tmp_path, "r", plugins=()) as store:
        assert (store.role, store.master) == ("replica", MASTER)
        with pytest.raises(ReadOnlyStoreError):
            store.append_raw(0, b"", None)
        with pytest.raises(ReadOnlyStoreError):
            store.promote()


@pytest.mark.parametrize(
    "put",
    [
        lambda store: store.put(message(1)),
        lambda store: store.put_many([message(1), message(2)]),
        lambda store: store.put_many([message(1), message(2)], whole=True),
        lambda store: store.put(
            reput.Message("t", b"x", born_host=("::1", 1))
        ),  # is appended one by one
    ],
)
def test_a_replica_refuses_puts_and_names_its_master(tmp_path, master, put):
    data = log_of(master)
    with open_replica(tmp_path / "replica") as store:
        feed = ReplicaFeed(store)
        feed.feed(0, data[:2000])
        end = store.log.max_physical_offset
        with pytest.raises(ReplicaError, match=r"10\.0\.0\.7.*reput promote"):
            put(store)
        assert store.log.max_physical_offset == end
        feed.feed(2000, data[2000:])
        with pytest.raises(ReplicaError):
            put(store)
    assert files_of(tmp_path / "replica") == files_of(master)


def test_a_promoted_store_continues_the_queues(tmp_path, master):
    data = log_of(master)
    with open_replica(tmp_path / "replica") as store:
        feed = ReplicaFeed(store)
        feed.feed(0, data[:-10])  # the last message stays behind
        store.promote()
        receipts = [store.put(message(number)) for number in range(3)]
    assert [each.queue_offset for each in receipts] == [20, 20, 19]
    with reput.open(tmp_path / "replica", plugins=()) as store:
        assert store.clean
        offsets = [offset for batch in store.scan() for offset in batch.queue_offset.tolist()]
    assert offsets[-3:] == [20, 20, 19]
    assert len(offsets) == 62


def test_a_primary_takes_no_bytes(tmp_path):
    with reput.open(tmp_path, plugins=(), config=CONFIG) as store:
        with pytest.raises(NotReplicaError, match="master="):
            store.append_raw(0, b"x", 0)
        with pytest.raises(NotReplicaError):
            store.promote()


def test_a_store_with_messages_of_its_own_becomes_no_replica(tmp_path, master):
    before = files_of(master)
    with pytest.raises(NotReplicaError, match="messages of its own"):
        open_replica(master)
    assert files_of(master) == before
    with reput.open(master, plugins=()) as store:
        assert store.role == "primary"


def test_an_empty_store_becomes_a_replica(tmp_path, master):
    reput.open(tmp_path / "replica", plugins=(), config=CONFIG).close()
    with open_replica(tmp_path / "replica") as store:
        feed = ReplicaFeed(store)
        feed.feed(0, log_of(master))
    with reput.open(tmp_path / "replica", plugins=()) as store:
        assert store.losses() == []
        assert store.role == "replica"


@pytest.mark.parametrize("name", ["", " "])
def test_a_master_without_a_name_is_refused(tmp_path, name):
    with pytest.raises(ValueError, match="master"):
        reput.open(tmp_path, plugins=(), master=name)


def test_a_gap_is_refused(tmp_path, master):
    data = log_of(master)
    with open_replica(tmp_path / "replica") as store:
        feed = ReplicaFeed(store)
        feed.feed(0, data[:100])
        with pytest.raises(FeedGapError, match="from 100 on") as caught:
            feed.feed(101, data[101:200])
        assert (caught.value.physical_offset, caught.value.fed_offset) == (101, 100)
        feed.feed(100, data[100:])
        assert store.log.max_physical_offset == len(data)


def test_an_empty_log_begins_at_the_start_of_any_file(tmp_path, master):
    data = log_of(master)
    with open_replica(tmp_path / "replica") as store:
        feed = ReplicaFeed(store)
        with pytest.raises(FeedGapError, match="4096"):
            feed.feed(FILE_SIZE + 1, data[FILE_SIZE + 1 :])
        feed.feed(2 * FILE_SIZE, data[2 * FILE_SIZE :])
        assert store.log.min_physical_offset == 2 * FILE_SIZE
    expected = dict(itertools.islice(files_of(master).items(), 2, None))
    assert files_of(tmp_path / "replica") == expected
    with reput.open(tmp_path / "replica", plugins=()) as store:
        assert store.clean
        assert store.losses() == []  # nothing before its first file was ever here


def test_overlapping_bytes_are_compared_and_skipped(tmp_path, master):
    data = log_of(master)
    with open_replica(tmp_path / "replica") as store:
        feed = ReplicaFeed(store)
        feed.feed(0, data[:5000])
        feed.feed(0, data[:3000])
        feed.feed(10, data[10:9000])
        feed.feed(8000, data[8000:])
    assert files_of(tmp_path / "replica") == files_of(master)


@pytest.mark.shows("divergence")
@pytest.mark.parametrize("place", [0, 777, 4095, 4097, 6999])
def test_other_bytes_are_a_divergence_and_both_are_kept(tmp_path, master, place):
    data = log_of(master)
    other = bytearray(data)
    other[place] ^= 1
    path = tmp_path / "replica"
    with open_replica(path) as store:
        feed = ReplicaFeed(store)
        feed.feed(0, data[:7000])
        end = store.log.max_physical_offset
        with pytest.raises(DivergedError, match=f"offset {place}:") as caught:
            feed.feed(0, bytes(other))
        with pytest.raises(DivergedError):
            feed.feed(7000, data[7000:])
        assert store.log.max_physical_offset == end
    kept = Path(caught.value.kept)
    assert kept.parent == path / "reput" / "lost+found"
    assert kept.read_bytes() == other[place:]
    assert log_of(path) == data[:end]


@pytest.mark.parametrize("place", [0, 4, 30, 90, 9000])
def test_a_record_that_is_not_valid_ends_the_log_and_may_be_fed_again(tmp_path, master, place):
    data = log_of(master)
    broken = bytearray(data)
    broken[place] ^= 0xFF
    with open_replica(tmp_path / "replica") as store:
        feed = ReplicaFeed(store)
        with pytest.raises(CorruptFeedError, match=MASTER) as caught:
            feed.feed(0, broken)
        assert feed.fed_offset == store.log.max_physical_offset == caught.value.physical_offset
        feed.feed(feed.fed_offset, data[feed.fed_offset :])
    assert files_of(tmp_path / "replica") == files_of(master)


def test_a_closed_replica_takes_no_bytes(tmp_path):
    store = open_replica(tmp_path)
    store.close()
    with pytest.raises(StoreClosedError):
        store.append_raw(0, b"", None)


@pytest.mark.parametrize("data", ["text", 5, None, [1, 2]])
def test_what_is_fed_is_bytes(tmp_path, data):
    with open_replica(tmp_path) as store:
        with pytest.raises(TypeError, match="bytes-like"):
            store.append_raw(0, data, None)
        with pytest.raises(TypeError, match="physical_offset"):
            store.append_raw("0", b"", None)


@pytest.mark.parametrize(
    ("skipped", "size", "last"), [(-1, 90, 0), (1, 90, 0), (1, 8, None), (0, FILE_SIZE, None)]
)
def test_bytes_that_do_not_continue_the_log_are_refused(tmp_path, master, skipped, size, last):
    with open_replica(tmp_path / "replica") as store:
        with pytest.raises(ValueError, match="ends at 0"):
            store.append_raw(1, b"x", 1)  # inside of a file
        ReplicaFeed(store).feed(0, log_of(master)[:300])
        end = store.log.max_physical_offset
        with pytest.raises(ValueError, match=f"ends at {end}"):
            store.append_raw(end + skipped, bytes(size), last)
        assert store.log.max_physical_offset == end > 0


@pytest.mark.parametrize("lasting", [False, True])
def test_after_any_error_of_the_disk_the_rest_is_fed_again(tmp_path, master, lasting):
    data = log_of(master)
    disk = FaultyDisk()
    failed = set()
    for number in range(1, 30):
        root = tmp_path / f"replica {number}"
        with open_replica(root, disk=disk, threads=False) as store:
            feed = ReplicaFeed(store)
            feed.feed(0, data[:3000])
            disk.plan(number, lasting=lasting, below="replica")
            while (start := feed.fed_offset) < len(data):
                try:
                    feed.feed(start, data[start : start + 1700])
                except CreateMappedFileError:
                    failed.add(number)
                    assert store.log.max_physical_offset <= feed.fed_offset <= start + 1700
                    disk.plan(None)
            disk.plan(None)
        assert files_of(root) == files_of(master)
        shutil.rmtree(root)
    assert len(failed) > 10


def test_one_feeds_and_another_promotes_and_none_is_lost(tmp_path, master):
    data = log_of(master)
    with open_replica(tmp_path / "replica") as store:
        feed = ReplicaFeed(store)
        refused = []

        def feed_all():
            try:
                for start in range(0, len(data), 50):
                    feed.feed(start, data[start : start + 50])
            except (NotReplicaError, ServiceNotAvailableError) as error:
                refused.append(error)

        thread = threading.Thread(target=feed_all)
        thread.start()
        store.promote()
        end = store.log.max_physical_offset
        thread.join()
        assert store.log.max_physical_offset == end
        assert store.put(message(1)).physical_offset >= end
        assert refused or end == len(data)


def test_an_interrupted_feed_goes_on_at_the_fed_offset(tmp_path, master, monkeypatch):
    data = log_of(master)
    with open_replica(tmp_path / "replica") as store:
        feed = ReplicaFeed(store)
        append, calls = store.log.append_raw, itertools.count(1)

        def interrupted(*args):
            if next(calls) % 3 == 0:
                raise KeyboardInterrupt
            append(*args)

        monkeypatch.setattr(store.log, "append_raw", interrupted)
        interrupts = 0
        while (start := feed.fed_offset) < len(data):
            try:
                feed.feed(start, data[start : start + 900])
            except KeyboardInterrupt:
                interrupts += 1
        assert interrupts > 3
    assert files_of(tmp_path / "replica") == files_of(master)


def test_a_reader_beside_a_feeder_sees_whole_records_only(tmp_path, master):
    data = log_of(master)
    path = tmp_path / "replica"
    with open_replica(path) as store, reput.open(path, "r", plugins=()) as reader:
        feed = ReplicaFeed(store)
        for start in range(0, len(data), 333):  # also in the middle of blanks
            feed.feed(start, data[start : start + 333])
            assert reader.log.max_physical_offset in {
                store.log.max_physical_offset,
                _last_record_end(store),
            }
            with reput.open(path, "r", plugins=()) as late:
                assert late.recovery.finding is None
                assert late.role == "replica"
        count = sum(len(batch) for batch in reader.scan(check_crc=True))
    assert count == 60


def _last_record_end(store):
    """Where the log of a reader ends before the next file has a record."""
    last = store.log.last_record_offset
    return 0 if last < 0 else last + len(store.get(last).record)


@pytest.mark.parametrize("size", [8, 9, 20, 60, 87, 88, 120])
def test_a_short_blank_may_be_cut_anywhere(tmp_path, size):
    """It may be shorter than the header of a record."""
    with reput.open(tmp_path / "master", plugins=(), config=CONFIG) as store:
        store.put(reput.Message("t", b""))
        base = store.log.max_physical_offset  # of a record without a body
        store.put(reput.Message("t", b"x" * (FILE_SIZE - 2 * base - size)))
        blank = store.log.max_physical_offset
        store.put_many([message(number) for number in range(3)])
    assert blank == FILE_SIZE - size
    data = log_of(tmp_path / "master")

    for cut in (1, 4, 5, 7, 8):
        with open_replica(tmp_path / str(cut)) as replica:
            feed = ReplicaFeed(replica)
            for start, end in [(0, blank + cut), (blank + cut, FILE_SIZE), (FILE_SIZE, len(data))]:
                feed.feed(start, data[start:end])

        assert log_of(tmp_path / str(cut)) == data, cut


@pytest.mark.parametrize("size", [0, 1, 7])
def test_a_record_that_leaves_no_room_for_a_blank_is_refused_however_often_it_comes(tmp_path, size):
    """After it the log could not be continued."""
    larger = {"commitlog": {"file_size": 2 * FILE_SIZE}}
    with reput.open(tmp_path / "master", plugins=(), config=larger) as store:
        store.put(reput.Message("t", b""))
        base = store.log.max_physical_offset
        store.put(reput.Message("t", b"x" * (FILE_SIZE - 2 * base - size)))
        store.put(message(1))
    data = log_of(tmp_path / "master")

    for _ in range(2):
        with open_replica(tmp_path / "replica") as replica:
            feed = ReplicaFeed(replica)
            for _ in range(2):
                with pytest.raises(CorruptFeedError, match="no room for a blank") as caught:
                    feed.feed(0, data)
                assert caught.value.physical_offset == feed.fed_offset == base
