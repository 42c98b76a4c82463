"""Records of transactions, byte by byte, beside an encoder that knows nothing of the plugin."""

from __future__ import annotations

import binascii
import struct

import pytest

import reput
from reput.errors import MessageIllegalError
from reput_testing import ManualClock
from reput_testing.logs.clock import NOON
from reput_transaction import TransactionConfig, TransactionPlugin
from reput_transaction.messages.opmessages import op_messages, parse_op_body

HALF = "RMQ_SYS_TRANS_HALF_TOPIC"
OP = "RMQ_SYS_TRANS_OP_HALF_TOPIC"
HOST = bytes([127, 0, 0, 1]) + struct.pack(">i", 10_911)
BORN = bytes([10, 0, 0, 7]) + struct.pack(">i", 5_000)
KEY = "7F00000100002A139A1857C5D7A10000"


def encoded(
    topic,
    body,
    properties,
    *,
    queue_id=0,
    flag=0,
    queue_offset=0,
    physical_offset=0,
    sys_flag=0,
    born=NOON,
    born_host=HOST,
    reconsume_times=0,
    prepared=0,
):
    crc = binascii.crc32(body) & 0x7FFFFFFF if body else 0
    name = topic.encode()
    size = 91 + len(body) + len(name) + len(properties)
    head = struct.pack(">iIiiiqqiq", size, 0xDAA320A7, crc, queue_id, flag, queue_offset,
                       physical_offset, sys_flag, born)  # fmt: skip
    hosts = born_host + struct.pack(">q", NOON) + HOST
    tail = struct.pack(">iqi", reconsume_times, prepared, len(body)) + body
    return (
        head + hosts + tail + bytes([len(name)]) + name + struct.pack(">h", len(properties))
    ) + properties


def text(**properties):
    return "".join(f"{name}\x01{value}\x02" for name, value in properties.items()).encode()


@pytest.fixture
def store(tmp_path):
    config = {"commitlog": {"file_size": 65_536}}
    plugins = ["consumequeue", "transaction"]
    with reput.open(
        tmp_path, plugins=plugins, config=config, clock=ManualClock(), threads=False
    ) as opened:
        yield opened


def transactional(**properties):
    return reput.Message(
        "orders",
        b"body",
        3,
        tags="paid",
        keys="k1",
        flag=7,
        sys_flag=0x1,
        born_timestamp=NOON - 5,
        born_host=("10.0.0.7", 5_000),
        properties={"TRAN_MSG": "true", "PGROUP": "g", **properties},
    )


SENT = {"KEYS": "k1", "TAGS": "paid", "TRAN_MSG": "true", "PGROUP": "g"}
PARKED = {"REAL_TOPIC": "orders", "REAL_QID": "3"}


def test_a_half_message_is_parked_as_rocketmq_parks_it(store):
    store.put(reput.Message("first", b""))
    receipt = store.put(transactional(UNIQ_KEY=KEY))

    properties = text(**SENT, UNIQ_KEY=KEY, **PARKED, __transactionId__=KEY)
    expected = encoded(
        HALF,
        b"body",
        properties,
        flag=7,
        sys_flag=0x1,
        physical_offset=receipt.physical_offset,
        born=NOON - 5,
        born_host=BORN,
    )
    assert store.get(receipt.physical_offset).record == expected
    assert (receipt.topic, receipt.queue_id, receipt.queue_offset) == (HALF, 0, 0)


def test_a_commit_keeps_all_properties_and_points_back(store):
    half = store.put(transactional())
    store.put(reput.Message("orders", b"before", 3))

    receipt = store.plugin("transaction").commit(half.msg_id)

    expected = encoded(
        "orders",
        b"body",
        text(**SENT, **PARKED),
        queue_id=3,
        flag=7,
        queue_offset=1,
        sys_flag=0x9,
        physical_offset=receipt.physical_offset,
        born=NOON - 5,
        born_host=BORN,
        prepared=half.physical_offset,
    )
    assert store.get(receipt.physical_offset).record == expected


def test_a_rollback_is_an_op_marker_and_nothing_else(store):
    halves = [store.put(transactional()) for _ in range(3)]
    end = store.log.max_physical_offset

    receipt = store.plugin("transaction").rollback(halves[2].msg_id)

    expected = encoded(OP, b"2,", text(WAIT="true", TAGS="d"), physical_offset=end)
    assert store.get(end).record == expected
    assert store.log.max_physical_offset == receipt.end_offset == end + len(expected)


def test_markers_of_commits_are_written_together_once_they_are_on_disk(store):
    clock = store.plugin_objects["transaction"]._engine.context.clock
    halves = [store.put(transactional()) for _ in range(3)]
    for half in halves:
        store.plugin("transaction").commit(half.physical_offset)
    end = store.log.max_physical_offset

    due = store.work()
    assert due == clock() + 3_000
    clock.now = due
    store.work()

    assert store.log.flushed_offset >= end
    expected = encoded(OP, b"0,1,2,", text(WAIT="true", TAGS="d"), physical_offset=end)
    found = bytearray(store.get(end).record)
    found[56:64] = struct.pack(">q", NOON)  # stored three seconds later, and born then
    found[40:48] = struct.pack(">q", NOON)
    assert bytes(found) == expected


def test_with_ipv6_hosts_the_flags_of_a_commit_are_those_of_the_hosts_and_the_commit(tmp_path):
    config = {"commitlog": {"file_size": 65_536, "store_address": "[fe80::1]:10911"}}
    with reput.open(
        tmp_path, plugins=["consumequeue", "transaction"], config=config, threads=False
    ) as store:
        message = reput.Message("orders", b"", born_host=("2001:db8::1", 50_000))
        half = store.plugin("transaction").prepare(message)
        receipt = store.plugin("transaction").commit(half)

        assert half.record.sys_flag == 0x30
        assert store.get(receipt.physical_offset).sys_flag == 0x38


@pytest.mark.parametrize(
    ("value", "is_parked"), [("true", True), ("TRUE", True), ("tRue", True), ("false", False),
                             ("yes", False), (" true", False), ("", False)],
)  # fmt: skip
def test_the_mark_counts_in_any_case_and_as_a_whole(store, value, is_parked):
    receipt = store.put(reput.Message("orders", b"", properties={"TRAN_MSG": value}))

    assert (receipt.topic == HALF) is is_parked


def test_what_is_no_transaction_is_stored_as_it_is(store):
    mark = {"TRAN_MSG": "true"}
    untouched = [
        reput.Message("orders", b"retried", properties={**mark, "DELAY": "3"}, reconsume_times=1),
        reput.Message("orders", b"prepared", properties=mark, sys_flag=0x4),
        reput.Message("orders", b"committed", properties=mark, sys_flag=0x8),
        reput.Message("orders", b"rolled back", properties=mark, sys_flag=0xC),
        reput.Message(HALF, b"a half that is copied", properties=mark),
        reput.Message("orders", b"encoded", properties=b"XTRAN_MSG\x01true\x02"),
    ]
    parked = [
        reput.Message("orders", b"", properties={**mark, "DELAY": "3"}),
        reput.Message("orders", b"", properties=mark, reconsume_times=1),
        reput.Message("orders", b"", properties={**mark, "DELAY": "x"}, reconsume_times=1),
        reput.Message("orders", b"", properties=b"a\x01b\x02TRAN_MSG\x01True"),
    ]

    receipt = store.put_many(untouched + parked)

    assert list(receipt.topics) == [message.topic for message in untouched] + [HALF] * 4


def test_what_could_never_be_committed_is_refused_at_once(store):
    mark = {"TRAN_MSG": "true"}
    for message in (
        reput.Message("no topic", b"", properties=mark),
        reput.Message("orders", b"", -1, properties=mark),
        reput.Message("orders", b"", properties={**mark, "a\x01b": "c"}),
    ):
        with pytest.raises(MessageIllegalError):
            store.put(message)
    with pytest.raises(MessageIllegalError, match="transactions are made of it"):
        store.plugin("transaction").prepare(reput.Message(OP, b"5"))
    assert store.log.max_physical_offset == 0


def test_a_light_put_costs_no_copy(tmp_path):
    plugin = TransactionPlugin(TransactionConfig())

    assert (
        plugin.reput_put([reput.Message("orders", b""), reput.Message("a", b"", tags="b")]) is None
    )


# --------------------------------------------------------------------------- op bodies


def test_op_bodies_are_those_of_the_releases():
    assert [m.body.hex() for m in op_messages([5, 6, 7], batched=True)] == ["352c362c372c"]
    assert [m.body.hex() for m in op_messages([5, 6], batched=False)] == ["35", "36"]


def test_a_batched_op_message_is_filled_until_it_has_its_size():
    bodies = [m.body for m in op_messages(range(100, 110), batched=True, body_size=10)]

    assert bodies == [b"100,101,102,", b"103,104,105,", b"106,107,108,", b"109,"]


@pytest.mark.parametrize(
    ("body", "offsets"),
    [
        (b"5", [5]),
        (b"5,6,7,", [5, 6, 7]),
        (b"", []),
        (b",,,", []),
        (b"3,x,-1,+2, 4,1.5,\xff,8", [3, 8]),
        (b"9223372036854775807,99999999999999999999", [9223372036854775807]),
        ("٣,4".encode(), [4]),
        (b"7\x00,8", [8]),
    ],
)
def test_op_bodies_of_all_releases_are_read_and_nonsense_is_passed_over(body, offsets):
    assert parse_op_body(body) == offsets
