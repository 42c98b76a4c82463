"""Transactions as an application uses them."""

from __future__ import annotations

import threading

import pytest

import reput
from reput.errors import FlushDiskTimeoutError, ReadOnlyStoreError
from reput_transaction import (
    OpenTransactionsError,
    TransactionEndedError,
    TransactionError,
    UnknownTransactionError,
)

HALF = "RMQ_SYS_TRANS_HALF_TOPIC"
OP = "RMQ_SYS_TRANS_OP_HALF_TOPIC"


def test_messages_of_a_block_are_seen_when_it_ends_and_not_before(steps):
    at = steps()

    with at.store.plugin("transaction").transaction(group="g") as transaction:
        transaction.put(reput.Message("orders", b"1", tags="t", keys=["k", "l"]))
        transaction.put_many([reput.Message("payments", b"2", 3), reput.Message("orders", b"3")])
        inside = at.bodies("orders"), at.bodies("payments", 3)

    assert inside == ([], [])
    assert (at.bodies("orders"), at.bodies("payments", 3)) == ([b"1", b"3"], [b"2"])
    first = at.read("orders")[0]
    assert (first.tags, first.keys) == ("t", ("k", "l"))
    assert first.properties["PGROUP"] == "g"
    assert first.properties["REPUT_TRANSACTION"] == transaction.id
    assert [receipt.topic for receipt in transaction.receipt] == ["orders", "payments", "orders"]


def test_light_queues_list_what_was_committed_once(tmp_path):
    config = {"commitlog": {"file_size": 1 << 20, "max_light_queues": 9}}
    light = {"INNER_MULTI_DISPATCH": "%LMQ%a"}
    plugins = ["consumequeue", "transaction"]
    with reput.open(tmp_path, plugins=plugins, config=config) as store:
        transactions = store.plugin("transaction")
        given_up = transactions.prepare(reput.Message("t", b"1", properties=light))
        transactions.rollback(given_up)
        transactions.commit(transactions.prepare(reput.Message("t", b"2", properties=light)))
        transactions.prepare(reput.Message("t", b"3", properties=light))
        store.wait_dispatched()

        assert [each.body for each in store.read("%LMQ%a", 0, 0)] == [b"2"]


def test_a_block_that_raises_leaves_nothing(steps):
    at = steps()

    def fail():
        with at.store.plugin("transaction").transaction() as transaction:
            transaction.put(reput.Message("orders", b"1"))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()

    assert at.bodies("orders") == []
    assert at.store.plugin("transaction").dangling() == []
    assert at.bodies(OP) == [b"0,"]


def test_an_empty_block_puts_nothing(steps):
    at = steps()
    with at.store.plugin("transaction").transaction() as transaction:
        pass
    with pytest.raises(ZeroDivisionError), at.store.plugin("transaction").transaction():
        raise ZeroDivisionError

    assert transaction.receipt is None
    assert at.store.log.max_physical_offset == 0


def test_a_transaction_that_is_ended_stays_so(steps):
    at = steps()
    with at.store.plugin("transaction").transaction() as transaction:
        transaction.put(reput.Message("orders", b"1"))
        transaction.roll_back()

    for call in (transaction.commit, transaction.roll_back):
        with pytest.raises(TransactionEndedError):
            call()
    with pytest.raises(TransactionEndedError):
        transaction.put(reput.Message("orders", b"2"))
    assert at.bodies("orders") == []


@pytest.mark.parametrize("by", ["half", "transaction id", "message id", "physical offset"])
@pytest.mark.parametrize("is_dispatched", [False, True])
def test_a_transaction_is_named_in_several_ways(steps, by, is_dispatched):
    at = steps()
    half = at.store.plugin("transaction").prepare(reput.Message("orders", b"a"))
    other = at.store.plugin("transaction").prepare(reput.Message("orders", b"b"))
    if is_dispatched:
        at.store.wait_dispatched()
    name = {
        "half": half,
        "transaction id": half.transaction_id,
        "message id": half.msg_id,
        "physical offset": half.physical_offset,
    }[by]

    receipt = at.store.plugin("transaction").commit(name)

    assert at.store.get(receipt.physical_offset).body == b"a"
    for end in (at.store.plugin("transaction").commit, at.store.plugin("transaction").rollback):
        with pytest.raises((TransactionEndedError, UnknownTransactionError)):
            end(name)
    at.store.plugin("transaction").rollback(other.transaction_id)
    assert at.bodies("orders") == [b"a"]


@pytest.mark.parametrize("name", ["nobody", "", "FF" * 16, "00" * 28, 17, -1])
def test_a_name_of_nothing_is_an_error_that_says_so(steps, name):
    at = steps()
    at.store.put(reput.Message("orders", b"a"))

    with pytest.raises(UnknownTransactionError) as raised:
        at.store.plugin("transaction").commit(name)

    assert repr(str(name)) in str(raised.value)


def test_one_message_of_a_transaction_takes_the_others_along(steps):
    at = steps()
    transaction = at.store.plugin("transaction").transaction()
    halves = transaction.put_many([reput.Message("orders", b"%d" % n) for n in range(3)])

    receipt = at.store.plugin("transaction").commit(halves[1].transaction_id)

    assert at.store.get(receipt.physical_offset).body == b"1"
    assert at.bodies("orders") == [b"0", b"1", b"2"]


def test_a_message_keeps_the_key_that_it_has(steps):
    at = steps()
    half = at.store.plugin("transaction").prepare(
        reput.Message("orders", b"", properties={"UNIQ_KEY": "mine"})
    )
    made = {
        at.store.plugin("transaction").prepare(reput.Message("orders", b"")).transaction_id
        for _ in range(1_000)
    }

    assert half.transaction_id == "mine"
    assert half.properties["__transactionId__"] == "mine"
    assert len(made) == 1_000
    assert all(len(key) == 32 and int(key, 16) for key in made)


def test_a_half_message_that_says_no_destination_can_only_be_rolled_back(steps):
    at = steps()
    for properties in (
        {"TRAN_MSG": "true"},
        {"REAL_TOPIC": "orders", "REAL_QID": "x"},
        {"REAL_TOPIC": HALF, "REAL_QID": "0"},
    ):
        receipt = at.store.put(reput.Message(HALF, b"", properties=properties))
        with pytest.raises(TransactionError, match="cannot be committed"):
            at.store.plugin("transaction").commit(receipt.msg_id)
        at.store.plugin("transaction").rollback(receipt.msg_id)

    assert at.store.plugin("transaction").dangling() == []


def test_a_read_only_store_shows_what_is_open_and_ends_nothing(steps):
    at = steps()
    half = at.store.plugin("transaction").prepare(reput.Message("orders", b"a"))
    at.store.flush()

    with reput.open(at.root, "r") as reader:
        seen = [found.transaction_id for found in reader.plugin("transaction").dangling()]
        with pytest.raises(ReadOnlyStoreError):
            reader.plugin("transaction").commit(half.transaction_id)
        with (
            pytest.raises(ReadOnlyStoreError),
            reader.plugin("transaction").transaction() as transaction,
        ):
            transaction.put(reput.Message("orders", b"b"))
        with pytest.raises(ReadOnlyStoreError):
            reader.plugin("transaction").on_check(lambda found: None)
        at.store.plugin("transaction").prepare(reput.Message("orders", b"b"))
        at.store.plugin("transaction").rollback(half)
        at.store.flush()
        later = [found.body for found in reader.plugin("transaction").dangling()]

    assert seen == [half.transaction_id]
    assert later == [b"b"]


def test_dangling_ones_are_chosen_by_group_and_age(steps):
    at = steps()
    at.store.plugin("transaction").prepare(reput.Message("orders", b"old"), group="a")
    at.clock.advance(5_000)
    at.store.plugin("transaction").prepare(reput.Message("orders", b"new"), group="b")

    assert [half.body for half in at.store.plugin("transaction").dangling(min_age_ms=5_000)] == [
        b"old"
    ]
    assert [half.body for half in at.store.plugin("transaction").dangling(group="b")] == [b"new"]
    assert at.store.plugin("transaction").dangling(group="c") == []


def test_the_head_of_the_log_is_held_for_what_is_open_and_not_too_old(steps):
    at = steps(keep_hours=1)
    plugin = at.store.plugin_objects["transaction"]
    at.store.put(reput.Message("orders", b""))
    half = at.store.plugin("transaction").prepare(reput.Message("orders", b"a"))
    at.store.wait_dispatched()

    assert plugin.reput_hold() == half.physical_offset
    at.clock.advance(3_600_001)
    assert plugin.reput_hold() is None
    later = at.store.plugin("transaction").prepare(reput.Message("orders", b"b"))
    at.store.wait_dispatched()
    assert plugin.reput_hold() == later.physical_offset
    assert at.store.report()["plugins"]["transaction"]["open_count"] == 2


@pytest.mark.shows("transaction")
def test_a_commit_that_a_crash_left_without_its_marker_gets_it_and_nothing_else(steps):
    at = steps()
    at.store.plugin("transaction").commit(
        at.store.plugin("transaction").prepare(reput.Message("orders", b"a"))
    )
    at.reopen()
    assert at.bodies(OP) == []

    at.work_for(10_000)

    assert at.bodies(OP) == [b"0,"]
    assert at.bodies("orders") == [b"a"]


def test_settling_writes_markers_at_once(steps):
    at = steps(automatic=False)
    for number in range(3):
        at.store.plugin("transaction").commit(
            at.store.plugin("transaction").prepare(reput.Message("orders", b"%d" % number))
        )
    at.work_for(60_000)
    assert at.bodies(OP) == []

    assert at.store.plugin("transaction").settle() == 3

    assert at.bodies(OP) == [b"0,1,2,"]
    assert at.store.plugin("transaction").settle() == 0


@pytest.mark.sizes(transaction={"op_batch_interval_ms": 0})
def test_single_markers_are_those_that_the_old_release_reads(steps):
    at = steps(op_messages="single")
    with at.store.plugin("transaction").transaction() as transaction:
        transaction.put_many([reput.Message("orders", b"%d" % n) for n in range(3)])
    at.work_for(10)

    assert at.bodies(OP) == [b"0", b"1", b"2"]


@pytest.mark.sizes(transaction={"op_message_size": 6})
def test_a_full_op_message_is_not_waited_for(steps):
    at = steps()
    for number in range(3):
        at.store.plugin("transaction").commit(
            at.store.plugin("transaction").prepare(reput.Message("orders", b"%d" % number))
        )
    at.store.wait_dispatched()

    at.store.work()

    assert at.bodies(OP) == [b"0,1,2,"]


def test_a_commit_of_several_waits_for_their_halves(steps):
    at = steps()
    with at.store.plugin("transaction").transaction() as transaction:
        transaction.put_many([reput.Message("orders", b"%d" % n) for n in range(2)])

    last = transaction.halves[-1]
    assert at.store.log.flushed_offset >= last.physical_offset + last.record.size


def test_transactions_are_on_disk_when_calls_return_where_puts_are(steps):
    at = steps(flush="sync")
    half = at.store.plugin("transaction").prepare(reput.Message("orders", b"a"))
    assert at.store.log.flushed_offset == at.store.log.max_physical_offset
    at.store.plugin("transaction").commit(half)
    assert at.store.log.flushed_offset == at.store.log.max_physical_offset


def test_a_disk_that_is_too_slow_leaves_a_commit_to_be_tried_again(steps, monkeypatch):
    at = steps()
    engine = at.store.plugin_objects["transaction"]._engine
    transaction = at.store.plugin("transaction").transaction()
    transaction.put_many([reput.Message("orders", b"%d" % n) for n in range(2)])
    with monkeypatch.context() as patch:
        patch.setattr(type(engine.context.store), "wait_flushed", lambda *_: False)
        with pytest.raises(FlushDiskTimeoutError):
            transaction.commit()
    assert at.bodies("orders") == []

    transaction.commit()

    assert at.bodies("orders") == [b"0", b"1"]


def test_more_open_ones_than_allowed_suspend_the_plugin_and_say_which_option(steps):
    at = steps(max_open=3)
    for number in range(4):
        at.store.plugin("transaction").prepare(reput.Message("orders", b"%d" % number))
    at.store.wait_dispatched(0.1)

    assert "max_open allows 3" in at.store.plugins()[1].last_error
    error = OpenTransactionsError(3, 3, 3)
    assert "raise it and resume" in str(error)


def test_threads_end_each_transaction_once(tmp_path):
    config = {"commitlog": {"file_size": 1 << 20}}
    with reput.open(tmp_path, plugins=["consumequeue", "transaction"], config=config) as store:
        halves = [
            store.plugin("transaction").prepare(reput.Message("orders", b"%d" % n))
            for n in range(200)
        ]
        ended = []

        def end():
            for half in halves:
                try:
                    store.plugin("transaction").commit(half)
                    ended.append(half)
                except (TransactionEndedError, UnknownTransactionError):
                    pass

        threads = [threading.Thread(target=end) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        store.wait_dispatched()
        found = [message.body for message in store.read("orders", 0, 0, 1_000)]

    assert len(ended) == len(found) == len(set(found)) == 200


def test_a_suspended_plugin_that_is_resumed_knows_what_was_ended_meanwhile(steps):
    at = steps()
    halves = [
        at.store.plugin("transaction").prepare(reput.Message("orders", b"%d" % n)) for n in range(2)
    ]
    at.store.wait_dispatched()
    at.store.suspend_plugin("transaction")
    at.store.plugin("transaction").commit(halves[0])
    at.store.resume_plugin("transaction")

    with pytest.raises(TransactionEndedError):
        at.store.plugin("transaction").commit(halves[0])
    assert [half.body for half in at.store.plugin("transaction").dangling()] == [b"1"]


def test_a_page_of_open_transactions_ends_after_one_that_is_of_another_group(steps):
    at = steps()
    plugin = at.store.plugin("transaction")
    halves = [plugin.prepare(reput.Message("orders", b"x"), group=each) for each in "aab"]
    at.store.wait_dispatched()

    first = plugin.dangling_page(9, lambda: True, group="b")
    second = plugin.dangling_page(9, lambda: False, group="b", at=first.next_at)

    assert (first.halves, first.next_at) == ((), halves[1].physical_offset)
    assert [each.group for each in second.halves] == ["b"]
