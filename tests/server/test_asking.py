"""Queries by key, views of one message, ends of transactions, replies to who asked."""

from __future__ import annotations

import threading
import time

import attrs
import pytest
from wirepeer import message, views

import reput
from reput_client.remoting import (
    CheckTransaction,
    EndTransaction,
    Heartbeat,
    PushReply,
    Query,
    QueryAnswer,
    RequestCode,
    ResponseCode,
    SendShort,
    View,
)

SEND = RequestCode.SEND_MESSAGE_V2
COMMIT, ROLLBACK, UNKNOWN = 8, 12, 0


# --------------------------------------------------------------------------- by key, by place


def query(key, **options):
    asked = Query(topic="orders", key=key, max_num=10, begin_timestamp=0, end_timestamp=1 << 60)
    return attrs.evolve(asked, **options)


def test_messages_are_found_by_key_and_by_their_own_id(served):
    peer = served.peer()
    for at in range(3):
        properties = f"KEYS\x01k{at % 2} all\x02UNIQ_KEY\x01U{at}\x02"
        peer.ask(SEND, message("orders", properties=properties), body=b"%d" % at)
    served.store.wait_dispatched()

    both = peer.ask(RequestCode.QUERY_MESSAGE, query("k0"))
    few = peer.ask(RequestCode.QUERY_MESSAGE, query("all", max_num=2))
    one = peer.ask(RequestCode.QUERY_MESSAGE, query("U1"), more={"_UNIQUE_KEY_QUERY": "true"})

    assert sorted(each.body for each in views(both)) == [b"0", b"2"]
    assert len(views(few)) == 2
    assert [each.body for each in views(one)] == [b"1"]
    header = both.header(QueryAnswer)
    assert header.index_last_update_phyoffset == served.store.log.max_physical_offset
    assert header.index_last_update_timestamp == max(e.store_timestamp for e in views(both))


def test_messages_are_found_by_their_tags_and_after_the_last_one(serve):
    served = serve(sections={"index": {"tags": True}})
    served.store.put_many(
        [reput.Message("orders", b"%02d" % at, tags="ab"[at % 2], keys="a") for at in range(80)]
    )
    served.store.wait_dispatched()
    peer = served.peer()
    offsets = [int(at) for batch in served.store.scan() for at in batch.physical_offset]

    def bodies(**options):
        answer = peer.ask(RequestCode.QUERY_MESSAGE, query("a", **options))
        assert answer.code in (ResponseCode.SUCCESS, ResponseCode.QUERY_NOT_FOUND)
        return [int(each.body) for each in views(answer)]

    def key_of(at):
        return f"1795896000000@orders@T@a@U@{offsets[at]}"

    assert bodies(max_num=30, index_type="T") == list(range(20, 80, 2))
    assert bodies(max_num=30, index_type="T", last_key=key_of(2)) == list(range(4, 64, 2))
    assert bodies(max_num=30, index_type="T", last_key=key_of(78)) == []
    assert bodies(max_num=30, index_type="T", last_key="0@orders@T") == []
    assert bodies(max_num=3, index_type="K", last_key=key_of(2)) == [3, 4, 5]
    assert bodies(max_num=3, index_type="K") == [77, 78, 79]


@pytest.mark.parametrize(("size", "count"), [(10, 100), (200_000, 41)])
def test_many_messages_with_one_key_are_searched_a_few_at_a_time(served, monkeypatch, size, count):
    limits, original = [], reput.Store.query

    def noted(store, topic, key, begin, end, limit, **options):
        limits.append(limit)
        return original(store, topic, key, begin, end, limit, **options)

    monkeypatch.setattr(reput.Store, "query", noted)
    served.store.put_many(
        [reput.Message("orders", b"%03d" % at + bytes(size), keys="k") for at in range(100)]
    )
    served.store.wait_dispatched()

    answer = served.peer().ask(RequestCode.QUERY_MESSAGE, query("k", max_num=1_000))

    newest = [b"%03d" % at for at in range(100 - count, 100)]
    assert [each.body[:3] for each in views(answer)] == newest
    assert max(limits) <= 16


def test_a_message_is_viewed_by_its_offset(served):
    peer = served.peer()
    sent = peer.ask(SEND, message("orders"), body=b"body")
    offset = int(sent.fields["msgId"][-16:], 16)

    (found,) = views(peer.ask(RequestCode.VIEW_MESSAGE_BY_ID, View(offset=offset)))

    assert found.body == b"body"
    for wrong in (offset + 1, 1 << 40, -1):
        answer = peer.ask(RequestCode.VIEW_MESSAGE_BY_ID, View(offset=wrong))
        assert answer.code == ResponseCode.SYSTEM_ERROR
        assert answer.remark == f"can not find message by the offset, {wrong}"


# --------------------------------------------------------------------------- transactions


def send_half(peer):
    properties = "TRAN_MSG\x01true\x02PGROUP\x01bank\x02UNIQ_KEY\x01U1\x02"
    born = time.time_ns() // 1_000_000  # an old one would be given up, and not asked about
    header = message("orders", 2, properties=properties, sys_flag=4, born_timestamp=born)
    return peer.ask(SEND, header, body=b"pay")


def produce(peer, client_id, group):
    body = Heartbeat(client_id=client_id, producer_groups=(group,)).encode()
    assert peer.ask(RequestCode.HEART_BEAT, body=body).code == 0


def end(sent, how, **options):
    asked = EndTransaction(
        producer_group="bank",
        tran_state_table_offset=int(sent.fields["queueOffset"]),
        commit_log_offset=int(sent.fields["msgId"][-16:], 16),
        commit_or_rollback=how,
    )
    return attrs.evolve(asked, **options)


def seen(served):
    served.store.wait_dispatched()
    return [each.body for each in served.store.read("orders", 2, 0)]


def test_a_half_message_that_is_rolled_back_is_never_seen(served):
    peer = served.peer()
    sent = send_half(peer)

    peer.ask(RequestCode.END_TRANSACTION, end(sent, ROLLBACK))
    again = peer.ask(RequestCode.END_TRANSACTION, end(sent, COMMIT))

    assert again.code == ResponseCode.SYSTEM_ERROR
    assert seen(served) == []


@pytest.mark.parametrize(
    ("code", "header", "said"),
    [
        (RequestCode.QUERY_MESSAGE, query("k"), "queries by key need the plugin index"),
        (
            RequestCode.QUERY_MESSAGE,
            query("k", index_type="T"),
            "queries by tag need the plugin index",
        ),
        (
            RequestCode.END_TRANSACTION,
            EndTransaction(
                producer_group="g",
                tran_state_table_offset=0,
                commit_log_offset=0,
                commit_or_rollback=8,
            ),
            "transactions need the plugin transaction",
        ),
    ],
)
def test_what_needs_a_plugin_says_so_with_the_command_that_adds_it(serve, code, header, said):
    served = serve(plugins=frozenset({"consumequeue", "consumer"}))

    answer = served.peer().ask(code, header)

    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert said in answer.remark
    assert f"reput backfill PATH {said.split()[-1]}" in answer.remark


def test_who_does_not_end_a_transaction_is_asked_about_it(serve):
    fast = {"transaction": {"timeout_ms": 1, "check_interval_ms": 20}}
    served = serve(sections=fast)
    peer = served.peer()
    produce(peer, "c", "bank")
    sent = send_half(peer)

    question = peer.told[0] if peer.told else peer.receive()

    header = question.header(CheckTransaction)
    (half,) = views(question)
    assert question.code == RequestCode.CHECK_TRANSACTION_STATE
    assert question.is_one_way
    assert (half.topic, half.queue_id, half.body, half.unique_key) == ("orders", 2, b"pay", "U1")
    assert half.body_matches()
    assert header.msg_id == "U1"
    assert header.offset_msg_id[-16:] == f"{header.commit_log_offset:016X}"
    assert half.properties["TRANSACTION_CHECK_TIMES"] == "1"
    # About the copy that counts the question, as a broker does.
    assert header.tran_state_table_offset == int(sent.fields["queueOffset"]) + 1
    answer = peer.ask(
        RequestCode.END_TRANSACTION,
        EndTransaction(
            producer_group="bank",
            tran_state_table_offset=header.tran_state_table_offset,
            commit_log_offset=header.commit_log_offset,
            commit_or_rollback=COMMIT,
            from_transaction_check=True,
        ),
    )
    assert answer.code == 0
    assert seen(served) == [b"pay"]


def test_the_programs_own_check_goes_first(serve):
    served = serve()
    plugin = served.store.plugin("transaction")

    def own(half):
        return None

    plugin.on_check(own, "bank")
    produce(served.peer(), "c", "bank")

    assert plugin.checks["bank"].ask is own


# --------------------------------------------------------------------------- replies


def reply(client_id):
    properties = f"REPLY_TO_CLIENT\x01{client_id}\x02CORRELATION_ID\x01c1\x02MSG_TYPE\x01reply\x02"
    return message("DefaultCluster_REPLY_TOPIC", properties=properties)


def test_a_reply_is_given_to_who_asked_and_stored(served):
    asking, replying = served.peer(), served.peer()
    asking.ask(
        RequestCode.HEART_BEAT, body=Heartbeat(client_id="me", producer_groups=("p",)).encode()
    )
    answers = []
    work = threading.Thread(
        target=lambda: answers.append(
            replying.ask(RequestCode.SEND_REPLY_MESSAGE_V2, reply("me"), body=b"yes")
        )
    )
    work.start()

    pushed = asking.receive()
    header = pushed.header(PushReply)
    from reput_client.remoting import encode_frame

    asking.socket.sendall(encode_frame(pushed.answer(ResponseCode.SUCCESS)))
    work.join(20)

    assert pushed.code == RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT
    assert pushed.body == b"yes"
    assert "CORRELATION_ID\x01c1\x02" in header.properties
    assert "PUSH_REPLY_TIME\x01" in header.properties
    assert header.born_host == "/{}:{}".format(*replying.socket.getsockname())
    assert answers[0].code == ResponseCode.SUCCESS
    served.store.wait_dispatched()
    assert len(served.store.read("DefaultCluster_REPLY_TOPIC", 0, 0)) == 1


def test_a_reply_to_nobody_is_stored_and_told(served):
    peer = served.peer()

    gone = peer.ask(RequestCode.SEND_REPLY_MESSAGE_V2, reply("nobody"), body=b"yes")
    plain = message("DefaultCluster_REPLY_TOPIC")
    without = peer.ask(RequestCode.SEND_REPLY_MESSAGE, plain.spelled_out(), body=b"yes")

    assert isinstance(plain, SendShort)
    assert {gone.code, without.code} == {ResponseCode.SYSTEM_ERROR}
    assert "channel of <nobody> not found" in gone.remark
    assert "REPLY_TO_CLIENT is null" in without.remark
    served.store.wait_dispatched()
    assert len(served.store.read("DefaultCluster_REPLY_TOPIC", 0, 0)) == 2
