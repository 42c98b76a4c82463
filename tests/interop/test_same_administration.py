"""A real broker and our server answer the same to operators, request by request."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from realbroker import RocketMQ
from wirepeer import WirePeer, message

import reput
from reput_client.remoting import (
    CloneOffsets,
    Command,
    ConsumeTimesOf,
    CorrectionOf,
    CreateTopic,
    DeleteGroup,
    GroupNamed,
    GroupOffset,
    QueueEntries,
    RequestCode,
    ResetOffset,
    RunningInfo,
    TopicOf,
    UpdateGroupOffset,
    parse_body,
    write_body,
)
from reput_server import ServerConfig, serving

PLUGINS = frozenset({"consumequeue", "consumer", "schedule"})
SMALL = {"commitlog": {"file_size": 1 << 20}, "consumequeue": {"units_per_file": 1_000}}
TIMES = {
    "consumeTimeStamp",
    "consumeTimeStampStr",
    "delayTime",
    "lastUpdateTimestamp",
    "maxTimeStamp",
    "maxTimeStampStr",
    "minTimeStamp",
    "minTimeStampStr",
    "timestamp",
}
OWN = {"dataVersion", "brokerAddr", "physicOffset", "physicSize"}
"""Members that say of whom, and where: a real broker adds properties to what it stores."""
UNSET = "not set any response code"
"""The remark of answers whose code a real broker has forgotten to set."""


@pytest.fixture
def both(newest: RocketMQ, tmp_path: Path) -> Iterator[tuple[WirePeer, WirePeer]]:
    """Connections to a real broker and to our server, both without a topic."""
    config = ServerConfig(listen=("127.0.0.1", 0), name_server=("127.0.0.1", 0))
    with (
        newest.name_server(tmp_path / "names") as names,
        newest.broker(tmp_path / "broker", names.address) as broker,
        reput.open(tmp_path / "store", plugins=PLUGINS, config=SMALL) as store,
        serving(store, config) as server,
        WirePeer(("127.0.0.1", broker.port), 60) as real,
        WirePeer(server.address, 60) as own,
    ):
        yield real, own


def wait_for(peer: WirePeer, count: int) -> None:
    """Wait until the queue has its messages."""
    for _ in range(2_000):
        answer = peer.ask(RequestCode.GET_TOPIC_STATS_INFO, TopicOf(topic="orders"))
        table = parse_body(answer.body, "stats")["offsetTable"]
        if sum(each["maxOffset"] for each in table.values()) == count:
            return
    raise AssertionError("the messages do not come into their queue")


def prepare(peer: WirePeer) -> None:
    """Five messages in one of two queues; of them one group has read three, the other one."""
    create = CreateTopic(topic="orders", read_queue_nums=2, write_queue_nums=2, perm=6)
    assert peer.ask(RequestCode.UPDATE_AND_CREATE_TOPIC, create).code == 0
    for number in range(5):
        sent = peer.ask(RequestCode.SEND_MESSAGE_V2, message("orders"), body=b"%d" % number)
        assert sent.code == 0, sent.remark
    wait_for(peer, 5)
    for group, offset in (("billing", 3), ("audit", 1)):
        code = RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP
        assert peer.ask(code, body=write_body({"groupName": group})).code == 0
        for queue_id in range(2):
            header = UpdateGroupOffset(
                consumer_group=group,
                topic="orders",
                queue_id=queue_id,
                commit_offset=0 if queue_id else offset,
            )
            assert peer.ask(RequestCode.UPDATE_CONSUMER_OFFSET, header).code == 0


def reset(timestamp: int, **options: Any) -> tuple[int, ResetOffset]:
    wanted = {"topic": "orders", "group": "billing", "is_force": True, **options}
    header = ResetOffset(timestamp=timestamp, **wanted)
    return RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, header


def offset_of(group: str, queue_id: int = 0) -> tuple[int, GroupOffset]:
    header = GroupOffset(
        consumer_group=group, topic="orders", queue_id=queue_id, set_zero_if_not_found=False
    )
    return RequestCode.QUERY_CONSUMER_OFFSET, header


def commit(group: str, offset: int) -> tuple[int, UpdateGroupOffset]:
    header = UpdateGroupOffset(
        consumer_group=group, topic="orders", queue_id=0, commit_offset=offset
    )
    return RequestCode.UPDATE_CONSUMER_OFFSET, header


SCRIPT: list[tuple[int, object]] = [
    (RequestCode.QUERY_CONSUME_TIME_SPAN, ConsumeTimesOf(topic="orders", group="billing")),
    (RequestCode.QUERY_CONSUME_TIME_SPAN, ConsumeTimesOf(topic="none", group="billing")),
    (
        RequestCode.QUERY_CORRECTION_OFFSET,
        CorrectionOf(topic="orders", compare_group="billing"),
    ),
    (RequestCode.QUERY_CORRECTION_OFFSET, CorrectionOf(topic="orders", compare_group="audit")),
    (RequestCode.QUERY_TOPICS_BY_CONSUMER, GroupNamed(group="billing")),
    (RequestCode.QUERY_TOPICS_BY_CONSUMER, GroupNamed(group="none")),
    (
        RequestCode.QUERY_SUBSCRIPTION_BY_CONSUMER,
        GroupNamed(group="billing", topic="orders"),
    ),
    (
        RequestCode.QUERY_CONSUME_QUEUE,
        QueueEntries(topic="orders", queue_id=0, index=1, count=3),
    ),
    (
        RequestCode.QUERY_CONSUME_QUEUE,
        QueueEntries(topic="orders", queue_id=0, index=1, count=1, consumer_group="billing"),
    ),
    (
        RequestCode.CLONE_GROUP_OFFSET,
        CloneOffsets(src_group="billing", dest_group="third", topic="orders", offline=False),
    ),
    offset_of("third"),
    (
        RequestCode.CLONE_GROUP_OFFSET,
        CloneOffsets(src_group="billing", dest_group="fourth", topic="none", offline=True),
    ),
    offset_of("fourth"),
    reset(0),
    offset_of("billing"),
    commit("billing", 4),
    offset_of("billing"),
    reset(-1),
    offset_of("billing"),
    reset(1 << 50),
    reset(0, queue_id=0, offset=2),
    offset_of("billing"),
    reset(0, queue_id=1, offset=-1),
    reset(0, queue_id=0, offset=99),
    reset(0, topic="none"),
    reset(0, group="none"),
    (
        RequestCode.GET_CONSUMER_RUNNING_INFO,
        RunningInfo(consumer_group="billing", client_id="me", jstack_enable=False),
    ),
    commit("audit", 1),
    (RequestCode.DELETE_SUBSCRIPTIONGROUP, DeleteGroup(group_name="audit", clean_offset=False)),
    offset_of("audit"),
    (RequestCode.DELETE_SUBSCRIPTIONGROUP, DeleteGroup(group_name="audit", clean_offset=True)),
    offset_of("audit"),
    (RequestCode.DELETE_SUBSCRIPTIONGROUP, DeleteGroup(group_name="none", clean_offset=True)),
    (RequestCode.DELETE_TOPIC_IN_BROKER, TopicOf(topic=" ")),
    (RequestCode.DELETE_TOPIC_IN_BROKER, TopicOf(topic="SCHEDULE_TOPIC_XXXX")),
    (RequestCode.DELETE_TOPIC_IN_BROKER, TopicOf(topic="none")),
    (RequestCode.CLEAN_UNUSED_TOPIC, None),
    (RequestCode.CLEAN_EXPIRED_CONSUMEQUEUE, None),
    (RequestCode.DELETE_EXPIRED_COMMITLOG, None),
    (RequestCode.DELETE_TOPIC_IN_BROKER, TopicOf(topic="orders")),
    (RequestCode.GET_TOPIC_CONFIG, TopicOf(topic="orders")),
    (RequestCode.GET_TOPIC_STATS_INFO, TopicOf(topic="orders")),
    commit("billing", 1),
    offset_of("third"),
    (RequestCode.QUERY_TOPIC_CONSUME_BY_WHO, TopicOf(topic="orders")),
]


def shown(answer: Command) -> dict[str, object]:
    body = parse_body(answer.body, "answer") if answer.body else None
    return {
        "code": answer.code,
        "remark": None if answer.remark == UNSET else answer.remark,
        "fields": dict(answer.fields),
        "body": _without_times(body),
    }


def _without_times(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {
            key: _time(each) if key in TIMES else _without_times(each)
            for key, each in value.items()
            if key not in OWN
        }
    if isinstance(value, list):
        found = [_without_times(each) for each in value]
        return sorted(found, key=repr)
    return value


def _time(value: int | str) -> int | str:
    """Only whether it is one, and its form."""
    if isinstance(value, str):
        return "-" if value.startswith(("1969", "1970")) else re.sub(r"\d", "0", value)
    return 1 if value > 0 else value


def test_operators_get_the_same_answers(both: tuple[WirePeer, WirePeer]):
    real, own = both
    for peer in both:
        prepare(peer)

    differences = []
    for code, header in SCRIPT:
        wanted, found = (shown(peer.ask(code, header)) for peer in (real, own))
        if wanted != found:
            differences.append((RequestCode(code).name, header, wanted, found))

    assert not differences, "\n".join(map(repr, differences))
