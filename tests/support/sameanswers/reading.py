"""The script's part about reads: pulls, queries, views, offsets."""

from __future__ import annotations

from sameanswers.run import Run
from sameanswers.sending import short

from reput_client.remoting import Command

SUSPEND, SUBSCRIPTION = 2, 4


def pull(topic: str, queue_id: object = 0, offset: object = 0, **more: object) -> dict:
    """The fields of a pull that says itself what it wants, and does not wait."""
    return {
        "consumerGroup": "billing",
        "topic": topic,
        "queueId": queue_id,
        "queueOffset": offset,
        "maxMsgNums": 32,
        "sysFlag": SUBSCRIPTION,
        "commitOffset": 0,
        "suspendTimeoutMillis": 1_000,
        "subscription": "*",
        "subVersion": 1,
        "expressionType": "TAG",
        **more,
    }


def pull_by_sql(expression: str) -> dict:
    """The fields of a pull of what a condition selects."""
    return pull("orders", 0, 0, subscription=expression, expressionType="SQL92")


def pull_all(run: Run) -> None:
    """Pulls of each kind."""
    run.settle("orders", 0, 3)
    run.settle("orders", 2, 1)
    run.settle("narrow", 0, 9)
    run.ask("pull", 11, pull("orders"))
    run.ask("pull from within", 11, pull("orders", 0, 1))
    run.ask("pull at the end", 11, pull("orders", 0, 3))
    run.ask("pull behind the end", 11, pull("orders", 0, 4))
    run.ask("pull far behind the end", 11, pull("orders", 0, 1_000))
    run.ask("pull before the start", 11, pull("orders", 0, -1))
    run.ask("pull of an empty queue", 11, pull("wide", 0, 0))
    run.ask("pull of an empty queue, later", 11, pull("wide", 0, 5))
    run.ask("pull one", 11, pull("orders", 0, 0, maxMsgNums=1))
    run.ask("pull none", 11, pull("orders", 0, 0, maxMsgNums=0))
    run.ask("pull fewer than none", 11, pull("orders", 0, 0, maxMsgNums=-1))
    run.ask("pull many", 11, pull("batches", 1, 0, maxMsgNums=100))
    run.ask("pull too many", 11, pull("batches", 1, 0, maxMsgNums=1 << 30))
    run.ask("pull few bytes", 11, pull("batches", 1, 0, maxMsgBytes=600))
    run.ask("pull tagged", 11, pull("orders", 0, 0, subscription="red"))
    run.ask("pull tagged otherwise", 11, pull("orders", 0, 0, subscription="red || blue"))
    run.ask("pull what nobody has", 11, pull("orders", 0, 0, subscription="green"))
    run.ask("pull by SQL", 11, pull_by_sql("TAGS = 'red'"))
    run.ask("pull by SQL what nobody has", 11, pull_by_sql("TAGS = 'green'"))
    run.ask("pull by bad SQL", 11, pull_by_sql("TAGS = "))
    run.ask("pull by nothing", 11, pull("orders", 0, 0, subscription=""))
    run.ask("pull without an expression", 11, pull("orders", 0, 0, subscription=None))
    run.ask("pull without a kind", 11, pull("orders", 0, 0, expressionType=None))
    run.ask("pull by an odd kind", 11, pull("orders", 0, 0, expressionType="ODD"))
    run.ask("pull by bars", 11, pull("orders", 0, 0, subscription="||"))
    run.ask("pull as a group says", 11, pull("orders", 0, 0, sysFlag=0))
    run.ask("pull of no topic", 11, pull("nowhere"))
    run.ask("pull of a queue not there", 11, pull("orders", 4))
    run.ask("pull of a queue only written", 11, pull("wide", 5))
    run.ask("pull of a queue below", 11, pull("orders", -1))
    run.ask("pull not to be read", 11, pull("writeonly"))
    run.ask("pull by who may not", 11, pull("orders", consumerGroup="disabled"))
    run.ask("pull by a new group", 11, pull("orders", consumerGroup="pulled"))
    run.ask("one group that pulled", 352, {"group": "pulled"})
    run.ask("pull by a bad name", 11, pull("orders", consumerGroup="a/b"))
    run.ask("pull dead letters", 11, pull("%DLQ%once"))
    run.ask("pull retries", 11, pull("%RETRY%once"))
    run.ask("pull chosen", 11, pull("narrow"))
    run.ask("pull lite", 361, pull("orders", 0, 0, sysFlag=SUBSCRIPTION | 16))
    run.ask("pull for the tool", 11, pull("orders", consumerGroup="TOOLS_CONSUMER"))
    run.ask("pull without a topic", 11, pull(None))
    run.ask("pull without a queue", 11, pull("orders", None))
    run.ask("pull at no number", 11, pull("orders", 0, "first"))
    run.ask("pull without a group", 11, pull("orders", consumerGroup=None))
    for flag in range(32):
        if not flag & SUSPEND:
            fields = pull("orders", 1, 0, sysFlag=flag, commitOffset=1, consumerGroup="flags")
            run.ask(f"pull with flags {flag}", 11, fields)
    run.ask("offset after flags", 14, {"consumerGroup": "flags", "topic": "orders", "queueId": 1})


def wait(run: Run) -> None:
    """Pulls that are held."""
    flags = SUSPEND | SUBSCRIPTION
    found = pull("orders", 1, 0, sysFlag=flags | 1, commitOffset=1, consumerGroup="waiting")
    run.ask("held, but there is one", 11, found)
    asked = {"consumerGroup": "waiting", "topic": "orders", "queueId": 1}
    run.ask("offset after a hold", 14, asked)
    brief = pull("orders", 1, 1, sysFlag=flags, suspendTimeoutMillis=50)
    run.ask("held for nothing", 11, brief)
    run.ask("held at a wrong place", 11, pull("orders", 1, 9, sysFlag=flags))
    empty = pull("wide", 1, 0, sysFlag=flags, suspendTimeoutMillis=50)
    run.ask("held at an empty queue", 11, empty)
    for name, more in {
        "all": {},
        "tagged": {"subscription": "late"},
        "by SQL": {"subscription": "TAGS = 'late'", "expressionType": "SQL92"},
    }.items():
        peer = run.peer(f"broker:held {name}")
        fields = pull("wide", 0, 0, sysFlag=flags, suspendTimeoutMillis=20_000, **more)
        more_texts = {key: str(value) for key, value in fields.items()}
        sent = Command.request(11, more=more_texts)
        peer.send(sent)
    run.pause(0.5)
    run.ask("send to who waits", 310, short("wide", 0, {"TAGS": "late"}), b"awaited")
    for name in ("all", "tagged", "by SQL"):
        run.note(f"held {name}", run.peer(f"broker:held {name}").receive())


def ask_offsets(run: Run) -> None:
    """Offsets of groups and of queues."""
    queue = {"topic": "orders", "queueId": 0}
    nowhere = {"topic": "nowhere", "queueId": 0}
    for code, name in ((30, "maximum"), (31, "minimum"), (32, "earliest")):
        run.ask(f"{name}", code, queue)
        run.ask(f"{name} of an empty queue", code, {"topic": "wide", "queueId": 3})
        run.ask(f"{name} of no topic", code, nowhere)
        run.ask(f"{name} of a queue not there", code, {"topic": "orders", "queueId": 77})
        run.ask(f"{name} of a queue below", code, {"topic": "orders", "queueId": -1})
        run.ask(f"{name} without a queue", code, {"topic": "orders"})
        run.ask(f"{name} without a topic", code, {"queueId": 0})
    run.ask("maximum not committed", 30, {**queue, "committed": False})
    for name, time in {"first": 0, "last": 4_000_000_000_000, "below": -1}.items():
        for kind in (None, "lower", "upper", "LOWER", "UPPER", "odd"):
            by_time = {**queue, "timestamp": time, "boundaryType": kind}
            run.ask(f"by time {name} {kind}", 29, by_time)
    run.ask("by time in an empty queue", 29, {"topic": "wide", "queueId": 3, "timestamp": 1})
    run.ask("by time nowhere", 29, {**nowhere, "timestamp": 1})
    run.ask("by no time", 29, queue)
    group = {"consumerGroup": "billing", **queue}
    run.ask("offset of a young topic", 14, group)
    run.ask("offset, not zero", 14, {**group, "setZeroIfNotFound": False})
    run.ask("offset of an empty queue", 14, {**group, "topic": "wide", "queueId": 3})
    run.ask("offset of no topic", 14, {**group, "topic": "nowhere"})
    run.ask("offset of nobody", 14, {**group, "consumerGroup": "unknown"})
    run.ask("commit", 15, {**group, "commitOffset": 2})
    run.ask("offset", 14, group)
    run.ask("commit less", 15, {**group, "commitOffset": 1})
    run.ask("offset of less", 14, group)
    run.ask("commit too much", 15, {**group, "commitOffset": 1_000})
    run.ask("offset of too much", 14, group)
    run.ask("commit below zero", 15, {**group, "commitOffset": -1})
    run.ask("offset below zero", 14, group)
    run.ask("commit to a queue not there", 15, {**group, "queueId": 77, "commitOffset": 1})
    run.ask("commit to no topic", 15, {**group, "topic": "nowhere", "commitOffset": 1})
    run.ask("commit of nobody", 15, {**group, "consumerGroup": "unknown", "commitOffset": 1})
    run.ask("commit of a bad name", 15, {**group, "consumerGroup": "a/b", "commitOffset": 1})
    run.ask("commit nothing", 15, group)
    run.ask("commit in the end", 15, {**group, "commitOffset": 2})


def query(run: Run) -> None:
    """Messages by key and by place."""
    asked = {
        "topic": "orders",
        "key": "k1",
        "maxNum": 10,
        "beginTimestamp": 0,
        "endTimestamp": 4_000_000_000_000,
    }
    run.ask("query", 12, asked)
    run.ask("query one", 12, {**asked, "maxNum": 1})
    run.ask("query another", 12, {**asked, "key": "k2"})
    run.ask("query nothing", 12, {**asked, "key": "nothing"})
    run.ask("query an empty key", 12, {**asked, "key": ""})
    run.ask("query nowhere", 12, {**asked, "topic": "nowhere"})
    run.ask("query another time", 12, {**asked, "endTimestamp": 1})
    run.ask("query none", 12, {**asked, "maxNum": 0})
    run.ask("query without a key", 12, {**asked, "key": None})
    unique = "0A" + f"{b'orders'.hex()[:12]:0<28}"
    run.ask("query by id", 12, {**asked, "key": unique, "_UNIQUE_KEY_QUERY": True})
    run.ask("query by id as a key", 12, {**asked, "key": unique})
    run.ask("view", 33, {"offset": 0})
    run.ask("view with a topic", 33, {"offset": 0, "topic": "orders"})
    run.ask("view within", 33, {"offset": 5})
    run.ask("view far behind", 33, {"offset": 1 << 40})
    run.ask("view before", 33, {"offset": -1})
    run.ask("view nothing", 33)
    run.ask("view by no number", 33, {"offset": "first"})
