"""A broker takes over a small store of reput after `reput fill`, and reput takes it back."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner
from realbroker import RocketMQ

import reput
from reput_tools.cli.root import reput as program

COUNT = 240
# The last of several files of each kind is not full.
SEVERAL_FILES = {
    "commitlog": {"file_size": 64 << 10, "grows": True},
    "consumequeue": {"units_per_file": 16},
    "index": {"slots_per_file": 16, "items_per_file": 101},
}
# What a broker uses without the printed lines; the tests' brokers have smaller files.
DEFAULTS = {
    "mappedFileSizeCommitLog": 1 << 30,
    "mappedFileSizeConsumeQueue": 6_000_000,
    "maxHashSlotNum": 5_000_000,
    "maxIndexNum": 20_000_000,
}


def run(*arguments: str) -> str:
    done = CliRunner().invoke(program, list(arguments))
    assert done.exit_code == 0, done.output
    return done.output


def bodies(store: reput.Store) -> list[str]:
    found = []
    for queue_id in range(4):
        start = 0
        while (result := store.read("orders", queue_id, start, max_count=100)).messages:
            found += [bytes(message.body).decode()[:6] for message in result.messages]
            start = result.next_queue_offset
    return sorted(found)


@pytest.mark.parametrize("config", [{}, SEVERAL_FILES], ids=["default", "several-files"])
def test_a_broker_takes_a_filled_store_over_and_gives_it_back(
    rocketmq: RocketMQ, tmp_path: Path, config: dict[str, dict[str, object]]
):
    root = tmp_path / "store"
    with reput.open(root, config=config) as store:
        for number in range(COUNT):
            body = b"%06d" % number + b"x" * 1_000
            store.put(reput.Message("orders", body, queue_id=number % 4, keys=f"k{number}"))
    done, topics, *printed = run("fill", str(root)).splitlines()
    options = {**DEFAULTS, **dict(line.split("=") for line in printed)}

    with (
        rocketmq.name_server(tmp_path / "names") as names,
        rocketmq.broker(tmp_path / "broker", names.address, store=root, **options),
        rocketmq.peer(tmp_path / "peer", names.address) as peer,
    ):
        found = peer.admin("queryMsgByKey", "-t", "orders", "-k", "k7")
        peer.listen("one", "billing", "orders", start="first")
        before = [row["body"][:6] for row in peer.taken("one", COUNT)]
        sent = peer.send(
            [
                {
                    "topic": "orders",
                    "body": f"{COUNT + at:06}",
                    "queue_id": at % 4,
                    "keys": f"n{at}",
                }
                for at in range(60)
            ]
        )
        after = [row["body"][:6] for row in peer.taken("one", COUNT + 60)]
        peer.stop("one")

    assert (done, topics) == (
        "all files have their full size now",
        "added to config/topics.json: orders",
    )
    assert len(found.split("#Offset")[1].split()) == 3  # its id, queue and offset
    assert sorted(before) == [f"{at:06}" for at in range(COUNT)]
    assert sorted(after) == [f"{at:06}" for at in range(COUNT + 60)]
    assert sent[-1]["queue_offset"] == COUNT // 4 + 14
    run("verify", str(root))
    with reput.open(root) as store:
        assert bodies(store) == sorted(after)
        (hit,) = store.query("orders", "n59").messages
        assert bytes(hit.body) == b"000299"
        store.put(reput.Message("orders", b"000300", queue_id=0, keys="last"))
        store.wait_dispatched()
        assert len(bodies(store)) == COUNT + 61
    run("verify", str(root))
