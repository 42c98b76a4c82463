"""Waiting for the disk below an offset that the log does not reach: nothing counts as flushed."""

from __future__ import annotations

import pytest

import reput
from reput.errors import OffsetOutOfRangeError, ServiceNotAvailableError
from reput_testing import kill

FILE_SIZE = 4096
QUIET = {"commitlog": {"file_size": FILE_SIZE, "flush_interval_ms": 60_000}}


class Waits(reput.Plugin):
    """Waits for the disk as plugins do."""

    name = "waits"

    @reput.hookimpl
    def reput_open(self, context):
        self.store = context.store


@pytest.fixture
def waits():
    return Waits()


@pytest.fixture
def store(tmp_path, waits):
    with reput.open(tmp_path / "store", plugins=[waits], config=QUIET) as store:
        store.put(reput.Message("orders", b"body"))
        yield store


@pytest.mark.parametrize("beyond", [1, 2_000, 2 * FILE_SIZE, 1 << 70])
@pytest.mark.parametrize("timeout", [1.0, None])
@pytest.mark.parametrize("by_plugin", [False, True])
def test_no_later_message_counts_as_flushed(store, waits, beyond, timeout, by_plugin):
    end, before = store.log.max_physical_offset, store.flushed_offset
    access = waits.store if by_plugin else store

    with pytest.raises(OffsetOutOfRangeError) as caught:
        access.wait_flushed(end + beyond, timeout)

    error = caught.value
    assert (error.physical_offset, error.max_physical_offset) == (end + beyond, end)
    assert store.flushed_offset == before
    assert store.put(reput.Message("orders", b"late")).durability is reput.Durability.APPENDED


def test_the_end_of_the_log_and_what_is_before_it_is_flushed(store):
    end = store.log.max_physical_offset

    assert store.wait_flushed(end, None)
    assert store.flushed_offset == end
    assert store.wait_flushed(0, 0.0)
    late = store.put(reput.Message("orders", b"late"))
    assert late.durability is reput.Durability.APPENDED
    assert late.wait() is reput.Durability.DURABLE
    assert store.flushed_offset == store.log.max_physical_offset


def test_nothing_counts_as_flushed_that_was_not_when_the_log_was_closed(store):
    receipt = store.put(reput.Message("orders", b"body"), wait=False)

    kill(store)

    with pytest.raises(ServiceNotAvailableError):
        receipt.wait()
    assert receipt.durability is reput.Durability.APPENDED
