"""The script's part about sending: what is stored, and what is refused."""

from __future__ import annotations

from typing import Any

from samecalls.run import CallRun
from samecalls.tables import duration, ended, message, milliseconds, resource, sent

from reput_server.grpc.messagetypes import m

_RESERVED = """
KEYS TAGS WAIT DELAY RETRY_TOPIC REAL_TOPIC REAL_QID TRAN_MSG PGROUP MIN_OFFSET MAX_OFFSET
BUYER_ID ORIGIN_MESSAGE_ID TRANSFER_FLAG CORRECTION_FLAG MQ2_FLAG RECONSUME_TIME MSG_REGION
TRACE_ON UNIQ_KEY EXTEND_UNIQ_INFO MAX_RECONSUME_TIMES CONSUME_START_TIME INSTANCE_ID
CORRELATION_ID REPLY_TO_CLIENT TTL ARRIVE_TIME PUSH_REPLY_TIME CLUSTER MSG_TYPE POP_CK
POP_CK_OFFSET FIRST_POP_TIME 1ST_POP_TIME SHARDINGKEY __SHARDINGKEY __transactionId__
TIMER_DELIVER_MS TIMER_DELAY_SEC TIMER_DELAY_MS TIMER_OUT_MS TIMER_ENQUEUE_MS TIMER_DEQUEUE_MS
TIMER_ROLL_TIMES TIMER_DEL_UNIQKEY TIMER_DELAY_LEVEL TIMER_DEL_MS TRANSACTION_CHECK_TIMES
CHECK_IMMUNITY_TIME_IN_SECONDS TRANSACTION_PREPARED_QUEUE_OFFSET TRANSACTION_ID
__TRACE_CONTEXT__ DLQ_ORIGIN_TOPIC DLQ_ORIGIN_MESSAGE_ID INNER_MULTI_DISPATCH
INNER_MULTI_QUEUE_OFFSET INNER_BASE __CRC32# ORIGIN_GROUP BORN_HOST BORN_TIMESTAMP
RECALL_HANDLE __RMQ.TRANSIENT.GROUP_SYS_FLAG TRANSIENT.GROUP LMQ_OFFSET CLIENT_ID free keys
"""
_TYPED = [
    *("normal", "fifo", "delay", "transaction", "mixed", "plain", "readonly", "writeonly"),
    *("closed", "wide", "narrow"),
]
_TEXTS = {
    "empty": "",
    "blank": " ",
    "with a blank": "a b",
    "with a bar": "a|b",
    "with two bars": "a || b",
    "with a tab": "a\tb",
    "with a zero": "a\0b",
    "with 1": "a\1b",
    "with 127": "a\x7fb",
    "with 133": "a\x85b",
    "umlaut": "ä",
    "of 63": "k" * 63,
    "of 64": "k" * 64,
    "of 62 and an umlaut": "k" * 62 + "ä",
    "of 127": "k" * 127,
    "of 128": "k" * 128,
    "of 1000": "k" * 1_000,
    "of 20000": "k" * 20_000,
    "star": "*",
}


def send(run: CallRun) -> None:
    """Messages that are stored, and some that are not."""

    def ask(name: str, *messages: Any) -> None:
        run.ask(f"send {name}", "SendMessage", sent(*messages))

    ask("nothing")
    for topic in _TYPED:
        for kind in range(6):
            more = _of_kind(kind, run.now_ms)
            ask(f"type {kind} to {topic}", message(topic, message_type=kind, **more))
    for what, text in _TEXTS.items():
        ask(f"tag {what}", message("texts", tag=text))
        ask(f"key {what}", message("texts", keys=["k", text]))
        ask(f"id {what}", message("odd", message_id=text))
        ask(f"message group {what}", message("one", message_type=2, message_group=text))
        ask(f"property named {what}", message("odd", user={text: "v"}))
        ask(f"property {what}", message("texts", user={"p": text}))
        ask(f"trace {what}", message("texts", trace_context=text))
    for name in _RESERVED.split():
        ask(f"property {name}", message(user={name: "1"}))
    for count in (127, 128, 129):
        ask(f"{count} properties", message(user={str(at): "" for at in range(count)}))
    for size in (16_383, 16_384, 16_385):
        ask(f"properties of {size}", message(user={"p": "x" * (size - 1)}))
    for size in (0, 1, 4 << 20, (4 << 20) + 1):
        ask(f"a body of {size}", message(body=b"x" * size))


def _of_kind(kind: int, now: int) -> dict[str, Any]:
    if kind == 2:
        return {"message_group": "group"}
    return {"delivery_timestamp": milliseconds(now + 3_600_000)} if kind == 3 else {}


def send_typed(run: CallRun) -> None:
    """Groups, times and transactions; and several messages in one call."""

    def ask(name: str, *messages: Any) -> Any:
        return run.ask(f"send {name}", "SendMessage", sent(*messages))

    for at in range(24):
        ask(f"to group {at}", message("fifo", message_type=2, message_group=f"group-{at}"))
    ask("in order without a group", message("one", message_type=2))
    ask(
        "in order with a group and a time",
        message(
            "one",
            message_type=2,
            message_group="g",
            delivery_timestamp=milliseconds(run.now_ms + 60_000),
        ),
    )
    ask("plain with a group", message(message_group="g"))
    ask("plain with a time", message(delivery_timestamp=milliseconds(run.now_ms + 60_000)))
    ask("plain with a group of another type", message("mixed", message_group="g"))
    for seconds in (-3_600, -1, 0, 1, 86_000, 86_500, 1_000_000):
        time = milliseconds(run.now_ms + seconds * 1_000)
        ask(f"after {seconds} s", message("delay", message_type=3, delivery_timestamp=time))
    for what, time in {
        "0": milliseconds(0),
        "below 0": milliseconds(-5_000),
        "far": milliseconds(1 << 50),
    }.items():
        ask(f"at {what}", message("delay", message_type=3, delivery_timestamp=time))
    ask("delayed without a time", message("delay", message_type=3))
    for seconds in (-1, 0, 5, 3_600, 3_601):
        recovery = duration(seconds)
        ask(
            f"half with {seconds} s",
            message("transaction", message_type=4, orphaned_transaction_recovery_duration=recovery),
        )
    ask("half with a group", message("mixed", message_type=4, message_group="g"))
    ask("two", message("odd"), message("odd"))
    ask("two with one id", message("odd", message_id="same"), message("odd", message_id="same"))
    ask("two of two topics", message(), message("plain"))
    ask("two, one empty", message(), message(body=b""))
    ask("two, one with a bad tag", message(), message(tag="a|b"))
    ask("two of two types", message("mixed"), message("mixed", **_fifo()))
    ask("two in order", message("one", **_fifo()), message("one", **_fifo()))
    for what, fields in {
        "an encoding": {"body_encoding": 2},
        "an odd encoding": {"body_encoding": 9},
        "a digest": {"body_digest": m.Digest(type=1, checksum="FFFFFFFF")},
        "no host": {"born_host": ""},
        "an attempt": {"delivery_attempt": 3},
        "a born time": {"born_timestamp": milliseconds(1_700_000_000_123)},
        "a queue": {"queue_id": 77},
        "a handle": {"receipt_handle": "x"},
    }.items():
        ask(f"with {what}", message(**fields))
    spaced = message("odd")
    spaced.topic.resource_namespace = "shop"
    ask("into a namespace", spaced)


def _fifo() -> dict[str, Any]:
    return {"message_type": 2, "message_group": "g"}


def end(run: CallRun) -> None:
    """Ends of transactions."""
    for at, resolution in enumerate((1, 2, 0, 3, 1)):
        half = message("halves", message_type=4, message_id=f"half-{at}", user={"p": "v"})
        found = run.ask(f"half {at}", "SendMessage", sent(half)).entries[0]
        name = f"end of half {at} by {resolution}"
        request = ended("halves", found.transaction_id, resolution, f"half-{at}")
        run.ask(name, "EndTransaction", request)
        if at in (0, 1):
            run.ask(f"{name} again", "EndTransaction", request)
    for what, transaction in {"empty": "", "blank": " ", "odd": "nonsense"}.items():
        for resolution in (0, 1, 2):
            name = f"end of {what} by {resolution}"
            run.ask(name, "EndTransaction", ended("transaction", transaction, resolution))
    half = sent(message("halves", message_type=4, message_id="half-other"))
    found = run.ask("half of another topic", "SendMessage", half).entries[0]
    request = ended("mixed", found.transaction_id, 1, "half-other")
    run.ask("end in another topic", "EndTransaction", request)
    request = ended("halves", found.transaction_id, 1, "")
    run.ask("end without an id", "EndTransaction", request)


def recall(run: CallRun) -> None:
    """Recalls of delayed messages."""

    def ask(name: str, topic: str, handle: str) -> None:
        request = m.RecallMessageRequest(topic=resource(topic), recall_handle=handle)
        run.ask(f"recall {name}", "RecallMessage", request)

    later = milliseconds(run.now_ms + 7_200_000)
    delayed = message("delay", message_type=3, delivery_timestamp=later, message_id="recalled")
    found = run.ask("send what is recalled", "SendMessage", sent(delayed)).entries[0]
    ask("", "delay", found.recall_handle)
    ask("again", "delay", found.recall_handle)
    ask("by another topic", "mixed", found.recall_handle)
    ask("by a topic of another type", "normal", found.recall_handle)
    ask("by an unknown topic", "nowhere", found.recall_handle)
    ask("cut off", "delay", found.recall_handle[:12])
    ask("by nothing", "delay", "")
    ask("by nonsense", "delay", "nonsense")
    ask("by other text", "delay", "djEgYSBi")  # v1 a b
