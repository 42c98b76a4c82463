"""A reader beside a real broker that keeps queues and settings in RocksDB."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import realbroker
from realbroker import Peer, RocketMQ, Server

import reput

GROUP = "billing"
QUEUES = 3


@pytest.fixture(params=["5.3.3", "5.5.0"])
def release(request: pytest.FixtureRequest, fetch_release: Callable[[str], RocketMQ]) -> RocketMQ:
    return fetch_release(request.param)


@pytest.fixture
def names(release: RocketMQ, tmp_path: Path) -> Iterator[str]:
    with release.name_server(tmp_path / "names") as server:
        yield server.address


def extents_of_broker(peer: Peer) -> dict[int, tuple[int, int]]:
    """Min and max offset of each queue, as the broker answers."""
    lines = peer.admin("topicStatus", "-t", "orders").splitlines()[1:]
    rows = [line.split()[1:4] for line in lines if line.startswith("broker-a")]
    return {int(row[0]): (int(row[1]), int(row[2])) for row in rows}


def extents_of(store: reput.Store) -> dict[int, tuple[int, int]]:
    found = [each for each in store.queues() if each.topic == "orders"]
    return {each.queue_id: (each.min_queue_offset, each.max_queue_offset) for each in found}


def send(peer: Peer, start: int, count: int, bodies: dict[tuple[int, int], bytes]) -> None:
    """Send messages, and note where the broker put them."""
    messages = [
        {"topic": "orders", "body": f"{number}", "queue_id": number % QUEUES}
        for number in range(start, start + count)
    ]
    for message, sent in zip(messages, peer.send(messages), strict=True):
        place = sent["queue_id"], sent["queue_offset"]
        bodies[place] = str(message["body"]).encode()


def bodies_in(store: reput.Store) -> dict[tuple[int, int], bytes]:
    found = {}
    for queue_id, (at, _) in extents_of(store).items():
        while messages := (result := store.read("orders", queue_id, at)).messages:
            found |= {(queue_id, each.queue_offset): each.body for each in messages}
            at = result.next_queue_offset
    return found


@pytest.mark.parametrize("ends", ["stopped", "killed"])
def test_a_reader_beside_a_broker_sees_its_queues(ends, release, names, tmp_path):
    root, port = tmp_path / "store", realbroker.free_ports(1, -2)
    options = {"store": root, "port": port, "storeType": "defaultRocksDB"}

    def broker() -> Server:
        return release.broker(tmp_path / "broker", names, **options)

    first = broker()
    bodies: dict[tuple[int, int], bytes] = {}
    with release.peer(tmp_path / "peer", names) as peer:
        on = "-b", first.address
        peer.admin("updateTopic", *on, "-t", "orders", "-r", str(QUEUES), "-w", str(QUEUES))
        send(peer, 0, 90, bodies)
        with reput.open(root, "r") as reader:
            for start in (100, 200, 300):
                send(peer, start, 40, bodies)
                # A broker writes the properties of the newest record last.
                send(peer, start + 50, QUEUES, {})
                found = bodies_in(reader)
                assert found.items() >= bodies.items()
            known = extents_of_broker(peer)
            peer.listen("one", GROUP, "orders", start="first")
            assert len(peer.taken("one", 219)) == 219
            peer.stop("one")
            first.kill() if ends == "killed" else first.stop()
            assert extents_of(reader) == known
            with broker():
                assert extents_of_broker(peer) == known == extents_of(reader)
                send(peer, 400, 40, bodies)
                known = extents_of_broker(peer)
            assert extents_of(reader) == known
            assert bodies_in(reader).items() >= bodies.items()
