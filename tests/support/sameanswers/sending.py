"""The script's part about sends: what is stored, and each way to be refused."""

from __future__ import annotations

import struct

from sameanswers.run import Run

from reput_client.remoting import HeaderKind

BORN = 1_700_000_000_000
_NAMES = """\
producerGroup topic defaultTopic defaultTopicQueueNums queueId sysFlag bornTimestamp flag
properties reconsumeTimes unitMode maxReconsumeTimes batch brokerName"""
SHORT = dict(zip(_NAMES.split(), "abcdefghijklmn", strict=True))
"""Letters of the short form."""
_MAY_BE_MISSING = {
    "producerGroup",  # see `differ`
    "properties",
    "reconsumeTimes",
    "unitMode",
    "maxReconsumeTimes",
    "batch",
}


def long(
    topic: str, queue_id: object = 0, properties: dict | str | None = None, **more: object
) -> dict:
    """The fields of a send, code 10; a message has an id unless ``properties`` say otherwise."""
    found = {"UNIQ_KEY": f"0A{topic.encode().hex()[:12]:0<28}", "WAIT": "true"}
    texts = properties if isinstance(properties, str) else written(found | (properties or {}))
    return {
        "producerGroup": "producers",
        "topic": topic,
        "defaultTopic": "TBW102",
        "defaultTopicQueueNums": 4,
        "queueId": queue_id,
        "sysFlag": 0,
        "bornTimestamp": BORN,
        "flag": 0,
        "properties": texts,
        "reconsumeTimes": 0,
        "unitMode": False,
        "batch": False,
        **more,
    }


def written(properties: dict) -> str:
    """The text of properties; None leaves one out."""
    return "".join(f"{name}\1{value}\2" for name, value in properties.items() if value is not None)


def short(*arguments: object, **more: object) -> dict:
    """The fields of a send, code 310."""
    fields = long(*arguments, **more)
    return {SHORT[name]: value for name, value in fields.items()}


def batch(*bodies: bytes, properties: dict | None = None) -> bytes:
    """The body of a send of many."""
    entries = []
    for at, body in enumerate(bodies):
        own = written({"UNIQ_KEY": f"0B{at:030d}", "WAIT": "true", **(properties or {})}).encode()
        size = 4 + 4 + 4 + 4 + 4 + len(body) + 2 + len(own)
        entries.append(struct.pack(">iiiii", size, 0, 0, 0, len(body)) + body)
        entries.append(struct.pack(">h", len(own)) + own)
    return b"".join(entries)


def store(run: Run) -> None:
    """Messages of each kind that are taken."""
    run.ask("send", 310, short("orders", 0, {"TAGS": "red", "KEYS": "k1 k2"}), b"one")
    run.ask("send in words", 10, long("orders", 1, {"TAGS": "blue", "KEYS": "k1"}), b"two")
    run.ask("send binary", 310, short("orders", 0), b"three", kind=HeaderKind.BINARY)
    run.ask("send with flags", 310, short("orders", 0, flag=7, sysFlag=1), b"six")
    run.ask("send of a transaction's end", 310, short("orders", 2, sysFlag=8), b"ended")
    run.ask("send with a long id", 310, short("narrow", -1), b"chosen for me")
    run.ask("send to a queue only written", 310, short("wide", 5), b"wide")
    run.ask("send with all of unicode", 310, short("narrow", 0, {"w": "zł€𝄞"}), "zł€𝄞".encode())
    run.ask("send with an empty property", 310, short("narrow", 0, {"empty": ""}), b"e")
    run.ask("send with a receipt", 310, short("narrow", 0, {"POP_CK": "1 2 3"}), b"p")
    run.ask("send reconsumed", 310, short("narrow", 0, reconsumeTimes=3), b"r")
    run.ask("send with CLUSTER", 310, short("narrow", 0, {"CLUSTER": "mine"}), b"c")
    run.ask("send with TRACE_ON", 310, short("narrow", 0, {"TRACE_ON": "false"}), b"t")
    run.ask("send from 4.8", 310, short("narrow", 0), b"old", version=373)
    run.ask("send to a new topic", 310, short("fresh", 0), b"fresh")
    run.ask("send to a new topic of many", 310, short("many", 0, defaultTopicQueueNums=40), b"m")
    run.ask("send to a group's topic", 310, short("%RETRY%billing", 0), b"again")
    run.ask("send again too often", 310, short("%RETRY%once", 0, reconsumeTimes=9), b"dead")
    limit = short("%RETRY%once", 0, reconsumeTimes=9, maxReconsumeTimes=20)
    run.ask("send again not too often", 310, limit, b"again")
    run.ask("send to no group's topic", 310, short("%RETRY%nobody2", 0), b"?")
    run.ask("send to dead letters", 310, short("%DLQ%billing", 0), b"dead")
    run.ask("one topic made by a send", 351, {"topic": "fresh"})
    run.ask("one topic made by a send of many", 351, {"topic": "many"})
    run.ask("one topic of dead letters", 351, {"topic": "%DLQ%once"})
    run.ask("one topic of retries", 351, {"topic": "%RETRY%once"})
    run.tell(310, short("orders", 3), b"one way")
    run.settle("orders", 3, 1)
    for at in range(40):
        run.ask(f"send many {at}", 310, short("batches", 1), b"many %d" % at)
    run.settle("batches", 1, 40)


def refuse(run: Run) -> None:
    """Messages that are not taken."""
    run.ask("refused: no topic", 310, short("nowhere", 0, defaultTopic="nothing"), b"x")
    run.ask("refused: a template that is none", 310, short("no", 0, defaultTopic="orders"), b"x")
    run.ask("refused: queue", 310, short("orders", 4), b"x")
    run.ask("refused: queue of wide", 310, short("wide", 6), b"x")
    run.ask("refused: bad name", 310, short("a/b", 0), b"x")
    run.ask("refused: empty name", 310, short("", 0), b"x")
    run.ask("refused: long name", 310, short("t" * 128, 0), b"x")
    for name in (
        "SCHEDULE_TOPIC_XXXX",
        "RMQ_SYS_TRANS_HALF_TOPIC",
        "RMQ_SYS_TRANS_OP_HALF_TOPIC",
        "TRANS_CHECK_MAX_TIME_TOPIC",
        "SELF_TEST_TOPIC",
        "OFFSET_MOVED_EVENT",
    ):
        run.ask(f"refused: {name}", 310, short(name, 0), b"x")
    run.ask("system: TBW102", 310, short("TBW102", 0), b"x")
    run.ask("refused: too large", 310, short("narrow", 0), bytes(4 * 1024 * 1024 + 1))
    run.ask("refused: properties", 310, short("narrow", 0, {"p": "x" * 32_767}), b"x")
    run.ask("refused: properties with ours", 310, short("narrow", 0, {"p": "x" * 32_700}), b"x")
    run.ask("refused: no fields", 310, None, b"x")
    for name, letter in SHORT.items():
        if name not in _MAY_BE_MISSING:
            fields = {key: value for key, value in short("narrow", 0).items() if key != letter}
            run.ask(f"without {name}", 310, fields, b"x")
    run.ask("refused: queue that is no number", 310, short("narrow", "one"), b"x")
    run.ask("refused: queue of 64 bits", 310, short("narrow", 1 << 40), b"x")
    run.ask("refused: time that is no number", 310, short("narrow", 0, bornTimestamp="now"), b"x")
    entries = batch(b"b1", b"b2")
    run.ask("batch to retries", 320, short("%RETRY%billing", 0, batch=True), entries)
    run.ask("batch of nothing", 320, short("batches", 0, batch=True), b"")
    run.ask("batch cut off", 320, short("batches", 0, batch=True), entries[:-3])
    run.ask("batch delayed", 320, short("batches", 0, {"DELAY": "1"}, batch=True), entries)


def differ(run: Run) -> None:
    """What a broker of Java's and ours store differently on purpose; it comes last."""
    run.ask("send nothing", 310, short("late", 0), b"")
    run.ask("send without properties", 310, short("late", 0, ""), b"four")
    run.ask("send without an id", 310, short("late", 0, {"UNIQ_KEY": None}), b"five")
    run.ask("send with odd properties", 310, short("late", 0, "a\1b\2c"), b"o")
    run.ask("refused: may only be read", 310, short("readonly", 0), b"x")
    run.ask("refused: may do nothing", 310, short("closed", 0), b"x")
    late = batch(b"late", properties={"DELAY": "1"})
    run.ask("batch with delays", 320, short("late", 0, batch=True), late)
    delay = {"TIMER_DELAY_SEC": 9_999_999}
    run.ask("send in too long", 310, short("late", 0, delay), b"long")
    fields = {key: value for key, value in short("late", 0).items() if key != "a"}
    run.ask("without producerGroup", 310, fields, b"x")
