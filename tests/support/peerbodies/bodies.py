"""The bodies whose members are written in other types, each with how to see what was read."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Final

import attrs

TOPIC: Final = "orders"
GROUP: Final = "billing"
Path = tuple[str | int, ...]
Looked = Callable[["Asked"], Any]


@attrs.frozen
class Asked:
    """One request of the table, as it was sent; what is asked behind it goes by these names."""

    ask: Callable[..., Any]
    """Sends a request to the same server; returns the answer's code and its body as JSON."""
    fields: Callable[..., Any]
    """The same; returns the answer's code and its fields."""
    name: str
    """The topic, group or broker of this request alone."""
    value: str
    """JSON text of the member."""

    @property
    def text(self) -> str:
        """The value as a name, where the member is one."""
        try:
            found = json.loads(self.value)
        except ValueError:
            return self.value
        return found if isinstance(found, str) else self.value


@attrs.frozen
class Body:
    """One kind of request with a body."""

    name: str
    code: int
    members: Callable[[str], dict[str, Any]]
    """The body, given the name of this request alone."""
    paths: tuple[Path, ...]
    """Members that are written in other types."""
    shown: Callable[[Asked, Path], Any]
    """What the server shows of a member behind it."""
    port: str = "broker"
    fields: Callable[[str], dict[str, object]] = lambda name: {}


# ---------------------------------------------------------------------- heartbeats


def _heartbeat(name: str) -> dict[str, Any]:
    subscription = {
        "classFilterMode": False,
        "codeSet": [],
        "expressionType": "TAG",
        "subString": "*",
        "subVersion": 5,
        "tagsSet": [],
        "topic": "orders",
    }
    consumer = {
        "consumeFromWhere": "CONSUME_FROM_FIRST_OFFSET",
        "consumeType": "CONSUME_PASSIVELY",
        "groupName": name,
        "messageModel": "CLUSTERING",
        "subscriptionDataSet": [subscription],
        "unitMode": False,
    }
    return {
        "clientID": "client",
        "consumerDataSet": [consumer],
        "heartbeatFingerprint": 0,
        "producerDataSet": [{"groupName": name}],
        "withoutSub": False,
    }


_GROUP: Final[Path] = ("consumerDataSet", 0)
_WANTED: Final[Path] = (*_GROUP, "subscriptionDataSet", 0)


def _named(found: dict[str, Any]) -> list[dict[str, Any]]:
    """Clients of a group with an id: a real broker keeps one without, which it has refused."""
    return [each for each in found["connectionSet"] if "clientId" in each]


def _of_heartbeat(asked: Asked, path: Path) -> Any:
    if path == ("producerDataSet", 0, "groupName"):
        code, found = asked.ask(204, producerGroup=asked.text)
        return code if code else [each["clientId"] for each in found["connectionSet"]]
    is_named = path == (*_GROUP, "groupName")
    code, found = asked.ask(203, consumerGroup=asked.text if is_named else asked.name)
    if code:
        return code
    if path == ("clientID",):
        return [each["clientId"] for each in _named(found)]
    wanted = list(found["subscriptionTable"].values())
    if len(path) > len(_WANTED):
        return [each.get(path[-1]) for each in wanted]
    if path[-1] in ("subscriptionDataSet", 0, "topic"):
        return sorted(str(each.get("topic")) for each in wanted)
    if path[-1] in ("messageModel", "consumeType", "consumeFromWhere"):
        return found.get(path[-1])
    return "known"


_HEARTBEAT = Body(
    "heartbeat",
    34,
    _heartbeat,
    (
        ("clientID",),
        ("heartbeatFingerprint",),
        ("withoutSub",),
        ("producerDataSet",),
        ("producerDataSet", 0, "groupName"),
        ("consumerDataSet",),
        (*_GROUP, "groupName"),
        (*_GROUP, "consumeType"),
        (*_GROUP, "messageModel"),
        (*_GROUP, "consumeFromWhere"),
        (*_GROUP, "unitMode"),
        (*_GROUP, "subscriptionDataSet"),
        (*_WANTED, "topic"),
        (*_WANTED, "subString"),
        (*_WANTED, "subVersion"),
        (*_WANTED, "tagsSet"),
        (*_WANTED, "codeSet"),
        (*_WANTED, "expressionType"),
        (*_WANTED, "classFilterMode"),
        (*_WANTED, "unknown"),
    ),
    _of_heartbeat,
)

# ---------------------------------------------------------------------- locks


def _locks(name: str) -> dict[str, Any]:
    queue = {"brokerName": "broker-a", "queueId": 0, "topic": "orders"}
    return {"clientId": "client", "consumerGroup": name, "mqSet": [queue], "onlyThisBroker": False}


_QUEUE: Final = tuple(("mqSet", 0, name) for name in ("brokerName", "queueId", "topic"))


def _of_locks(asked: Asked, path: Path) -> Any:
    """Which queues another client of the group does not get."""
    every = {
        **_locks(asked.text if path == ("consumerGroup",) else asked.name),
        "clientId": "another",
    }
    names = ("orders", asked.text) if path[-1] == "topic" else ("orders",)
    numbers = (0, 1, 2, 7, 10)
    every["mqSet"] = [
        {"brokerName": "broker-a", "queueId": number, "topic": name}
        for name in names
        for number in numbers
    ]
    _, found = asked.ask(41, body=every)
    got = {(each["topic"], each["queueId"]) for each in found["lockOKMQSet"]}
    return sorted([n, i] for n in set(names) for i in numbers if (n, i) not in got)


_LOCKS = Body(
    "locks", 41, _locks, (("clientId",), ("consumerGroup",), ("mqSet",), *_QUEUE), _of_locks
)

# ---------------------------------------------------------------------- groups and topics


def _group(name: str) -> dict[str, Any]:
    return {
        "brokerId": 0,
        "consumeBroadcastEnable": True,
        "consumeEnable": True,
        "consumeFromMinEnable": True,
        "groupName": name,
        "notifyConsumerIdsChangedEnable": True,
        "retryMaxTimes": 16,
        "retryQueueNums": 1,
        "whichBrokerWhenConsumeSlowly": 1,
    }


_GROUP_SHOWN: Final = (
    "consumeBroadcastEnable",
    "consumeEnable",
    "retryMaxTimes",
    "retryQueueNums",
)


def _of_group(asked: Asked, path: Path) -> Any:
    # Not asked by its name: a broker creates the group that is asked for.
    _, found = asked.ask(201)
    name = asked.text if path == ("groupName",) else asked.name
    group = found["subscriptionGroupTable"].get(name)
    if group is None:
        return None
    return group.get(path[0]) if path[0] in _GROUP_SHOWN else "known"


_GROUP_BODY = Body(
    "group",
    200,
    _group,
    tuple(
        (name,)
        for name in (*_GROUP_SHOWN, "groupName", "brokerId", "consumeFromMinEnable", "unknown")
    ),
    _of_group,
)


def _topics(name: str) -> dict[str, Any]:
    return {"topicConfigList": [_topic(name)]}


def _topic(name: str) -> dict[str, Any]:
    return {
        "attributes": {},
        "order": False,
        "perm": 6,
        "readQueueNums": 8,
        "topicFilterType": "SINGLE_TAG",
        "topicName": name,
        "topicSysFlag": 0,
        "writeQueueNums": 8,
    }


def _of_topics(asked: Asked, path: Path) -> Any:
    code, found = asked.ask(351, topic=asked.text if path[-1] == "topicName" else asked.name)
    return code if code else found.get(path[-1], "known")


_TOPIC_NAMES: Final = (
    "order",
    "perm",
    "readQueueNums",
    "topicFilterType",
    "topicName",
    "topicSysFlag",
    "writeQueueNums",
)
_TOPICS = Body(
    "topics",
    18,
    _topics,
    (
        ("topicConfigList",),
        *(("topicConfigList", 0, name) for name in (*_TOPIC_NAMES, "attributes", "unknown")),
    ),
    _of_topics,
)

# ---------------------------------------------------------------------- name server


def _registration(name: str) -> dict[str, Any]:
    return {
        "filterServerList": [],
        "topicConfigSerializeWrapper": {
            "dataVersion": {"counter": 1, "stateVersion": 0, "timestamp": 7},
            "topicConfigTable": {name: _topic(name), f"{name}-2": _topic(f"{name}-2")},
        },
    }


def _broker_fields(name: str) -> dict[str, object]:
    return {
        "brokerName": name,
        "brokerAddr": f"127.0.0.1:{name}",
        "clusterName": "cluster",
        "haServerAddr": "127.0.0.1:1",
        "brokerId": 0,
    }


_ROUTED: Final = {
    "perm": "perm",
    "readQueueNums": "readQueueNums",
    "writeQueueNums": "writeQueueNums",
    "topicSysFlag": "topicSysFlag",
}


def _of_registration(asked: Asked, path: Path) -> Any:
    if "dataVersion" in path:
        given = {"counter": 1, "stateVersion": 0, "timestamp": 7}
        code, found = asked.ask(322, body=given, **_broker_fields(asked.name))
        return code if code else found
    code, found = asked.ask(105, topic=asked.text if path[-1] == "topicName" else asked.name)
    if code:
        return code
    # Another broker may have registered the same name on a connection that has just closed.
    own = [each for each in found["queueDatas"] if each["brokerName"] == asked.name]
    queues = own[0] if own else {}
    return queues.get(_ROUTED.get(str(path[-1]), ""), "known" if own else 17)


def _wrapper(*path: str) -> Path:
    return ("topicConfigSerializeWrapper", *path)


_REGISTRATION = Body(
    "registration",
    103,
    _registration,
    (
        ("filterServerList",),
        _wrapper(),
        _wrapper("topicConfigTable"),
        _wrapper("dataVersion"),
        _wrapper("dataVersion", "counter"),
        _wrapper("dataVersion", "stateVersion"),
        _wrapper("dataVersion", "timestamp"),
        *(
            _wrapper("topicConfigTable", "(name)", name)
            for name in (*_TOPIC_NAMES, "attributes", "unknown")
        ),
    ),
    _of_registration,
    port="names",
    fields=_broker_fields,
)

# ---------------------------------------------------------------------- headers


@attrs.frozen
class Header:
    """One kind of request whose fields are written in other types."""

    name: str
    code: int
    fields: Callable[[str], dict[str, object]]
    names: tuple[str, ...]
    """Fields that are written in other types."""
    shown: Callable[[Asked, str, dict[str, str]], Any]
    """What the server shows of a field, given the answer's fields."""
    port: str = "broker"
    body: bytes = b""


def _send(name: str) -> dict[str, object]:
    return {
        "producerGroup": "producers",
        "topic": "orders",
        "defaultTopic": "TBW102",
        "defaultTopicQueueNums": 4,
        "queueId": 0,
        "sysFlag": 0,
        "bornTimestamp": 1_700_000_000_000,
        "flag": 0,
        "properties": "",
        "reconsumeTimes": 0,
        "unitMode": False,
        "batch": False,
        "maxReconsumeTimes": 0,
    }


_LETTERS: Final = dict(zip(_send(""), "abcdefghijkml", strict=True))


def _of_send(asked: Asked, name: str, answer: dict[str, str]) -> Any:
    # The broker chooses a queue where none, or one below zero, is named.
    is_chosen = name not in ("queueId", "e") or asked.text == "-1"
    return "stored" if is_chosen else answer.get("queueId")


def _new_topic(name: str) -> dict[str, object]:
    return {
        "topic": name,
        "defaultTopic": "TBW102",
        "readQueueNums": 8,
        "writeQueueNums": 8,
        "perm": 6,
        "topicFilterType": "SINGLE_TAG",
        "topicSysFlag": 0,
        "order": False,
    }


def _of_new_topic(asked: Asked, name: str, answer: dict[str, str]) -> Any:
    code, found = asked.ask(351, topic=asked.name)
    return code if code else found.get(name, "known")


def _commit(name: str) -> dict[str, object]:
    return {"consumerGroup": GROUP, "topic": TOPIC, "queueId": 0, "commitOffset": 3}


def _of_commit(asked: Asked, name: str, answer: dict[str, str]) -> Any:
    number = asked.text if name == "queueId" else 0
    code, found = asked.fields(14, consumerGroup=GROUP, topic=TOPIC, queueId=number)
    return code if code else found.get("offset")


def _of_broker(asked: Asked, name: str, answer: dict[str, str]) -> Any:
    _, found = asked.ask(106)
    broker = found["brokerAddrTable"].get(asked.name)
    return None if broker is None else {str(k): "at" for k in broker["brokerAddrs"]}


HEADERS: Final = (
    Header("send", 10, _send, tuple(_send("")), _of_send, body=b"body"),
    Header(
        "send in letters",
        310,
        lambda name: {_LETTERS[key]: value for key, value in _send(name).items()},
        ("e", "g", "k"),
        _of_send,
        body=b"body",
    ),
    Header(
        "new topic",
        17,
        _new_topic,
        ("readQueueNums", "perm", "topicFilterType", "topicSysFlag", "order"),
        _of_new_topic,
    ),
    Header("commit", 15, _commit, ("queueId", "commitOffset"), _of_commit),
    Header(
        "broker", 103, _broker_fields, ("brokerId", "bodyCrc32", "compressed"), _of_broker, "names"
    ),
)

FRAME: Final = (
    "code",
    "extFields",
    "flag",
    "language",
    "opaque",
    "remark",
    "serializeTypeCurrentRPC",
    "unknown",
    "version",
)
"""Members of a request's header, which are written in other types, too."""


def frame(name: str) -> tuple[dict[str, Any], bytes]:
    """A header, member by member, and its body: a heartbeat, for which a server shows these."""
    members = {
        "code": 34,
        "extFields": {},
        "flag": 0,
        "language": "JAVA",
        "opaque": 1,
        "serializeTypeCurrentRPC": "JSON",
        "version": 479,
    }
    return members, json.dumps(_heartbeat(name)).encode()


def of_frame(asked: Asked, name: str) -> Any:
    """The language and the version that the server has read."""
    code, found = asked.ask(203, consumerGroup=asked.name)
    if code:
        return code
    return [[each.get(key) for key in ("language", "version")] for each in _named(found)]


BODIES: Final = (_HEARTBEAT, _LOCKS, _GROUP_BODY, _TOPICS, _REGISTRATION)
