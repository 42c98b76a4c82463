"""However the bytes of a master are split, a replica's files are the master's byte for byte."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import reput
from reput_server.follow import FeedError, ReplicaFeed
from reput_testing import QuickDisk
from reput_testing.casebudget import is_soak
from reput_testing.logs.fuzzing import mutated
from reput_testing.logs.strategies import logs

pytestmark = pytest.mark.shows("divergence")

JAVA_CASES = ["demo", "basic", "slow", "v6", "batch", "transaction", "trimmed", "delay", "ext"]
QUIET = settings(
    max_examples=2_000 if is_soak() else 40,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)


@pytest.fixture
def scratch(tmp_path):
    """Returns new directories."""
    return lambda: Path(tempfile.mkdtemp(dir=tmp_path))


def open_replica(root, file_size, **options):
    return reput.open(
        root,
        plugins=(),
        config={"commitlog": {"file_size": file_size}},
        master="broker-a",
        disk=QuickDisk(),
        threads=False,
        **options,
    )


def bytes_of(store):
    """Where a log begins, its bytes up to its end, and the size of its files."""
    log = store.log
    data = b"".join(log.files.read(base, log.file_size) for base in log.files.bases)
    begin = log.min_physical_offset
    return begin, data[: log.max_physical_offset - begin], log.file_size


def feed_in_parts(feed, begin, data, ends):
    start = 0
    for end in [*ends, len(data)]:
        if end > start:
            feed.feed(begin + start, data[start:end])
            start = end
            assert feed.fed_offset == begin + end


def check_files(replica, begin, data, file_size):
    found = sorted((Path(replica) / "commitlog").iterdir())
    assert [int(each.name) for each in found] == list(
        range(begin, begin + max(len(data), 1), file_size)
    )
    whole = b"".join(each.read_bytes() for each in found)
    assert whole[: len(data)] == data
    assert not any(whole[len(data) :])


@QUIET
@given(data=st.data())
@pytest.mark.costly
def test_random_splits_of_our_own_logs(scratch, data):
    log = data.draw(logs(min_size=1))
    stream = _stream_of(log)
    root = scratch()
    begin = 0
    with open_replica(root, log.file_size) as store:
        feed_in_parts(ReplicaFeed(store), begin, stream, _splits(data, stream))
        assert store.log.max_physical_offset == len(stream)
    check_files(root, begin, stream, log.file_size)
    shutil.rmtree(root)


@pytest.mark.parametrize("case", JAVA_CASES)
def test_random_splits_of_a_java_log(scratch, golden_store, case):
    with reput.open(golden_store(case), "r", plugins=()) as master:
        begin, stream, file_size = bytes_of(master)

    @settings(QUIET, max_examples=100 if is_soak() else 4)
    @given(data=st.data())
    def check(data):
        root = scratch()
        with open_replica(root, file_size) as store:
            feed_in_parts(ReplicaFeed(store), begin, stream, _splits(data, stream))
            assert store.log.max_physical_offset == begin + len(stream)
            assert store.log.min_physical_offset == begin
        check_files(root, begin, stream, file_size)
        shutil.rmtree(root)

    check()


def _stream_of(log):
    """The bytes of all files of a small log."""
    bases = range(0, log.max_physical_offset, log.file_size)
    return b"".join(bytes(log.read(base, log.file_size)) for base in bases)


def _splits(data, stream):
    places = st.integers(0, len(stream))
    return sorted(data.draw(st.lists(places, max_size=30)))


@QUIET
@given(data=st.data())
@pytest.mark.costly
def test_nearly_valid_bytes_are_refused_or_are_records(scratch, data):
    """Nothing but a documented error, and never a record that an opening would not find."""
    log = data.draw(logs(min_size=1))
    stream = _stream_of(log)
    wrong = data.draw(mutated([stream]))
    root = scratch()
    with open_replica(root, log.file_size) as store:
        feed = ReplicaFeed(store)
        try:
            feed_in_parts(feed, 0, wrong, _splits(data, wrong))
        except FeedError:
            assert feed.fed_offset == store.log.max_physical_offset
        end = store.log.max_physical_offset
        found = bytes_of(store)[1]
    assert wrong[:end] == found
    with open_replica(root, log.file_size) as store:
        assert store.log.max_physical_offset == end
        assert store.recovery.finding is None
    shutil.rmtree(root)
