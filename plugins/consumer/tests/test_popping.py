"""Pop: messages are handed out one by one, and are invisible to others until a deadline."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from groupstores import FailedError, bodies

import reput
from reput.errors import PutError
from reput_consumer import ConsumerPlugin, GroupKindError, Handle, PopRequest
from reput_consumer.errors import ConsumerClosedError
from reput_consumer.group.membersettings import Start
from reput_consumer.metadata.startjournal import StartJournal
from reput_consumer.metadata.subscriptiongroups import GroupSettings
from reput_consumer.pop.popread import OUT_MAX


def pop_consumer(at, group="g", topics="orders", **options):
    options = {"start": "earliest", "idle": 0, "invisible": 30, **options}
    return at.store.pop_consumer(group, topics, **options)


def set_group(at, **settings):
    at.plugin.subscription_groups.put(GroupSettings(group="g", **settings))


# ------------------------------------------------------------------ one by one


def test_a_message_is_invisible_to_all_members_until_it_is_acknowledged(at):
    at.put("1", "2", "3")

    with pop_consumer(at) as one, pop_consumer(at) as other:
        (first,) = one.receive(1, 0)
        (second, third) = other.receive(32, 0)
        assert one.receive(32, 0) == other.receive(32, 0) == []
        assert bodies([first, second, third]) == ["1", "2", "3"]
        assert second.ack()
        assert third.ack()
        assert at.offset() == 0  # the first is not acknowledged
        assert first.ack()
        assert at.offset() == 3
        assert not first.ack()


def test_a_message_that_expires_comes_again_with_its_attempts_counted(at):
    at.put("1", tags="paid", keys=["k"])

    with pop_consumer(at) as consumer:
        for attempt in range(1, 4):
            (message,) = consumer.receive(32, 0)
            assert message.attempt_count == attempt
            assert (message.topic, message.tags, message.keys) == ("orders", "paid", ("k",))
            at.work_for(29_999)
            assert consumer.receive(32, 0) == []
            at.work_for(1)
            at.store.wait_dispatched()
        assert not message.ack()
        assert at.offset() == 1
    copies = at.read("%RETRY%g_orders")
    assert [copy.reconsume_times for copy in copies] == [1, 2, 3]
    assert {copy.properties["ORIGIN_GROUP"] for copy in copies} == {"g"}


@pytest.mark.parametrize("jump_ms", [-1, -86_400_000])
def test_a_message_comes_again_in_time_although_the_clock_was_set_back(at, jump_ms):
    at.put("1")

    with pop_consumer(at) as consumer:
        consumer.receive(1, 0)
        at.work_for(20_000)
        at.clock.advance(jump_ms)
        at.work_for(9_999)
        assert consumer.receive(1, 0) == []
        at.work_for(1)
        at.store.wait_dispatched()
        assert bodies(consumer.receive(1, 0)) == ["1"]


def test_a_message_that_is_renewed_is_invisible_for_longer_and_can_be_acknowledged(at):
    at.put("1")

    with pop_consumer(at) as consumer:
        (message,) = consumer.receive(1, 0)
        for _ in range(5):
            at.work_for(20_000)
            assert message.renew(30)
        assert consumer.receive(1, 0) == []
        assert message.ack()
        at.work_for(100_000)
        assert consumer.receive(1, 0) == []
    assert at.read("%RETRY%g_orders") == []


def test_a_message_that_is_refused_comes_after_its_delay(at):
    at.put("1")

    with pop_consumer(at) as consumer:
        (message,) = consumer.receive(1, 0)
        assert message.retry(5)
        assert not message.ack()
        at.work_for(4_999)
        assert consumer.receive(1, 0) == []
        at.work_for(1)
        at.store.wait_dispatched()
        (again,) = consumer.receive(1, 0)
        assert again.attempt_count == 2


def test_iterating_hands_out_one_message_at_a_time(at):
    at.put("1", "2", "3")

    with pop_consumer(at) as consumer:
        for message in consumer:
            assert at.plugin.progress("g").out_count == 1
            message.ack()

    assert at.offset() == 3


def test_tags_and_topics_are_selected(at):
    at.put("1", tags="paid")
    at.put("2", tags="open")
    at.put("3", topic="bills", queue=2)

    with pop_consumer(at, topics={"orders": "paid", "bills": None}) as consumer:
        found = consumer.receive(32, 0)
        assert sorted(bodies(found)) == ["1", "3"]
        for message in found:
            message.ack()
    assert at.offset() == 2  # the other one counts as consumed


def test_a_message_of_another_retry_topic_of_the_same_name_is_left_alone(at):
    at.put("1", topic="b_c")
    at.put("2", topic="c")

    with pop_consumer(at, "a", "b_c") as one, pop_consumer(at, "a_b", "c") as other:
        one.receive(1, 0)[0].retry()
        other.receive(1, 0)[0].retry()
        at.work_for(1)
        at.store.wait_dispatched()
        assert len(at.read("%RETRY%a_b_c")) == 2
        assert bodies(one.receive(32, 0)) == ["1"]
        assert bodies(other.receive(32, 0)) == ["2"]


# ------------------------------------------------------------------ where a group begins


def test_a_new_group_begins_at_the_end_and_new_queues_at_their_beginning(at):
    at.put("old")

    with pop_consumer(at, start="latest") as consumer:
        at.put("1")
        at.put("2", queue=1)
        assert sorted(bodies(consumer.receive(32, 0))) == ["1", "2"]
    at.reopen()
    with pop_consumer(at, start="latest") as consumer:
        assert sorted(bodies(consumer.receive(32, 0))) == ["1", "2"]


def test_all_from_the_floor_on_comes_again_after_a_restart_and_handles_are_void(at):
    at.put(*"12345")
    with pop_consumer(at) as consumer:
        found = consumer.receive(5, 0)
        found[0].ack()
        found[3].ack()
        handle = found[4]._popped.handle
    at.clock.now += 1_000
    at.reopen()

    with pop_consumer(at) as consumer:
        assert bodies(consumer.receive(32, 0)) == ["2", "3", "4", "5"]
        assert not at.plugin.popper.ack("g", "orders", handle)


def test_a_group_that_is_moved_goes_on_there_and_handles_are_void(at):
    at.put("1", "2", "3")

    with pop_consumer(at) as consumer:
        found = consumer.receive(32, 0)
        at.plugin.reset_offsets("g", "orders", 1)
        assert not found[0].ack()
        assert bodies(consumer.receive(32, 0)) == ["2", "3"]


def test_an_acknowledgement_during_a_reset_does_not_move_the_group(at, monkeypatch):
    at.put("1", "2", "3")
    popper, said = at.plugin.popper, []
    with pop_consumer(at) as consumer:
        found = consumer.receive(32, 0)
        handles = [each._popped.handle for each in found]
        port = popper.port
        save = type(port).save

        def saved(self):
            with ThreadPoolExecutor() as others:  # before the reset is on disk
                said.append(others.submit(popper.ack_at_once, "g", "orders", handles).result())
            save(self)

        monkeypatch.setattr(type(port), "save", saved)
        at.plugin.reset_offsets("g", "orders", "earliest")

        assert None in said
        assert [True] * 3 not in said
        assert popper.ack_at_once("g", "orders", handles) == [False] * 3
        assert set(at.plugin.offsets()["g"].values()) == {0}
        assert bodies(consumer.receive(32, 0)) == ["1", "2", "3"]


def test_a_group_that_was_deleted_begins_anew(at):
    at.put("1", "2")
    with pop_consumer(at) as consumer:
        (first, _) = consumer.receive(32, 0)
        at.plugin.delete_group("g")
        assert not first.ack()
        assert bodies(consumer.receive(32, 0)) == ["1", "2"]


def test_a_topic_that_was_deleted_shows_nothing_of_before(at):
    at.put("1", "2")
    with pop_consumer(at) as consumer:
        consumer.receive(1, 0)
        at.plugin.delete_topic("orders")
        assert consumer.receive(32, 0) == []
        at.put("3")
        assert bodies(consumer.receive(32, 0)) == ["3"]


# ------------------------------------------------------------------ dead letters


def test_a_message_that_was_handed_out_too_often_goes_to_the_dead_letters_on_receive(at):
    at.put("1", "2")
    set_group(at, retry_max_times=2)
    attempts = []

    with pop_consumer(at) as consumer:
        for _ in range(6):
            for message in consumer.receive(32, 0):
                attempts.append((message.body, message.attempt_count))
                if message.body == b"2":
                    message.ack()
                else:
                    message.retry()
            at.work_for(1)
            at.store.wait_dispatched()

    assert attempts == [(b"1", 1), (b"2", 1), (b"1", 2), (b"1", 3)]
    (dead,) = at.read("%DLQ%g")
    assert dead.properties["RETRY_TOPIC"] == "orders"
    assert at.plugin.progress("g").lag == 0


def test_dead_letters_that_are_resent_come_again_by_pop(at):
    at.put("1")
    with pop_consumer(at) as consumer:
        consumer.receive(1, 0)[0].give_up()
        at.plugin.resend("g", at.read("%DLQ%g"))
        at.store.wait_dispatched()
        (again,) = consumer.receive(1, 0)
        assert (again.body, again.topic, again.attempt_count) == (b"1", "orders", 1)


def test_a_dead_letter_does_not_hide_the_messages_behind_it(at):
    at.put("1")
    set_group(at, retry_max_times=0)
    with pop_consumer(at) as consumer:
        consumer.receive(1, 0)[0].retry()
        at.work_for(1)
        at.put("2")
        found = [bodies(consumer.receive(1, 0)) for _ in range(2)]

    assert sorted(found) == [[], ["2"]]
    assert bodies(at.read("%DLQ%g")) == ["1"]


def test_a_group_without_retry_queues_drops_what_fails(at):
    at.put("1")
    set_group(at, retry_queue_nums=0)
    with pop_consumer(at) as consumer:
        consumer.receive(1, 0)[0].retry()
        at.work_for(1)
        assert consumer.receive(1, 0) == []
    assert at.offset() == 1


def test_a_message_that_cannot_be_put_back_is_tried_again_and_never_lost(at, monkeypatch):
    at.put("1")

    def fail(*_):
        raise PutError("body", None, None, "no room")

    with pop_consumer(at) as consumer:
        consumer.receive(1, 0)[0].retry()
        with monkeypatch.context() as patched:
            patched.setattr(type(at.plugin.port.sender), "pop_back", fail)
            at.work_for(1)
        assert at.offset() == 0
        at.work_for(5_000)
        at.store.wait_dispatched()
        assert bodies(consumer.receive(1, 0)) == ["1"]
        assert at.offset() == 1


# ------------------------------------------------------------------ reads that fail


@pytest.mark.parametrize(("queue", "others"), [(0, ["3", "4"]), (1, ["1", "2"])])
def test_a_queue_that_cannot_be_read_keeps_nobody_from_the_others(at, queue, others):
    at.put("1", "2")
    at.put("3", "4", queue=1)

    with pop_consumer(at) as consumer:
        at.break_store(queue=("orders", queue))
        found = consumer.receive(32, 0)
        assert bodies(found) == others
        with pytest.raises(FailedError):
            consumer.receive(32, 0)  # nothing else is there
        at.break_store()
        found += consumer.receive(32, 0)
        assert sorted(bodies(found)) == ["1", "2", "3", "4"]


def test_what_was_taken_comes_again_at_once_if_a_signal_ends_the_request(at):
    at.put("1", "2")
    at.put("3", queue=1)

    with pop_consumer(at) as consumer:
        for succeeding in range(4):
            at.break_store([False] * succeeding + [KeyboardInterrupt])
            with pytest.raises(KeyboardInterrupt):
                consumer.receive(32, 0)
            assert at.plugin.popper.out() == []
        found = consumer.receive(32, 0)
        assert sorted(bodies(found)) == ["1", "2", "3"]
        assert {each.attempt_count for each in found} == {1}


def test_what_was_taken_of_one_topic_is_not_lost_if_another_cannot_be_read(at):
    at.put("1")
    at.put("2", topic="bills")

    with pop_consumer(at, topics=["orders", "bills"]) as consumer:
        for succeeding in range(6):
            at.break_store([False] * succeeding + [KeyboardInterrupt])
            with pytest.raises(KeyboardInterrupt):
                consumer.receive(32, 0)
            assert at.plugin.popper.out() == []
        at.break_store(queue=("bills", 0))
        for _ in range(2):  # either topic is the first
            (message,) = consumer.receive(32, 0)
            assert message.body == b"1"
            at.plugin.popper.give_back("g", "orders", [message._popped.handle])


def test_a_message_that_cannot_be_given_up_is_still_out_and_expires(at):
    at.put("1")

    with pop_consumer(at) as consumer:
        (message,) = consumer.receive(1, 0)
        for failures in ({"reads": [True]}, {"puts": [True]}):
            at.break_store(**failures)
            with pytest.raises(FailedError):
                message.give_up()
        assert message.renew(30)
        assert at.plugin.progress("g").out_count == 1
        at.work_for(30_000)
        (again,) = consumer.receive(1, 0)
        assert again.attempt_count == 2
        assert again.ack()
    assert at.read("%DLQ%g") == []


def test_a_message_whose_deadline_passes_while_it_cannot_be_given_up_comes_again(at):
    at.put("1")

    class SlowError(FailedError):
        def __init__(self) -> None:
            at.work_for(60_000)  # looks for messages whose deadline has passed

    with pop_consumer(at) as consumer:
        (message,) = consumer.receive(1, 0)
        at.break_store(puts=[SlowError])
        with pytest.raises(SlowError):
            message.give_up()
        at.work_for(1)
        at.store.wait_dispatched()
        assert bodies(consumer.receive(1, 0)) == ["1"]


def test_dead_letters_are_put_although_another_queue_cannot_be_read(at):
    at.put("1", "2", reconsume_times=17)
    at.put("3", "4", queue=1, reconsume_times=17)

    with pop_consumer(at) as consumer:
        at.break_store(queue=("orders", 1))
        with pytest.raises(FailedError):
            consumer.receive(32, 0)
        at.break_store()
        assert consumer.receive(32, 0) == []
    assert sorted(bodies(at.read("%DLQ%g"))) == ["1", "2", "3", "4"]
    assert at.plugin.progress("g").lag == 0


@pytest.mark.parametrize("error", [True, ValueError, RuntimeError])
def test_a_dead_letter_that_cannot_be_put_is_tried_again(at, error):
    at.put("1", "2", reconsume_times=17)

    with pop_consumer(at) as consumer:
        at.break_store(puts=[error, error])
        assert consumer.receive(32, 0) == []
        assert at.read("%DLQ%g") == []
        at.work_for(5_000)
        at.store.wait_dispatched()
        consumer.receive(32, 0)
    assert sorted(bodies(at.read("%DLQ%g"))) == ["1", "2"]


def test_the_batch_of_an_attempt_keeps_its_handles_if_it_cannot_be_read_again(at):
    at.put("1", "2")
    set_group(at, consume_message_orderly=True)
    popper = at.plugin.popper
    found = popper.pop(ordered_request("a"))
    popper.renew("g", "orders", found[0].handle, 30_000, keep=False)

    at.break_store([False, True])
    with pytest.raises(FailedError):
        popper.pop(ordered_request("a"))

    assert popper.ack("g", "orders", found[1].handle)


def test_a_group_hands_nothing_out_until_its_start_is_on_disk(at, monkeypatch):
    at.put("old")
    popper = at.plugin.popper
    request = PopRequest(group="g", topic="orders")  # from the end on

    with monkeypatch.context() as patched:
        patched.setattr(StartJournal, "add", raiser(OSError(28, "no space")))
        for _ in range(2):
            with pytest.raises(OSError, match="no space"):
                popper.pop(request)
            at.put("new")

    assert len(popper.pop(request)) == 2
    assert ("g", "orders", 0, 1) in at.plugin.port.offsets.starts.load()


def test_an_acknowledgement_counts_although_its_offset_cannot_be_committed_yet(at, monkeypatch):
    at.put("1", "2")

    with pop_consumer(at) as consumer:
        first, second = consumer.receive(32, 0)
        with monkeypatch.context() as patched:
            patched.setattr(type(at.plugin.port), "commit", raiser(FailedError()))
            assert first.ack()
        assert at.offset() == 0
        assert second.ack()
        assert at.offset() == 2


def test_a_message_that_could_not_be_acknowledged_can_be_acknowledged(at, monkeypatch):
    at.put("1")

    with pop_consumer(at) as consumer:
        (message,) = consumer.receive(1, 0)
        with monkeypatch.context() as patched:
            patched.setattr(type(at.plugin.popper), "ack", raiser(FailedError()))
            with pytest.raises(FailedError):
                message.ack()
        assert message.ack()


def test_a_message_whose_consumer_cannot_be_asked_for_comes_again(at):
    at.put("1")
    keep = raiser(RuntimeError("the server ends"))
    start = Start("earliest")
    at.plugin.popper.pop(
        PopRequest(group="g", topic="orders", invisible_ms=1_000, start=start, keep=keep)
    )

    at.work_for(1_000)
    at.store.wait_dispatched()

    assert bodies(at.read("%RETRY%g_orders")) == ["1"]


def raiser(error):
    def fail(*_, **__):
        raise error

    return fail


# ------------------------------------------------------------------ in order


def ordered_request(attempt="", **options):
    options = {"invisible_ms": 30_000, "start": Start("earliest"), **options}
    return PopRequest(group="g", topic="orders", attempt=attempt, **options)


def test_acknowledgements_at_once_count_as_others_do(at):
    at.put("1", "2", "3")
    popper = at.plugin.popper
    first, second, third = popper.pop(ordered_request("a", max_count=3, is_ordered=False))

    assert popper.ack_at_once("g", "orders", [second.handle, None, third.handle]) == [
        True,
        False,
        True,
    ]
    assert at.offset() == 0
    assert popper.ack_at_once("g", "orders", [second.handle, first.handle]) == [False, True]
    assert at.offset() == 3
    assert popper.ack_at_once("nobody", "orders", [first.handle]) == [False]
    assert popper.out("nobody") == popper.out("g") == []


def test_acknowledgements_at_once_do_nothing_while_another_thread_works_on_the_group(at):
    at.put("1")
    popper = at.plugin.popper
    (popped,) = popper.pop(ordered_request("a", is_ordered=False))
    found = []
    with popper._groups["g"].lock:
        other = threading.Thread(
            target=lambda: found.append(popper.ack_at_once("g", "orders", [popped.handle]))
        )
        other.start()
        other.join()

    assert found == [None]
    assert [each.count for each in popper.out("g")] == [1]
    assert popper.ack_at_once("g", "orders", [popped.handle]) == [True]


def test_a_queue_of_an_ordered_group_is_blocked_while_a_batch_is_out(at):
    at.put(*"1234")
    at.put("5", queue=1)
    set_group(at, consume_message_orderly=True)
    popper = at.plugin.popper

    batches = [popper.pop(ordered_request(max_count=2)) for _ in range(4)]
    assert sorted(bodies([each.view for each in batch]) for batch in batches) == [
        [],
        [],
        ["1", "2"],
        ["5"],
    ]
    first = next(batch for batch in batches if len(batch) == 2)
    assert popper.ack("g", "orders", first[0].handle)
    assert popper.pop(ordered_request()) == []
    assert popper.ack("g", "orders", first[1].handle)
    (third, _) = popper.pop(ordered_request())
    assert third.view.body == b"3"


def test_the_same_attempt_of_an_ordered_group_gets_the_same_batch(at):
    at.put(*"1234")
    set_group(at, consume_message_orderly=True)
    popper = at.plugin.popper

    one = popper.pop(ordered_request("a", max_count=2))
    assert popper.pop(ordered_request("b", max_count=2)) == []
    at.work_for(20_000)
    again = popper.pop(ordered_request("a", max_count=2))

    assert [each.handle for each in again] == [each.handle for each in one]
    assert [each.attempt_count for each in again] == [1, 1]
    at.work_for(29_999)
    assert popper.ack("g", "orders", one[0].handle)


def test_what_fails_in_an_ordered_group_comes_again_in_its_place_and_then_is_dead(at):
    at.put("1", "2", "3")
    set_group(at, consume_message_orderly=True, retry_max_times=1)
    popper = at.plugin.popper
    seen = []

    for _ in range(5):
        for each in popper.pop(ordered_request(max_count=2)):
            seen.append((each.view.body.decode(), each.attempt_count))
            if each.view.body != b"1":
                popper.ack("g", "orders", each.handle)
        at.work_for(30_000)

    assert seen == [("1", 1), ("2", 1), ("1", 2), ("3", 1)]
    assert bodies(at.read("%DLQ%g")) == ["1"]
    assert at.read("%RETRY%g_orders") == []


def test_what_was_handed_out_to_nobody_comes_again_at_once_and_counts_as_no_attempt(at):
    at.put(*"123")
    popper = at.plugin.popper
    found = popper.pop(ordered_request(max_count=2))

    popper.give_back("g", "orders", [each.handle for each in found])

    assert not popper.ack("g", "orders", found[0].handle)
    again = popper.pop(ordered_request())
    assert [(each.view.body, each.attempt_count) for each in again] == [
        (b"1", 1),
        (b"2", 1),
        (b"3", 1),
    ]


# ------------------------------------------------------------------ bounds, kinds, errors


def test_one_message_that_nobody_acknowledges_holds_no_endless_tail(at):
    at.store.put_many([reput.Message("orders", b"x") for _ in range(OUT_MAX + 10)])
    at.store.wait_dispatched()

    with pop_consumer(at, invisible=3_600) as consumer:
        first, *others = consumer.receive(OUT_MAX + 10, 0)
        assert len(others) == OUT_MAX - 1
        for message in others:
            message.ack()
        assert consumer.receive(1, 0) == []
        first.ack()
        assert len(consumer.receive(32, 0)) == 10


def test_members_that_pull_and_members_that_pop_do_not_mix(at):
    at.put("1")
    with at.consumer():
        with pytest.raises(GroupKindError, match="has members that pull, so none can pop"):
            pop_consumer(at)
        with pytest.raises(GroupKindError, match="has members that pull"):
            at.plugin.popper.pop(ordered_request())
    with pop_consumer(at), pytest.raises(GroupKindError, match="has members that pop"):
        at.consumer()
    with at.consumer():
        pass


def test_what_members_that_pulled_meanwhile_have_consumed_does_not_come_again(at):
    at.put(*map(str, range(10)))
    popper = at.plugin.popper
    with pop_consumer(at) as consumer:
        found = consumer.receive(3, 0)
        assert found[0].ack()
        assert found[1].ack()
        (queue,) = [
            each for each in popper.port.queues("orders") if popper.port.committed("g", each)
        ]
        popper.port.commit("g", {queue: 10})  # as a member that pulls does

        found[2].ack()

        assert popper.port.committed("g", queue) == 10
        assert consumer.receive(32, 0) == []
        assert popper.port.committed("g", queue) == 10
        at.put("10")
        assert bodies(consumer.receive(32, 0)) == ["10"]


def test_names_that_have_no_space_for_a_retry_topic_are_refused(at):
    with pytest.raises(ValueError, match="at most 255"):
        pop_consumer(at, "g" * 200, "t" * 100)


@pytest.mark.parametrize("invisible", [-1, 43_201, float("nan"), "30", True])
def test_a_time_that_cannot_be_is_refused(at, invisible):
    with pytest.raises((ValueError, TypeError), match="invisible"):
        pop_consumer(at, invisible=invisible)


@pytest.mark.parametrize(
    "text", ["", "p1", "p1.0.0.0.0", "p1.2.0.0.0.0", "p1.0.-1.0.0.0", "p1.0.x.0.0.0", "x" * 999]
)
def test_texts_that_are_no_handles(text):
    assert Handle.parse(text) is None


def test_a_handle_is_a_text_and_back(at):
    at.put("1")
    (found,) = at.plugin.popper.pop(ordered_request())
    assert Handle.parse(str(found.handle)) == found.handle


def test_a_consumer_that_is_closed_says_so(at):
    consumer = pop_consumer(at)
    consumer.close()
    consumer.close()
    with pytest.raises(ConsumerClosedError):
        consumer.receive(1, 0)


def test_a_waiting_consumer_is_woken_by_a_message_a_retry_and_the_end(tmp_path):
    with reput.open(tmp_path, plugins=["consumequeue", "consumer"]) as store:
        consumer = store.pop_consumer("g", "orders", start="earliest")
        found = []

        def work():
            try:
                while True:
                    for message in consumer.receive():
                        found.append((message.body, message.attempt_count))
                        message.ack() if message.attempt_count == 2 else message.retry(0.01)
                        if len(found) == 2:
                            twice.set()
            except ConsumerClosedError:
                ended.set()

        twice, ended = threading.Event(), threading.Event()
        threading.Thread(target=work, daemon=True).start()
        store.put(reput.Message("orders", b"1"))
        assert twice.wait(60)
        assert found == [(b"1", 1), (b"1", 2)]
        consumer.close()
        assert ended.wait(60)


# ------------------------------------------------------------------ what others see


def test_another_process_sees_what_is_out_and_since_when(at):
    at.put(*"123")
    with pop_consumer(at, name="me") as consumer:
        since = at.clock.now
        consumer.receive(2, 0)
        at.work_for(5_000)
        with reput.open(at.root, mode="r") as reader:
            plugin = reader.plugin(ConsumerPlugin)
            progress = plugin.progress("g")
            assert (progress.out_count, progress.out_since) == (2, since)
            (member,) = progress.members
            assert (member.member, member.pops, member.queues) == ("me", True, None)
        assert at.plugin.progress("g").out_count == 2


def test_the_report_and_the_table_show_what_is_out(at):
    pytest.importorskip("rich")
    from commands import commands

    at.put(*"123")
    with pop_consumer(at, name="me") as consumer:
        consumer.receive(2, 0)
        at.work_for(1_000)
        with commands() as run:
            table = run("groups", at.root).out.splitlines()
            queues = run("groups", at.root, "g").out
    assert table[0].split()[-1] == "OUT"
    assert table[1].split()[-1] == "2"
    assert "out           2 messages, for up to" in queues
    assert "by pop" in queues
    assert "all" in queues
