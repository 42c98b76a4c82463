"""The script's part about topics and groups: what operators make, change and look at."""

from __future__ import annotations

import json

from sameanswers.run import Run

TOPICS = {
    "orders": (4, 4, 6),
    "narrow": (1, 1, 6),
    "readonly": (2, 2, 4),
    "writeonly": (2, 2, 2),
    "wide": (2, 6, 6),
    "timed": (1, 1, 6),
    "halves": (1, 1, 6),
    "batches": (2, 2, 6),
    "late": (1, 1, 6),
}
"""Queues to read, queues to write, permissions."""
GROUPS = {
    "billing": {},
    "disabled": {"consumeEnable": False},
    "noretry": {"retryQueueNums": 0},
    "once": {"retryMaxTimes": 1},
    "silent": {"consumeBroadcastEnable": False, "notifyConsumerIdsChangedEnable": False},
}


def topic(name: str, read: object = 4, write: object = 4, perm: object = 6, **more: object) -> dict:
    """The fields of a request that makes a topic."""
    return {
        "topic": name,
        "defaultTopic": "TBW102",
        "readQueueNums": read,
        "writeQueueNums": write,
        "perm": perm,
        "topicFilterType": "SINGLE_TAG",
        "topicSysFlag": 0,
        "order": False,
        **more,
    }


def group(name: str, **more: object) -> bytes:
    """The body of a request that makes a group, as a client of 5.x writes it."""
    members = {
        "attributes": {},
        "brokerId": 0,
        "consumeBroadcastEnable": True,
        "consumeEnable": True,
        "consumeFromMinEnable": True,
        "consumeMessageOrderly": False,
        "consumeTimeoutMinute": 15,
        "groupName": name,
        "groupSysFlag": 0,
        "notifyConsumerIdsChangedEnable": True,
        "retryMaxTimes": 16,
        "retryQueueNums": 1,
        "whichBrokerWhenConsumeSlowly": 1,
        **more,
    }
    return json.dumps(members).encode()


def make_topics(run: Run) -> None:
    """Topics that the rest of the script uses, and those that nobody may make."""
    for name, settings in TOPICS.items():
        run.ask(f"topic {name}", 17, topic(name, *settings))
    run.ask("topic again", 17, topic("orders"))
    run.ask("topic in order", 17, topic("ordered", order=True))
    run.ask("topic with attributes", 17, topic("typed", attributes="+message.type=NORMAL"))
    run.ask("topic with an attribute changed", 17, topic("typed", attributes="+message.type=FIFO"))
    run.ask("topic with an unknown attribute", 17, topic("odd", attributes="+color=red"))
    run.ask("topic with a wrong value", 17, topic("odd", attributes="+message.type=RED"))
    run.ask("topic with a bad attribute", 17, topic("odd", attributes="color"))
    run.ask("topic without an attribute", 17, topic("typed", attributes="-message.type"))
    run.ask("topic of the system", 17, topic("TBW102"))
    run.ask("topic of delays", 17, topic("SCHEDULE_TOPIC_XXXX"))
    run.ask("topic named as the cluster", 17, topic("reput"))
    run.ask("topic named as the broker", 17, topic("broker-a"))
    run.ask("topic badly named", 17, topic("a/b"))
    run.ask("topic without a name", 17, topic(""))
    run.ask("topic too long", 17, topic("t" * 128))
    run.ask("topic just short enough", 17, topic("t" * 127))
    run.ask("topic of a group", 17, topic("%RETRY%made", 1, 1))
    run.ask("topic without queues", 17, topic("none", 0, 0))
    run.ask("topic with queues that are no number", 17, topic("odd", "many"))
    run.ask("topic without permissions", 17, topic("closed", perm=0))
    run.ask("topic with odd permissions", 17, topic("odd", perm=99))
    run.ask("topic with a unit", 17, topic("units", topicSysFlag=1))
    for name in ("orders", "typed", "nowhere", "TBW102", "a/b"):
        run.ask(f"one topic {name}", 351, {"topic": name})
    run.ask("all topics", 21)
    run.ask("system topics", 305)


def make_groups(run: Run) -> None:
    """Groups that the rest of the script uses."""
    for name, more in GROUPS.items():
        run.ask(f"group {name}", 200, None, group(name, **more))
    run.ask("group badly named", 200, None, group("a/b"))
    run.ask("group without a name", 200, None, group(""))
    run.ask("group too long", 200, None, group("g" * 256))
    run.ask("group with a few members", 200, None, b'{"groupName":"few"}')
    run.ask("group without a body", 200)
    run.ask("group that is no JSON", 200, None, b"{")
    run.ask("all groups", 201)
    run.ask("one group", 352, {"group": "disabled"})
    run.ask("one group of the system", 352, {"group": "TOOLS_CONSUMER"})
    run.ask("one group that is not there", 352, {"group": "nobody"})
    run.ask("one group after asking", 352, {"group": "nobody"})


def look(run: Run) -> None:
    """What the queues hold, who reads them, how far groups are."""
    for name in ("orders", "wide", "nowhere", "batches"):
        run.ask(f"stats of {name}", 202, {"topic": name})
    for name in ("orders", "nowhere"):
        run.ask(f"readers of {name}", 300, {"topic": name})
    for name in ("billing", "nobody", "once", "fresh"):
        run.ask(f"progress of {name}", 208, {"consumerGroup": name})
    run.ask("progress in one topic", 208, {"consumerGroup": "billing", "topic": "orders"})
    run.ask("progress in no topic", 208, {"consumerGroup": "billing", "topic": "nowhere"})
    for name in ("billing", "nobody"):
        run.ask(f"consumers of {name}", 203, {"consumerGroup": name})
    run.ask("producers of nobody", 204, {"producerGroup": "nobody"})
    run.ask("all topics in the end", 21)
    run.ask("all groups in the end", 201)
    run.ask("all offsets in the end", 43)
    run.ask("all delay offsets in the end", 45)
    run.ask("runtime", 28)
