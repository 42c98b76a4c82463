"""A member of a port that answers later asks for messages while it handles others."""

from __future__ import annotations

import threading

import pytest

import reput
from reput_consumer import ConsumerFactory, LocalMembers


class LatePort:
    """The store's port, whose answers come from another thread, when the test wants them."""

    answers_later = True

    def __init__(self, port):
        self._port = port
        self.offsets = []
        """Where each fetch begins, but for those of the retry topic."""
        self.waiting = []
        """Fetches that have no answer yet."""
        self.is_prompt = True
        self.error = None

    def __getattr__(self, name):
        return getattr(self._port, name)

    def fetch(self, request, answer):
        if self.error is not None:
            raise self.error
        if request.queue.topic != "orders":
            return  # it waits for ever, as nothing is there
        self.offsets.append(request.queue_offset)
        if self.is_prompt:
            self._elsewhere(request, answer)
        else:
            self.waiting.append((request, answer))

    def answer(self):
        """Answer what waits."""
        waiting, self.waiting = self.waiting, []
        for each in waiting:
            self._elsewhere(*each)

    def _elsewhere(self, request, answer):
        thread = threading.Thread(target=self._port.fetch, args=(request, answer))
        thread.start()
        thread.join()


class Opener(ConsumerFactory):
    """Opens consumers at a port."""

    def __init__(self, members):
        self.members = members

    @property
    def _opener(self):
        return self.members


@pytest.fixture
def late(at):
    """A port, and what opens consumers at it."""
    port = LatePort(at.plugin.port)
    members = LocalMembers(port, lambda: None, lambda broadcast: "a", lambda settings: None)
    yield port, Opener(members)
    members.close()


def test_the_next_fetch_is_under_way_while_messages_are_handled(at, late):
    port, opener = late
    at.put(*map(str, range(8)))

    with opener.consumer("g", "orders", start="earliest", fetch_count=2) as consumer:
        assert consumer.next(0).body == b"0"
        assert port.offsets == [0, 2]  # asked for before the first message is handled
        assert consumer.next(0).body == b"1"
        assert port.offsets == [0, 2]

        port.is_prompt = False
        assert consumer.next(0).body == b"2"  # it has come meanwhile: nothing is waited for
        assert port.offsets == [0, 2, 4]
        assert consumer.next(0).body == b"3"
        assert consumer.next(0) is None  # the answer is not there yet, and nobody asks twice
        assert port.offsets == [0, 2, 4]
        port.answer()
        assert consumer.next(0).body == b"4"
        assert port.offsets == [0, 2, 4, 6]


def test_what_is_fetched_ahead_is_bounded(at, late):
    port, opener = late
    at.put(*map(str, range(40)))

    with opener.consumer("g", "orders", start="earliest", fetch_count=2, explicit=True) as consumer:
        handled = [consumer.next(0) for _ in range(20)]
        assert len(port.offsets) == len(handled) // 2 + 1  # no more than one fetch of a queue


def test_a_fetch_ahead_that_fails_takes_no_message_away(at, late):
    port, opener = late
    at.put(*map(str, range(4)))

    with opener.consumer("g", "orders", start="earliest", fetch_count=2) as consumer:
        assert consumer.next(0).body == b"0"
        port.error = reput.ReputError("the client is closing")
        assert [consumer.next(0).body for _ in range(3)] == [b"1", b"2", b"3"]
        with pytest.raises(reput.ReputError, match="closing"):
            consumer.next(0)
        port.error = None
        at.put("4")
        assert consumer.next(0).body == b"4"


def test_the_store_is_asked_when_nothing_is_at_hand(at, monkeypatch):
    """Its answers come at once: the messages at hand would wait for those after them."""
    at.put(*map(str, range(8)))
    port, offsets = type(at.plugin.port), []
    fetch = port.fetch

    def count(self, request, answer):
        if request.queue.topic == "orders":
            offsets.append(request.queue_offset)
        fetch(self, request, answer)

    monkeypatch.setattr(port, "fetch", count)
    with at.consumer(fetch_count=2) as consumer:
        assert consumer.next(0).body == b"0"
        assert offsets == [0]
