"""Readers beside a real broker under load: RocketMQ writes the size of a record first."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from realbroker import Peer, RocketMQ, Server

import reput

pytestmark = pytest.mark.shows("incomplete-record", more="REPUT_BESIDE_MESSAGES=1000000")

COUNT = int(os.environ.get("REPUT_BESIDE_MESSAGES", "40000"))
"""Messages in the test that polls the log; a million take a quarter of an hour or more."""
FEWER = min(COUNT, 10_000)
SIZES = {"mappedFileSizeCommitLog": 16 << 20, "mappedFileSizeConsumeQueue": 50_000 * 20}
PATIENCE = 3_600


class Loading:
    """Producers at work, in a thread that notes when all messages are in."""

    def __init__(self, peer: Peer, count: int) -> None:
        self.sent = 0
        self.is_done = threading.Event()
        self._peer = peer
        peer.load("beside", count)
        self._waiting = threading.Thread(target=self._wait)
        self._waiting.start()

    def _wait(self) -> None:
        try:
            self.sent = self._peer.loaded(PATIENCE)
        finally:
            self.is_done.set()

    def join(self) -> None:
        self._waiting.join()


@pytest.fixture
def broker(rocketmq: RocketMQ, tmp_path: Path) -> Iterator[tuple[Server, Peer]]:
    with (
        rocketmq.name_server(tmp_path / "names") as names,
        rocketmq.broker(tmp_path / "broker", names.address, **SIZES) as broker,
        rocketmq.peer(tmp_path / "peer", names.address) as peer,
    ):
        peer.send([{"topic": "beside", "body": "0 0"}])  # the topic and its queues exist
        yield broker, peer


def is_cut(body: bytes, properties: Any) -> bool:
    """Whether a message lacks something of what its producer sent."""
    number, size = body.split()
    if size == b"0":
        return False
    return len(properties.get("big", "")) != int(size) or properties.get("last") != number.decode()


def test_a_reader_that_polls_the_log_beside_a_broker_gets_whole_messages(
    broker: tuple[Server, Peer],
) -> None:
    server, peer = broker
    seen, cut, polls = 0, [], 0
    with reput.open(server.store, "r", plugins=()) as store:
        at = store.log.min_physical_offset
        loading = Loading(peer, COUNT)
        try:
            while seen <= COUNT and not (loading.is_done.is_set() and loading.sent < COUNT):
                polls += 1
                for batch in store.log.scan(at):
                    assert batch.finding is None
                    for row in range(len(batch)):
                        message = batch.message(row)
                        if message.topic == "beside":
                            seen += 1
                            if is_cut(message.body, message.properties):
                                cut.append(message.physical_offset)
                    at = batch.end_offset
        finally:
            loading.join()
        losses = store.losses()
    figures = f"{seen} messages in {polls} polls, {len(cut)} cut"
    logging.getLogger(__name__).info(figures)

    assert (loading.sent, len(cut), len(losses)) == (COUNT, 0, 0), figures


def test_a_reader_of_queues_beside_a_broker_gets_whole_messages_and_notes_no_loss(
    broker: tuple[Server, Peer],
) -> None:
    server, peer = broker
    cut, numbers, losses = [], [], []
    with reput.open(server.store, "r", plugins={"consumequeue"}) as store:
        places: dict[int, int] = {}
        loading = Loading(peer, FEWER)
        try:
            while len(numbers) <= FEWER and not (loading.is_done.is_set() and not loading.sent):
                for each in store.queues():
                    if each.topic == "beside":
                        places.setdefault(each.queue_id, 0)
                for queue_id, place in places.items():
                    found = store.read("beside", queue_id, place, 64)
                    assert not found.holes
                    assert found.next_queue_offset >= place
                    places[queue_id] = found.next_queue_offset
                    for message in found:
                        numbers.append(int(message.body.split()[0]))
                        if is_cut(message.body, message.properties):
                            cut.append(message.physical_offset)
                with reput.open(server.store, "r", plugins={"consumequeue"}) as other:
                    losses += other.losses()
        finally:
            loading.join()
        losses += store.losses()

    assert (loading.sent, cut, losses) == (FEWER, [], [])
    assert sorted(numbers) == sorted([0, *range(FEWER)])
