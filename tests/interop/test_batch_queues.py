"""Batch queues between reput, a real broker and the stock client, in turn on one directory."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
from realbroker import STORE_CONFIG, RocketMQ

import reput
from reput_client.remoting import BatchEntry, encode_batch
from reput_consumer import TopicSettings
from reput_server import LocalBroker
from reput_tools.doctor import verify

VERSIONS = ("5.3.3", "5.5.0")
SETTINGS = TopicSettings(
    topic="b", read_queue_nums=2, write_queue_nums=2, attributes={"queue.type": "BatchCQ"}
)
Row = dict[str, object]


@pytest.fixture(scope="module", params=VERSIONS)
def release(request: pytest.FixtureRequest, fetch_release: Callable[[str], RocketMQ]) -> RocketMQ:
    """The releases that have batch queues."""
    return fetch_release(request.param)


def opened(root: Path) -> reput.Store:
    plugins = ["consumequeue", "consumer"]
    return reput.open(root, plugins=plugins, config=STORE_CONFIG, sizes="rocketmq")


def batch(queue_id: int, bodies: Iterable[str]) -> reput.Message:
    entries = [BatchEntry(each.encode(), b"TAGS\x01t\x02", 0) for each in bodies]
    properties = {"UNIQ_KEY": f"r{queue_id}", "INNER_NUM": str(len(entries))}
    return reput.Message("b", encode_batch(entries), queue_id, sys_flag=0xC0, properties=properties)


def shown(root: Path) -> dict[tuple[int, int], str]:
    """What reput shows: body by queue id and queue offset."""
    with reput.open(root, "r", plugins=["consumequeue"], config=STORE_CONFIG) as store:
        assert store.problems == ()
        return {
            (each.queue_id, each.queue_offset): each.body.decode() for each in store.messages("b")
        }


def taken_by(rows: Iterable[Row]) -> dict[tuple[object, object], object]:
    return {(row["queue_id"], row["queue_offset"]): row["body"] for row in rows}


@pytest.mark.parametrize("ending", ["stop", "kill"])
def test_a_broker_and_reput_take_turns_with_batch_queues(
    release: RocketMQ, tmp_path: Path, ending: str
):
    root = tmp_path / "store"
    with opened(root) as store:
        store.plugin("consumer").topics.put(SETTINGS)
        for turn in range(6):
            store.put(reput.Message("b", f"s{turn}".encode(), turn % 2))
            store.put(batch(turn % 2, [f"b{turn}{at}" for at in range(turn + 1)]))
    first = shown(root)

    with (
        release.name_server(tmp_path / "names") as names,
        release.peer(tmp_path / "peer", names.address) as peer,
    ):
        with release.broker(tmp_path / "broker", names.address, store=root) as broker:
            peer.listen("one", "before", "b", start="first")
            by_broker = taken_by(peer.taken("one", len(first)))
            asked = [{"topic": "b", "queue_id": at % 2, "body": f"j{at}"} for at in range(4)]
            asked += [
                {"topic": "b", "queue_id": at % 2, "bodies": [f"k{at}", f"l{at}", f"m{at}"]}
                for at in range(4)
            ]
            peer.send(asked)
            second = taken_by(peer.taken("one", len(first) + 16))
            peer.stop("one")
            getattr(broker, ending)()

        with opened(root) as store:
            store.wait_dispatched()
            units = {
                path.relative_to(root): path.read_bytes().rstrip(b"\0")
                for path in root.glob("batchconsumequeue/b/*/*")
            }
            receipts = [store.put(batch(at % 2, [f"x{at}", f"y{at}"])) for at in range(4)]
        third = shown(root)
        findings = [each for each in verify(root).findings if each.part != "index"]

        with release.broker(tmp_path / "again", names.address, store=root):
            peer.listen("two", "after", "b", start="first")
            at_last = taken_by(peer.taken("two", len(third)))
            peer.stop("two")

    assert len(first) == 27
    assert by_broker == first
    assert len(second) == len(first) + 16
    assert second.items() >= first.items()
    assert third.items() >= second.items()
    assert [each.queue_offset for each in receipts[:2]] == [
        sum(queue_id == which for queue_id, _ in second) for which in (0, 1)
    ]
    assert len(units) == 2
    assert findings == []
    assert at_last == third


def test_the_stock_client_sends_batches_to_reput_and_gets_them(release: RocketMQ, tmp_path: Path):
    with LocalBroker() as served:
        plugin = served.store.plugin("consumer")
        plugin.topics.put(SETTINGS)
        place = {"topic": "b", "broker": plugin.config.broker_name}
        with release.peer(tmp_path / "peer", served.name_server) as peer:
            asked = [
                {**place, "queue_id": at % 2, "bodies": [f"k{at}", f"l{at}"]} for at in range(4)
            ]
            sent = peer.send([*asked, {"topic": "b", "body": "one"}])
            peer.listen("one", "readers", "b", start="first")
            taken = taken_by(peer.taken("one", 9))
            peer.stop("one")
        records = [row for each in served.store.scan() for row in each.sys_flag & 0x80]
        stored = {(each.queue_id, each.queue_offset): each for each in served.store.messages("b")}

    assert [row["queue_offset"] for row in sent[:4]] == [0, 0, 2, 2]
    assert sum(map(bool, records)) == 4
    assert taken == {place: each.body.decode() for place, each in stored.items()}
    assert sorted(map(str, taken.values())) == sorted(
        ["one", *(f"{name}{at}" for name in "kl" for at in range(4))]
    )
