"""RocketMQ's admin tool, command by command, against a store in which something has happened."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from stock import CLIENTS, Program, started

from reput.record import Message
from reput_server import LocalBroker

JAVA = [kind for kind in CLIENTS if kind.name.startswith("java")]
COMMANDS = [
    # What is asked, and what is in the answer.
    ("clusterList", r"DefaultCluster\s+broker-a\s+0\s+{address}"),
    ("brokerStatus -b {address}", r"brokerVersionDesc"),
    ("brokerStatus -c DefaultCluster", r"putTps"),
    ("topicList", r"(?m)^orders$"),
    ("topicRoute -t orders", r"{address}"),
    ("topicStatus -t orders", r"broker-a\s+{queue_id}\s+0\s+1\s"),
    ("topicClusterList -t orders", r"DefaultCluster"),
    ("updateTopic -b {address} -t made -r 3 -w 3", r"create topic to"),
    ("updateSubGroup -b {address} -g fresh -r 5", r"create subscription group to"),
    ("deleteTopic -c DefaultCluster -t other", r"delete topic \[other\] from cluster"),
    ("deleteSubGroup -b {address} -g other", r"delete subscription group \[other\] from broker"),
    ("cleanUnusedTopic -b {address}", r"success"),
    ("cleanExpiredCQ -b {address}", r"success"),
    ("queryMsgById -i {offset_msg_id} {of_topic}", r"Topic:\s+orders"),
    ("queryMsgByKey -t orders -k k1", r"{msg_id}"),
    ("queryMsgByUniqueKey -t orders -i {msg_id}", r"{msg_id}"),
    ("queryMsgByOffset -t orders -b broker-a -i {queue_id} -o 0", r"{msg_id}"),
    ("printMsg -t orders", r"body-1"),
    ("consumerProgress -g billing", r"orders\s+broker-a\s+{queue_id}\s+1\s+1\s"),
    ("consumerProgress", r"billing"),
    ("consumerConnection -g audit", r"orders"),
    ("producerConnection -g shop -t orders", r"JAVA"),
    ("resetOffsetByTime -g audit -t orders -s -1", r"orders"),
    ("statsAll -t orders", r"orders"),
    ("getBrokerConfig -b {address}", r"brokerName\s+=\s+broker-a"),
]


@pytest.fixture(scope="module", params=JAVA, ids=lambda kind: kind.name)
def tool(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Program, dict[str, Any]]]:
    """The tool, beside a group that has taken one message, and one that is connected."""
    home: Path = tmp_path_factory.mktemp("program")
    with LocalBroker() as broker, started(request.param, home, broker) as client:
        client.producer()
        broker.put(Message("other", b"0"))
        message = {"topic": "orders", "body": "body-1", "keys": "k1", "tags": "a"}
        (sent,) = client.send([message])
        client.listen("one", "billing", "orders", instance="one")
        client.listen("two", "audit", "orders", instance="two")
        client.taken("one", 1)
        client.taken("two", 1)
        client.stop("one")
        broker.wait_for("billing")
        client.admin("updateSubGroup", "-b", broker.address, "-g", "other")
        of_topic = "" if request.param.name == "java-4.9.8" else "-t orders"  # asked for since 5.0
        yield client, {**sent, "address": broker.address, "of_topic": of_topic}


@pytest.mark.parametrize(("command", "said"), COMMANDS, ids=[line for line, _ in COMMANDS])
def test_a_command_of_the_admin_tool_says_what_there_is(
    tool: tuple[Program, dict[str, Any]], command: str, said: str
):
    client, words = tool

    found = client.admin(*command.format(**words).split())

    expected = re.sub(r"\{(\w+)\}", lambda match: re.escape(str(words[match[1]])), said)
    assert re.search(expected, found), found
