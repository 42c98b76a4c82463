"""The released admin tool prints the same of a broker of RocketMQ 5.3.3 and of ours.

Both hold the same store: ours wrote it, and the other one has a copy.
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import realbroker
from realbroker import RocketMQ
from sameanswers.administering import topic
from sameanswers.run import Run
from sameanswers.sending import short

import reput
from reput_server import ServerConfig, serving

COUNT = 6
HOST = "127.0.0.1"
PLUGINS = frozenset({"consumequeue", "consumer", "filter", "index", "schedule", "transaction"})
KEY = "7F000001000018B4AAC2{:012d}"
JAVA = {"enablePropertyFilter": "true", "maxHashSlotNum": 5_000_000, "maxIndexNum": 20_000_000}
ABSENT = ("rmq_sys_REVIVE_LOG_", "rmq_sys_SYNC_BROKER_MEMBER_")
"""Topics that ours does not have: see `sameanswers.allowed.ABSENT`."""


def commands(broker: str, message_id: str) -> list[list[str]]:
    """What is asked, in an order in which nothing changes before it is looked at."""
    return [
        ["topicStatus", "-t", "orders"],
        ["topicRoute", "-t", "orders"],
        ["topicList"],
        ["consumerProgress", "-g", "billing"],
        ["consumerProgress"],
        ["clusterList"],
        ["queryMsgById", "-t", "orders", "-i", message_id],
        ["queryMsgByKey", "-t", "orders", "-k", "k3"],
        ["queryMsgByUniqueKey", "-t", "orders", "-i", KEY.format(4)],
        ["printMsg", "-t", "orders"],
        ["updateTopic", "-b", broker, "-t", "fresh", "-r", "3", "-w", "3"],
        ["topicRoute", "-t", "fresh"],
        ["updateSubGroup", "-b", broker, "-g", "newgroup", "-r", "5"],
        ["resetOffsetByTime", "-g", "billing", "-t", "orders", "-s", "0"],
        ["deleteTopic", "-t", "fresh", "-c", "reput"],
        ["cleanUnusedTopic", "-b", broker],
    ]


def shown(text: str) -> list[str]:
    """The lines of an output without times, rates, and topics that only one has; sorted.

    Java prints the names of a hash table in its order.
    """
    text = re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(,\d+)?", "TIME", text)
    text = re.sub(r"\b\d+\.\d+\b(?!\.)", "NUMBER", text)
    lines = (line.rstrip() for line in text.splitlines())
    return sorted(line for line in lines if line and not line.startswith(ABSENT))


def test_the_tool_prints_the_same(newest: RocketMQ, tmp_path: Path):
    names_port, port = realbroker.free_ports(), realbroker.free_ports(1, -2)
    log = {"file_size": 1 << 20, "store_address": f"{HOST}:{port}"}
    options = {"plugins": PLUGINS, "config": {**realbroker.STORE_CONFIG, "commitlog": log}}
    config = ServerConfig(listen=(HOST, port), name_server=(HOST, names_port), cluster="reput")
    names = f"{HOST}:{names_port}"

    def told(home: Path, message_id: str) -> dict[str, list[str]]:
        found = {}
        with newest.peer(home, names) as peer:
            for command in commands(f"{HOST}:{port}", message_id):
                found[" ".join(command)] = shown(peer.admin(*command))
        return found

    with (
        reput.open(tmp_path / "store", **options) as store,
        serving(store, config),
        Run((HOST, port), (HOST, names_port)) as run,
    ):
        run.ask("topic", 17, topic("orders", 2, 2))
        run.ask("group", 352, {"group": "billing"})
        run.ask("retry topic", 17, topic("%RETRY%billing", 1, 1))
        for at in range(COUNT):
            properties = {"KEYS": f"k{at}", "TAGS": "red", "UNIQ_KEY": KEY.format(at)}
            sent = run.ask(f"send {at}", 310, short("orders", at % 2, properties), b"body %d" % at)
        for queue_id in (0, 1):
            run.settle("orders", queue_id, COUNT // 2)
            offset = {"consumerGroup": "billing", "topic": "orders", "queueId": queue_id}
            run.ask(f"commit {queue_id}", 15, {**offset, "commitOffset": 2})
    message_id = sent.fields["msgId"]
    shutil.copytree(tmp_path / "store", tmp_path / "copy")
    with (
        newest.name_server(tmp_path / "names", names_port),
        newest.broker(tmp_path / "broker", names, store=tmp_path / "copy", port=port, **JAVA),
    ):
        theirs = told(tmp_path / "theirs", message_id)
    with reput.open(tmp_path / "store", **options) as store, serving(store, config):
        ours = told(tmp_path / "ours", message_id)

    for name, lines in theirs.items():
        assert ours[name] == lines, name
