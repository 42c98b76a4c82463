"""Bytes of a connection that sends much are taken in slices, beside those of others."""

from __future__ import annotations

import asyncio

import pytest

from reput_server.grpc.transport.receivequeue import ReceiveQueue, Slices


class Flood:
    """A connection with so many slices left, which says when each is taken."""

    def __init__(self, name, count, said):
        self.name, self.count, self.said = name, count, said

    def receive_slice(self):
        self.said.append(self.name)
        self.count -= 1
        return self.count > 0


def test_the_first_slice_is_taken_at_once_and_the_others_in_turns_of_the_loop():
    async def trial():
        said = []
        queue = ReceiveQueue(asyncio.get_running_loop())

        assert not queue.add(Flood("one", 1, said))
        assert said == ["one"]
        assert queue.add(Flood("a", 3, said))
        assert queue.add(Flood("b", 2, said))  # waits, as another one does
        assert said == ["one", "a"]
        asyncio.get_running_loop().call_soon(said.append, "other work")
        for _ in range(10):
            await asyncio.sleep(0)

        assert said == ["one", "a", "a", "other work", "b", "a", "b"]
        assert not queue.add(Flood("two", 1, said))

    asyncio.run(trial())


def test_slices_follow_the_time_that_they_take():
    slices = Slices()
    slices.add(bytes(range(256)) * 1_024)
    first = slices.size

    found = slices.next()
    slices.took(1.0)
    assert len(found) == first
    assert slices.size == first // 2
    for _ in range(20):
        slices.took(1.0)
    assert slices.size == 256
    slices.took(0.002)
    assert slices.size == 256
    for _ in range(20):
        slices.took(0.0)
    assert slices.size == 256 << 10

    found += slices.next()
    assert found == bytes(range(256)) * 1_024
    assert len(slices) == 0


@pytest.mark.parametrize("ends", [False, True])
def test_what_was_not_taken_of_a_connection_that_ends_is_dropped(ends):
    slices = Slices(size=4)
    slices.add(b"abcdefgh")
    assert slices.next() == b"abcd"
    if ends:
        slices.clear()
    assert slices.next() == (b"" if ends else b"efgh")
