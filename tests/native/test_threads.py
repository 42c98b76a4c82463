"""What plugins share between threads answers on each of them, whatever the collector runs."""

from __future__ import annotations

import gc
import threading

import numpy as np
import pytest

from reput.record.text.properties import property_places
from reput.record.text.topicdictionary import topic_table

pytestmark = pytest.mark.shows("compiled")

SECONDS = 60


def column(texts):
    """A window of these texts, where each begins, and its size."""
    sizes = np.array([len(text) for text in texts])
    return np.frombuffer(b"".join(texts), np.uint8), np.cumsum(sizes) - sizes, sizes


def all_at_once(*works):
    """Have each done on a thread of its own; what they raised."""
    errors, barrier = [], threading.Barrier(len(works))

    def run(work):
        try:
            barrier.wait(SECONDS)
            work()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(work,), daemon=True) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(SECONDS)
    assert not any(thread.is_alive() for thread in threads)
    return errors


@pytest.fixture
def every_allocation():
    """The collector runs whenever it may."""
    before = gc.get_threshold()
    gc.set_threshold(1)
    yield
    gc.set_threshold(*before)


def test_threads_that_share_a_topic_table_get_the_codes_of_its_names():
    table = topic_table()

    def encode(thread):
        for turn in range(30):
            # Some that all have, some of this thread's; so many that the lock is given up.
            texts = [b"T%d" % (number % 700) for number in range(3_000)]
            texts += [b"T%d-%d" % (thread, number % (turn + 1)) for number in range(500)]
            codes = table.encode(*column(texts))
            names = table.names
            assert [names[code].encode() for code in codes.tolist()] == texts

    errors = all_at_once(*[lambda thread=thread: encode(thread) for thread in range(4)])

    assert errors == []
    assert len(set(table.names)) == len(table.names)


def test_threads_that_share_property_places_find_the_same_places():
    texts = [b"TAGS\1a%d\2KEYS\1k\2own\1x%d" % (number, number) for number in range(3_000)]
    window, starts, sizes = column(texts)
    expected = {
        name: [part.tolist() for part in property_places(window, starts, sizes).find(name)]
        for name in (b"TAGS", b"KEYS", b"UNIQ_KEY", b"own")
    }
    places = property_places(window, starts, sizes)

    def find(name):
        for _ in range(40):
            assert [part.tolist() for part in places.find(name)] == expected[name]

    errors = all_at_once(*[lambda name=name: find(name) for name in [*expected, *expected]])

    assert errors == []


@pytest.mark.usefixtures("every_allocation")
@pytest.mark.costly
def test_a_finalizer_may_use_the_table_that_makes_a_name():
    table, errors = topic_table(), []

    class Finalized:
        def __init__(self):
            self.itself = self

        def __del__(self):
            try:
                texts = [b"F%d" % number for number in range(len(table.names) % 50)]
                codes = table.encode(*column(texts or [b"F"]))
                assert [table.names[code].encode() for code in codes] == (texts or [b"F"])
            except BaseException as error:
                errors.append(error)

    for turn in range(40):
        for _ in range(5):
            Finalized()
        texts = [b"T%d-%d" % (turn, number) for number in range(600)]
        codes = table.encode(*column(texts))
        assert [table.names[code].encode() for code in codes.tolist()] == texts
    gc.collect()

    assert errors == []
