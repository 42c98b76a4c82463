"""Sound requests of every kind that a broker answers, for tests that cut, mutate or repeat them.

The kinds go through the life of two clients: a producer that sends, asks and ends transactions,
and a consumer that joins, pulls, commits, fails and leaves. Numbers in them fit a new store.
"""

from __future__ import annotations

from collections.abc import Iterable

import attrs
from wirepeer import message

from reput_client.remoting import (
    Ack,
    AckedQueue,
    AssignmentOf,
    BatchEntry,
    ChangeInvisible,
    Command,
    ConsumerData,
    ConsumeStatsOf,
    CreateTopic,
    EndTransaction,
    GroupNamed,
    GroupOf,
    GroupOffset,
    Heartbeat,
    ModeOf,
    Notification,
    OffsetByTime,
    PollingInfo,
    Pop,
    ProducerGroupOf,
    Pull,
    PullFlag,
    Query,
    QueueLocks,
    QueueName,
    QueueOf,
    RequestCode,
    SendBack,
    Subscription,
    TopicOf,
    Unregister,
    UpdateGroupOffset,
    View,
    encode_acks,
    encode_batch,
    write_body,
)

TOPIC = "orders"
GROUP = "billing"
CLIENT = "client-1"
COMMIT = 8
SENDS = frozenset(
    {
        RequestCode.SEND_MESSAGE,
        RequestCode.SEND_MESSAGE_V2,
        RequestCode.SEND_BATCH_MESSAGE,
        RequestCode.SEND_REPLY_MESSAGE,
        RequestCode.SEND_REPLY_MESSAGE_V2,
    }
)


def heartbeat(client_id: str = CLIENT, *, group: str = GROUP, expression: str = "*") -> bytes:
    """The body of a heartbeat of a client that produces and consumes."""
    wants = Subscription(topic=TOPIC, expression=expression, version=1)
    data = ConsumerData(group=group, subscriptions=(wants,))
    return Heartbeat(client_id=client_id, producer_groups=("p",), consumers=(data,)).encode()


def pull(queue_offset: int = 0, *, hold_ms: int = 0, **options: object) -> Pull:
    """The header of a pull, which waits if ``hold_ms`` says so."""
    flags = PullFlag.SUBSCRIPTION | (PullFlag.SUSPEND if hold_ms else 0)
    found = Pull(
        consumer_group=GROUP,
        topic=TOPIC,
        queue_id=0,
        queue_offset=queue_offset,
        max_msg_nums=32,
        sys_flag=flags,
        commit_offset=0,
        suspend_timeout_millis=hold_ms,
        subscription="*",
        sub_version=0,
    )
    return attrs.evolve(found, **options)


def commands() -> list[Command]:
    """Requests of all kinds, in an order in which a client may send them."""
    batch = encode_batch([BatchEntry(b"one", b"KEYS\x01k\x02"), BatchEntry(b"two")])
    locks = QueueLocks(
        group=GROUP, client_id=CLIENT, queues=frozenset({QueueName(TOPIC, "broker-a", 0)})
    ).encode()
    half = message(TOPIC, properties="TRAN_MSG\x01true\x02PGROUP\x01p\x02UNIQ_KEY\x01U\x02")
    reply = message(TOPIC, properties="REPLY_TO_CLIENT\x01nobody\x02")
    wanted = {"topic": TOPIC, "subString": "a > 1", "expressionType": "SQL92"}
    short = message(TOPIC, properties="KEYS\x01k\x02UNIQ_KEY\x01V\x02")
    settings = {"groupName": "other", "retryQueueNums": 1}
    codes = RequestCode
    return [
        Command.request(codes.HEART_BEAT, body=heartbeat()),
        Command.request(codes.SEND_MESSAGE, short.spelled_out(), body=b"long names"),
        Command.request(codes.SEND_MESSAGE_V2, short, body=b"letters"),
        Command.request(codes.SEND_BATCH_MESSAGE, message(TOPIC), body=batch),
        Command.request(codes.SEND_MESSAGE_V2, half, body=b"half"),
        Command.request(codes.END_TRANSACTION, _end()),
        Command.request(codes.SEND_REPLY_MESSAGE, reply.spelled_out(), body=b"reply"),
        Command.request(codes.SEND_REPLY_MESSAGE_V2, reply, body=b"reply"),
        Command.request(codes.PULL_MESSAGE, pull()),
        Command.request(codes.LITE_PULL_MESSAGE, pull()),
        Command.request(codes.PULL_MESSAGE, pull(hold_ms=20_000, queue_id=1)),
        Command.request(codes.QUERY_MESSAGE, _query()),
        Command.request(codes.VIEW_MESSAGE_BY_ID, View(offset=0)),
        Command.request(codes.QUERY_CONSUMER_OFFSET, _group_offset()),
        Command.request(codes.UPDATE_CONSUMER_OFFSET, _commit()),
        Command.request(codes.SEARCH_OFFSET_BY_TIMESTAMP, _by_time()),
        *(Command.request(code, QueueOf(topic=TOPIC, queue_id=0)) for code in _OF_QUEUES),
        Command.request(codes.GET_CONSUMER_LIST_BY_GROUP, GroupOf(consumer_group=GROUP)),
        Command.request(codes.LOCK_BATCH_MQ, body=locks),
        Command.request(codes.UNLOCK_BATCH_MQ, body=locks),
        Command.request(codes.CHECK_CLIENT_CONFIG, body=write_body({"subscriptionData": wanted})),
        Command.request(codes.CONSUMER_SEND_MSG_BACK, _send_back()),
        Command.request(codes.UPDATE_AND_CREATE_TOPIC, _topic()),
        Command.request(codes.GET_ALL_TOPIC_CONFIG),
        *(Command.request(code, TopicOf(topic=TOPIC)) for code in _OF_TOPICS),
        Command.request(codes.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=write_body(settings)),
        Command.request(codes.GET_ALL_SUBSCRIPTIONGROUP_CONFIG),
        Command.request(codes.GET_SUBSCRIPTIONGROUP_CONFIG, GroupNamed(group=GROUP)),
        Command.request(codes.GET_CONSUMER_CONNECTION_LIST, GroupOf(consumer_group=GROUP)),
        Command.request(codes.GET_PRODUCER_CONNECTION_LIST, ProducerGroupOf(producer_group="p")),
        Command.request(codes.GET_CONSUME_STATS, ConsumeStatsOf(consumer_group=GROUP)),
        Command.request(codes.GET_BROKER_RUNTIME_INFO),
        Command.request(codes.UNREGISTER_CLIENT, _leave()),
    ]


_OF_QUEUES = (
    RequestCode.GET_MAX_OFFSET,
    RequestCode.GET_MIN_OFFSET,
    RequestCode.GET_EARLIEST_MSG_STORETIME,
)
_OF_TOPICS = (
    RequestCode.GET_TOPIC_CONFIG,
    RequestCode.GET_TOPIC_STATS_INFO,
    RequestCode.QUERY_TOPIC_CONSUME_BY_WHO,
)


def is_held(command: Command) -> bool:
    """Whether a request is answered only when a message comes, which none of these brings."""
    return command.fields.get("suspendTimeoutMillis", "0") != "0"


def numbered(found: Iterable[Command]) -> list[Command]:
    """Give requests the numbers by which their answers are told apart."""
    return [attrs.evolve(each, opaque=number) for number, each in enumerate(found, 1)]


def _end() -> EndTransaction:
    return EndTransaction(
        producer_group="p",
        tran_state_table_offset=0,
        commit_log_offset=0,
        commit_or_rollback=COMMIT,
    )


def _query() -> Query:
    return Query(topic=TOPIC, key="k", max_num=8, begin_timestamp=0, end_timestamp=1 << 60)


def _group_offset() -> GroupOffset:
    return GroupOffset(consumer_group=GROUP, topic=TOPIC, queue_id=0)


def _commit() -> UpdateGroupOffset:
    return UpdateGroupOffset(consumer_group=GROUP, topic=TOPIC, queue_id=0, commit_offset=1)


def _by_time() -> OffsetByTime:
    return OffsetByTime(topic=TOPIC, queue_id=0, timestamp=1_700_000_000_000)


def _send_back() -> SendBack:
    return SendBack(offset=0, group=GROUP, delay_level=3, max_reconsume_times=16)


def _topic() -> CreateTopic:
    return CreateTopic(topic="made", read_queue_nums=2, write_queue_nums=2, perm=6)


def pops() -> list[Command]:
    """Requests of a client that pops; most of their codes need a JSON header."""
    codes, place = RequestCode, {"consumer_group": "pops", "topic": TOPIC, "queue_id": -1}
    pop = Pop(
        **place,
        max_msg_nums=32,
        invisible_time=1_000,
        poll_time=0,
        init_mode=0,
        exp="*",
        exp_type="TAG",
    )
    handle = {**place, "queue_id": 0, "offset": 0, "extra_info": "0 1700000000000 1000 0 0 b 0 0"}
    acked = AckedQueue(
        group="pops",
        topic=TOPIC,
        kind="0",
        queue_id=0,
        pop_time=1_700_000_000_000,
        revive_qid=0,
        queue_offsets=(0, 3),
    )
    member = AssignmentOf(topic=TOPIC, group="pops", client_id=CLIENT, strategy="AVG")
    return [
        Command.request(codes.POP_MESSAGE, pop),
        Command.request(codes.POP_MESSAGE, attrs.evolve(pop, poll_time=20_000, order=True)),
        Command.request(codes.ACK_MESSAGE, Ack(**handle)),
        Command.request(codes.BATCH_ACK_MESSAGE, body=encode_acks("b", [acked])),
        Command.request(
            codes.CHANGE_MESSAGE_INVISIBLETIME, ChangeInvisible(**handle, invisible_time=0)
        ),
        Command.request(codes.NOTIFICATION, Notification(**place, poll_time=1_000)),
        Command.request(codes.POLLING_INFO, PollingInfo(**place)),
        Command.request(codes.QUERY_ASSIGNMENT, body=member.encode()),
        Command.request(
            codes.SET_MESSAGE_REQUEST_MODE,
            body=ModeOf(topic=TOPIC, group="pops", pops=True).encode(),
        ),
    ]


def _leave() -> Unregister:
    return Unregister(client_id=CLIENT, producer_group="p", consumer_group=GROUP)
