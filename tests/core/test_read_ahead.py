"""The next windows are read ahead, with the columns that the window before was asked for."""

from __future__ import annotations

import itertools
import sys
import threading

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import reput
from reput.log.reader import batchreader
from reput.log.reader.batchreader import PrefetchingReader

WINDOW = 1 << 16

pytestmark = pytest.mark.sizes(commitlog={"window_size": WINDOW})


@pytest.fixture
def log(tmp_path):
    with reput.open(tmp_path / "store", plugins=[]) as store:
        store.put_many(
            [reput.Message("T", b"x" * 900, tags=f"t{n}", keys=f"k{n % 50}") for n in range(600)]
        )
        yield store.log


def batches(log, asked):
    """All batches, each asked for these columns, and what each had before it was asked."""
    reader, at, found = log.read_ahead(), log.min_physical_offset, []
    try:
        while at < log.max_physical_offset:
            batch = reader.read(at, log.max_physical_offset).batch
            found.append([name for name in asked if batch.holds(name)])
            for name in asked:
                batch.column(name)
            at = batch.end_offset
    finally:
        reader.close()
    return found


def test_windows_read_ahead_have_the_columns_that_will_be_asked_for(log):
    asked = ["born_timestamp", "tags_code", "physical_offset"]
    held = batches(log, asked)

    assert len(held) > 5
    assert held[0] == []
    # The second was read ahead before the first was used; the last is no whole window.
    assert all(each == asked for each in held[2:-1])


def test_no_column_is_made_that_nobody_asked_for(log):
    assert batches(log, []) == [[]] * len(batches(log, []))
    reader = log.read_ahead()
    try:
        batch = reader.read(0, log.max_physical_offset).batch
        assert not batch.holds("tags_code")
        assert "tags_code" not in batch.asked()
    finally:
        reader.close()


def test_what_enriched_batches_and_parts_are_asked_for_counts_and_what_plugins_add_does_not(log):
    reader, at = log.read_ahead(), 0
    try:
        for turn in range(4):
            batch = reader.read(at, log.max_physical_offset).batch
            assert batch.holds("flag") == batch.holds("tags_code") == (turn > 1)
            enriched = batch.with_columns({"mine": np.zeros(len(batch), np.int64)})
            enriched.column("tags_code")
            enriched.column("mine")
            batch[2:5].column("flag")
            words = enriched.text("KEYS")
            assert words[3] == batch.text("KEYS")[3] == batch.message(3).keys[0]
            assert {"flag", "tags_code", "text:KEYS"} <= set(batch.asked())
            assert "mine" not in batch.asked()
            at = batch.end_offset
    finally:
        reader.close()


@given(
    jumps=st.lists(st.sampled_from(["on", "on", "on", "back", "again", "short"]), max_size=12),
    data=st.data(),
)
@settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
def test_whatever_a_caller_reads_next_is_what_one_reader_reads(log, jumps, data):
    ahead, alone = log.read_ahead(), log.window_reader()
    whole = [batch.end_offset for batch in log.scan()]
    starts = [0, *(place for batch in log.scan() for place in batch.physical_offset.tolist())]
    at = 0
    try:
        for jump in jumps:
            end = log.max_physical_offset
            if jump == "back":
                at = data.draw(st.sampled_from(starts))
            elif jump == "again":
                at = 0
            elif jump == "short":
                end = data.draw(st.sampled_from([each for each in starts if each >= at] or [end]))
            found, expected = ahead.read(at, end), alone.read(at, end)
            assert found.end == expected.end
            assert found.batch.physical_offset.tolist() == expected.batch.physical_offset.tolist()
            assert found.batch.window.tobytes() == expected.batch.window.tobytes()
            at = found.batch.end_offset if found.batch.end_offset < whole[-1] else 0
    finally:
        ahead.close()


def test_a_batch_stays_as_it_is_until_the_next_read(log):
    reader, at = log.read_ahead(), 0
    try:
        while at < log.max_physical_offset:
            batch = reader.read(at, log.max_physical_offset).batch
            before = batch.window.tobytes()
            assert all(each.done.wait(60) for each in reader._ahead)  # its buffers are filled

            assert batch.window.tobytes() == before
            assert len(reader._ahead) <= 2
            at = batch.end_offset
    finally:
        reader.close()


class Failing:
    """A reader that fails once at each of some places."""

    def __init__(self, reader, places):
        self.reader, self.places = reader, places

    def read(self, start, end):
        if start in self.places:
            self.places.discard(start)
            raise OSError("no such sector")
        return self.reader.read(start, end)


@pytest.mark.parametrize("number", [0, 1, 2, 3, 5])
def test_an_error_of_a_window_is_raised_and_the_window_can_be_read_again(log, number):
    alone, places = log.window_reader(), [0]
    while places[-1] < log.max_physical_offset:
        places.append(alone.read(places[-1], log.max_physical_offset).batch.end_offset)
    failing = {places[number]}
    reader = PrefetchingReader(lambda: Failing(log.window_reader(), failing), WINDOW)
    try:
        for at, end in itertools.pairwise(places):
            if at == places[number]:
                with pytest.raises(OSError, match="no such sector"):
                    reader.read(at, log.max_physical_offset)
            assert reader.read(at, log.max_physical_offset).batch.end_offset == end
    finally:
        reader.close()


def test_an_error_of_a_window_that_nobody_wants_is_not_raised(log):
    alone, end = log.window_reader(), log.max_physical_offset
    first = alone.read(0, end).batch.end_offset
    second = alone.read(first, end).batch.end_offset
    reader = PrefetchingReader(lambda: Failing(log.window_reader(), {second}), WINDOW)
    try:
        reader.read(0, end)
        reader.read(first, end)  # the window after this one fails
        assert reader._ahead[0].done.wait(60)

        assert reader.read(0, end).batch.end_offset == first
    finally:
        reader.close()


def test_a_name_that_no_property_can_have_does_not_fail_other_windows(log):
    reader, at = log.read_ahead(), 0
    try:
        while at < log.max_physical_offset:
            batch = reader.read(at, log.max_physical_offset).batch
            with pytest.raises(UnicodeEncodeError):
                batch.text("\ud800")
            at = batch.end_offset
    finally:
        reader.close()


def test_without_a_thread_each_window_is_read_when_it_is_wanted(log, monkeypatch):
    def no_more(_):
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(batchreader, "start_thread", no_more)
        assert batches(log, ["flag"]) == [[]] * len(batches(log, []))
    assert ["flag"] in batches(log, ["flag"])


def test_the_thread_ends_with_the_reader(log):
    reader, before = log.read_ahead(), set(threading.enumerate())
    first = reader.read(0, log.max_physical_offset).batch
    reader.read(first.end_offset, log.max_physical_offset)

    reader.close()

    assert set(threading.enumerate()) <= before


class InterruptedAt:
    """Raises before one of the steps of this thread in the module, as a signal handler does."""

    def __init__(self, number):
        self.left = number

    def __call__(self, frame, event, argument):
        if frame.f_code.co_filename != batchreader.__file__:
            return None
        frame.f_trace_opcodes = True
        if event == "opcode":
            self.left -= 1
            if self.left == -1:
                raise KeyboardInterrupt
        return self


def read_to(log, end, trace):
    """Read up to ``end``; a read that is interrupted is made again. Each batch is checked twice."""
    at, interrupts = 0, 0
    whole, reader = log.read(0, end), log.read_ahead()
    try:
        while at < end:
            sys.settrace(trace)
            try:
                batch = reader.read(at, end).batch
            except KeyboardInterrupt:
                interrupts += 1
                continue
            finally:
                sys.settrace(None)
            expected = whole[at : at + len(batch.window)]
            assert batch.window.tobytes() == expected
            assert all(each.done.wait(60) for each in reader._ahead)
            assert batch.window.tobytes() == expected
            at = batch.end_offset
    finally:
        reader.close()
    return interrupts


@pytest.mark.proof
@pytest.mark.costly
def test_wherever_a_signal_handler_raises_no_buffer_is_used_twice_and_nothing_hangs(log):
    alone, end = log.window_reader(), 0
    for _ in range(5):
        end = alone.read(end, log.max_physical_offset).batch.end_offset
    threads, count = set(threading.enumerate()), 0
    while read_to(log, end, InterruptedAt(count)):
        count += 1

    assert count > 100
    for each in set(threading.enumerate()) - threads:
        each.join(60)  # one that was started just before the interrupt ends by itself
        assert not each.is_alive()
