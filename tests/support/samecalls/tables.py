"""What the script's calls are generated from: topics, groups, names, and what they are put into."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from reput_server.grpc.messagetypes import m

TOPICS = {
    "normal": (1, 1, 6, "NORMAL"),
    "fifo": (8, 8, 6, "FIFO"),
    "one": (1, 1, 6, "FIFO"),
    "delay": (1, 1, 6, "DELAY"),
    "transaction": (1, 1, 6, "TRANSACTION"),
    "mixed": (1, 1, 6, "MIXED"),
    "plain": (1, 1, 6, None),
    "tags": (1, 1, 6, "NORMAL"),
    "again": (1, 1, 6, "NORMAL"),
    "dead": (1, 1, 6, "NORMAL"),
    "acks": (1, 1, 6, "NORMAL"),
    "shown": (1, 1, 6, "MIXED"),
    "due": (1, 1, 6, "DELAY"),
    "halves": (1, 1, 6, "TRANSACTION"),
    "texts": (1, 1, 6, "NORMAL"),
    "odd": (1, 1, 6, "NORMAL"),
    "empty": (4, 4, 6, "NORMAL"),
    "readonly": (2, 2, 4, "NORMAL"),
    "writeonly": (2, 2, 2, "NORMAL"),
    "closed": (2, 3, 0, "NORMAL"),
    "wide": (2, 6, 6, "NORMAL"),
    "narrow": (6, 2, 6, "NORMAL"),
}
"""Queues to read, queues to write, permissions, and the type of messages."""

GROUPS: dict[str, dict[str, Any]] = {
    "g": {},
    "ordered": {"consumeMessageOrderly": True},
    "twice": {"retryMaxTimes": 1},
    "never": {"retryMaxTimes": 0},
    "many": {"retryMaxTimes": 30},
    "disabled": {"consumeEnable": False},
}

_LONG = "n" * 127
NAMES = {
    "empty": "",
    "blank": " ",
    "with a blank": "a b",
    "of 120": _LONG[:120],
    "of 127": _LONG,
    "of 128": _LONG + "n",
    "of 255": "n" * 255,
    "of 256": "n" * 256,
    "with a slash": "a/b",
    "with a dot": "a.b",
    "with a dollar": "a$b",
    "with a bar": "a|b",
    "with a star": "*",
    "with a percent": "a%b",
    "with a line end": "a\nb",
    "with a zero": "a\0b",
    "umlaut": "ä",
    "retry": "%RETRY%h",
    "pop retry": "%RETRY%h_normal",
    "dead letters": "%DLQ%h",
    "lmq": "%LMQ%x",
    "rmq_sys_": "rmq_sys_x",
    "RMQ_SYS_": "RMQ_SYS_TRANS_HALF_TOPIC",
    "schedule": "SCHEDULE_TOPIC_XXXX",
    "template": "TBW102",
    "self test": "SELF_TEST_TOPIC",
    "benchmark": "BenchmarkTest",
    "moved": "OFFSET_MOVED_EVENT",
    "checked too often": "TRANS_CHECK_MAX_TIME_TOPIC",
    "of a cluster": "reput",
    "of a broker": "broker-a",
    "tools": "TOOLS_CONSUMER",
    "CID_RMQ_SYS_": "CID_RMQ_SYS_x",
    "default consumer": "DEFAULT_CONSUMER",
    "self test group": "SELF_TEST_C_GROUP",
    "ONS": "CID_ONSAPI_OWNER",
    "unknown": "nowhere",
    "in another case": "Normal",
}
"""Names of topics and groups, most of them wrong."""


def resource(name: str, space: str = "") -> Any:
    """A topic or a group."""
    return m.Resource(name=name, resource_namespace=space)


def duration(seconds: float) -> Any:
    """So many seconds."""
    return m.Duration(seconds=int(seconds), nanos=round((seconds - int(seconds)) * 1e9))


def milliseconds(time: int) -> Any:
    """A time."""
    return m.Timestamp(seconds=time // 1_000, nanos=time % 1_000 * 1_000_000)


def message(topic: str = "normal", body: bytes = b"one", **system: Any) -> Any:
    """A message; a group, a time and so on by their names in the system's properties."""
    user = system.pop("user", {})
    given = {"message_type": 1, "message_id": "id", "born_host": "host", "body_encoding": 1}
    found = m.Message(
        topic=resource(topic), body=body, system_properties=m.SystemProperties(**given | system)
    )
    found.user_properties.update(user)
    return found


def sent(*messages: Any) -> Any:
    """The request of a send."""
    return m.SendMessageRequest(messages=messages)


def received(group: str = "g", topic: str = "normal", **fields: Any) -> Any:
    """The request to receive."""
    given = {
        "batch_size": 32,
        "invisible_duration": duration(60),
        "long_polling_timeout": duration(5),
    }
    found = {name: value for name, value in (given | fields).items() if value is not None}
    return m.ReceiveMessageRequest(
        group=resource(group), message_queue=m.MessageQueue(topic=resource(topic)), **found
    )


def acked(group: str, topic: str, *entries: tuple[str, str]) -> Any:
    """The request to acknowledge; entries are ids and handles."""
    request = m.AckMessageRequest(group=resource(group), topic=resource(topic))
    for message_id, handle in entries:
        request.entries.add(message_id=message_id, receipt_handle=handle)
    return request


def changed(group: str, topic: str, handle: str, seconds: float = 30) -> Any:
    """The request to change a deadline."""
    return m.ChangeInvisibleDurationRequest(
        group=resource(group),
        topic=resource(topic),
        receipt_handle=handle,
        invisible_duration=duration(seconds),
        message_id="id",
    )


def forwarded(group: str, topic: str, handle: str) -> Any:
    """The request to make a dead letter."""
    return m.ForwardMessageToDeadLetterQueueRequest(
        group=resource(group), topic=resource(topic), receipt_handle=handle, message_id="id"
    )


def ended(topic: str, transaction_id: str, resolution: int = 1, message_id: str = "id") -> Any:
    """The request to end a transaction."""
    return m.EndTransactionRequest(
        topic=resource(topic),
        message_id=message_id,
        transaction_id=transaction_id,
        resolution=resolution,
        source=1,
    )


def assigned(topic: str, group: str) -> Any:
    """The question for assignments."""
    return m.QueryAssignmentRequest(topic=resource(topic), group=resource(group))


def publishing(*topics: str, **fields: Any) -> Any:
    """The settings of a producer."""
    return m.TelemetryCommand(
        settings=m.Settings(
            **{"client_type": 1, "request_timeout": duration(3)} | fields,
            publishing=m.Publishing(topics=[resource(each) for each in topics]),
        )
    )


def subscribing(group: str, *topics: str, kind: int = 3, **fields: Any) -> Any:
    """The settings of a consumer."""
    subscription = m.Subscription(group=resource(group))
    for each in topics:
        subscription.subscriptions.add(
            topic=resource(each), expression=m.FilterExpression(type=1, expression="*")
        )
    return m.TelemetryCommand(
        settings=m.Settings(
            **{"client_type": kind, "request_timeout": duration(3)} | fields,
            subscription=subscription,
        )
    )


BY_TOPIC: dict[str, Callable[[str], Any]] = {
    "QueryRoute": lambda name: m.QueryRouteRequest(topic=resource(name)),
    "QueryAssignment": lambda name: assigned(name, "g"),
    "SendMessage": lambda name: sent(message(name)),
    "RecallMessage": lambda name: m.RecallMessageRequest(
        topic=resource(name), recall_handle="nonsense"
    ),
    "AckMessage": lambda name: acked("g", name, ("id", "nonsense")),
    "ChangeInvisibleDuration": lambda name: changed("g", name, "nonsense"),
    "ForwardMessageToDeadLetterQueue": lambda name: forwarded("g", name, "nonsense"),
    "EndTransaction": lambda name: ended(name, "nonsense"),
}
"""Calls that name a topic, by what makes one of a name."""

BY_GROUP: dict[str, Callable[[str], Any]] = {
    "QueryAssignment": lambda name: assigned("normal", name),
    "AckMessage": lambda name: acked(name, "normal", ("id", "nonsense")),
    "ChangeInvisibleDuration": lambda name: changed(name, "normal", "nonsense"),
    "ForwardMessageToDeadLetterQueue": lambda name: forwarded(name, "normal", "nonsense"),
    "Heartbeat": lambda name: m.HeartbeatRequest(group=resource(name), client_type=3),
}
"""Calls that name a group."""


def named() -> Iterator[tuple[str, str, Any]]:
    """All calls with all names: what each is called, its call, its request."""
    for what, name in NAMES.items():
        for call, made in BY_TOPIC.items():
            yield f"{call}: topic {what}", call, made(name)
        for call, made in BY_GROUP.items():
            yield f"{call}: group {what}", call, made(name)
