"""Check-back: who is asked, when, how often, and what becomes of those that nobody knows."""

from __future__ import annotations

import itertools
import logging

import pytest

import reput
from reput_transaction import TransactionEndedError

HALF = "RMQ_SYS_TRANS_HALF_TOPIC"
OP = "RMQ_SYS_TRANS_OP_HALF_TOPIC"
GIVEN_UP = "TRANS_CHECK_MAX_TIME_TOPIC"
HOUR = 3_600_000


def prepare(steps, body=b"a", **properties):
    return steps.store.plugin("transaction").prepare(
        reput.Message("orders", body, properties=properties), group="g"
    )


def test_nobody_is_asked_and_nothing_is_put_without_a_check(steps):
    at = steps()
    prepare(at)
    end = at.store.log.max_physical_offset

    at.work_for(100 * HOUR)

    assert at.store.log.max_physical_offset == end
    assert len(at.store.plugin("transaction").dangling()) == 1


@pytest.mark.parametrize("answer", ["commit", "rollback"])
def test_an_answer_ends_the_transaction(steps, answer):
    at, asked = steps(), []
    half = prepare(at)
    at.store.plugin("transaction").on_check(lambda found: asked.append(found) or answer)

    at.work_for(5_999)
    assert asked == []
    at.work_for(60_000)

    (found,) = asked
    assert (found.topic, found.queue_id, found.body) == ("orders", 0, b"a")
    assert (found.group, found.transaction_id) == ("g", half.transaction_id)
    assert at.bodies("orders") == ([b"a"] if answer == "commit" else [])
    assert at.store.plugin("transaction").dangling() == []
    assert [message.body for message in at.read(OP)] == [b"0,"]
    assert len(at.read(HALF)) == 1, "an answer at once makes no copy"


def test_who_does_not_know_is_asked_again_and_then_the_message_is_put_aside(steps, caplog):
    at, asked_at = steps(check_max=4), []
    prepare(at, key="value")
    at.store.plugin("transaction").on_check(
        lambda found: asked_at.append((at.clock.now, found.times_checked))
    )
    begin = at.clock.now

    at.work_for(10 * 60_000)

    times = [time - begin for time, _ in asked_at]
    assert [checked for _, checked in asked_at] == [0, 1, 2, 3]
    assert all(b - a == 30_000 for a, b in itertools.pairwise(times)), times
    (aside,) = at.read(GIVEN_UP)
    assert aside.body == b"a"
    assert aside.properties["TRANSACTION_CHECK_TIMES"] == "4"
    assert aside.properties["REAL_TOPIC"] == "orders"
    halves = at.read(HALF)
    assert [half.properties.get("TRANSACTION_CHECK_TIMES") for half in halves] == [
        None, "1", "2", "3", "4"
    ]  # fmt: skip
    assert {half.born_timestamp for half in halves} == {halves[0].born_timestamp}
    assert at.store.plugin("transaction").dangling() == []
    assert "given up" in caplog.text


def test_who_answers_later_is_asked_about_the_copy_and_may_end_it_at_once(steps):
    at, asked = steps(), []
    plugin = at.store.plugin("transaction")
    half = prepare(at)
    plugin.on_check(asked.append, answers_later=True)

    at.work_for(70_000)

    assert [each.times_checked for each in asked] == [1, 2]
    assert [each.physical_offset for each in asked] == [
        each.physical_offset for each in at.read(HALF)[1:]
    ]
    assert {each.transaction_id for each in asked} == {half.transaction_id}
    plugin.commit(asked[-1].physical_offset)
    at.work_for(100_000)
    assert at.bodies("orders") == [b"a"]
    assert (len(asked), plugin.dangling()) == (2, [])


def test_an_answer_that_comes_before_the_question_returns_counts(steps):
    at, asked = steps(), []
    plugin = at.store.plugin("transaction")
    prepare(at)

    def rolled_back(half):
        asked.append(half.times_checked)
        plugin.rollback(half.physical_offset)
        return "commit"  # not looked at

    plugin.on_check(rolled_back, answers_later=True)

    at.work_for(100_000)

    assert asked == [1]
    assert (at.bodies("orders"), plugin.dangling()) == ([], [])


def test_messages_of_one_transaction_are_asked_about_together_also_later(steps):
    at, asked = steps(), []
    plugin = at.store.plugin("transaction")
    transaction = plugin.transaction("g")
    transaction.put(reput.Message("orders", b"a"))
    transaction.put(reput.Message("orders", b"b"))
    plugin.on_check(asked.append, answers_later=True)

    at.work_for(35_000)

    assert len(asked) == 1
    plugin.commit(asked[0].physical_offset)
    assert sorted(at.bodies("orders")) == [b"a", b"b"]


def test_a_half_that_was_asked_about_often_enough_is_given_up_without_asking(steps):
    at, asked = steps(), []
    prepare(at, TRANSACTION_CHECK_TIMES="15")
    prepare(at, TRANSACTION_CHECK_TIMES="14")
    at.store.plugin("transaction").on_check(
        lambda half: asked.append(half.times_checked) or "rollback"
    )

    at.work_for(60_000)

    assert asked == [14]
    assert len(at.read(GIVEN_UP)) == 1


def test_what_is_too_old_is_given_up_however_often_it_was_asked_about(steps):
    at, asked = steps(keep_hours=1), []
    prepare(at)
    at.clock.advance(HOUR + 1)
    at.store.plugin("transaction").on_check(asked.append)

    at.work_for(1_000)

    assert asked == []
    assert "TRANSACTION_CHECK_TIMES" not in at.read(GIVEN_UP)[0].properties


def test_a_message_may_ask_for_a_time_of_its_own(steps):
    at, asked_at = steps(), {}
    begin = at.clock.now
    prepare(at, b"patient", CHECK_IMMUNITY_TIME_IN_SECONDS="300")
    prepare(at, b"usual")
    prepare(at, b"quick", CHECK_IMMUNITY_TIME_IN_SECONDS="1")
    prepare(at, b"nonsense", CHECK_IMMUNITY_TIME_IN_SECONDS="-1")

    def check(half):
        asked_at[half.body] = at.clock.now - begin
        return "commit"

    at.clock.advance(2_000)
    at.store.plugin("transaction").on_check(check)
    at.work_for(HOUR)

    # The usual one ends a run, as those behind it are younger by RocketMQ's reckoning.
    assert asked_at == {
        b"usual": 32_000, b"quick": 32_000, b"nonsense": 32_000, b"patient": 302_000
    }  # fmt: skip
    assert len(at.read(HALF)) == 4, "to wait makes no copies"


def test_each_group_has_a_check_of_its_own_or_that_of_all(steps):
    at, asked = steps(), []
    for group in ("a", "b", "c"):
        at.store.plugin("transaction").prepare(reput.Message("orders", group.encode()), group=group)
    at.store.plugin("transaction").on_check(
        lambda half: asked.append(("a", half.body)) or "commit", group="a"
    )
    at.work_for(60_000)
    assert asked == [("a", b"a")]

    at.store.plugin("transaction").on_check(
        lambda half: asked.append(("all", half.body)) or "rollback"
    )
    at.work_for(60_000)

    assert asked[1:] == [("all", b"b"), ("all", b"c")]
    at.store.plugin("transaction").on_check(None)
    at.store.plugin("transaction").on_check(None, group="a")
    at.store.plugin("transaction").prepare(reput.Message("orders", b"later"), group="a")
    at.work_for(HOUR)
    assert len(asked) == 3


def test_a_check_that_fails_or_talks_nonsense_has_given_no_answer(steps, caplog):
    at = steps()
    prepare(at)
    answers = iter([ValueError("no database"), "yes", "commit"])

    def check(half):
        answer = next(answers)
        if isinstance(answer, Exception):
            raise answer
        return answer

    at.store.plugin("transaction").on_check(check)
    with caplog.at_level(logging.WARNING):
        at.work_for(100_000)

    assert at.bodies("orders") == [b"a"]
    assert "no database" in caplog.text
    assert "'yes', which is none of commit, rollback, None" in caplog.text
    assert at.store.plugins()[1].last_error is None


def test_the_log_has_one_line_for_each_failed_check_and_a_traceback_once(steps, caplog):
    at = steps()
    prepare(at)

    def check(half):
        raise ValueError(f"no database, asked {half.times_checked} times")

    at.store.plugin("transaction").on_check(check)
    with caplog.at_level(logging.WARNING):
        at.work_for(5 * HOUR)

    failed = [each for each in caplog.records if each.getMessage().startswith("check failed")]
    assert len(failed) > 3
    assert len({each.getMessage() for each in failed}) == len(failed)
    assert [each.exc_info is not None for each in failed] == [True] + [False] * (len(failed) - 1)


def test_messages_of_one_transaction_have_one_answer(steps):
    at, asked = steps(), []
    transaction = at.store.plugin("transaction").transaction(group="g")
    transaction.put_many([reput.Message("orders", b"%d" % n) for n in range(3)])
    answers = iter([None, "commit"])
    at.store.plugin("transaction").on_check(lambda half: asked.append(half.body) or next(answers))

    at.work_for(100_000)

    assert asked == [b"0", b"0"]
    assert at.bodies("orders") == [b"0", b"1", b"2"]


def test_an_application_may_end_it_itself_while_it_is_asked(steps):
    at = steps()
    half = prepare(at)
    at.store.plugin("transaction").on_check(
        lambda found: at.store.plugin("transaction").commit(found) and None
    )

    at.work_for(60_000)

    assert at.bodies("orders") == [b"a"]
    with pytest.raises(TransactionEndedError, match="it was ended before"):
        at.store.plugin("transaction").commit(half)


def test_a_commit_that_comes_behind_a_check_ends_the_copy(steps):
    at = steps()
    half = prepare(at)
    at.store.plugin("transaction").on_check(lambda found: None)
    at.work_for(70_000)
    assert len(at.read(HALF)) == 3

    receipt = at.store.plugin("transaction").commit(half)

    at.work_for(10 * 60_000)
    assert at.bodies("orders") == [b"a"]
    final = at.store.get(receipt.physical_offset)
    assert final.prepared_transaction_offset == at.read(HALF)[2].physical_offset
    assert at.store.plugin("transaction").dangling() == []


def test_a_clock_that_jumps_loses_no_check_and_hastens_none(steps):
    at, asked_at = steps(), []
    prepare(at)
    begin = at.clock.now
    at.store.plugin("transaction").on_check(lambda half: asked_at.append(at.clock.now - begin))
    at.work_for(10_000)

    at.clock.advance(-HOUR)  # stored in the future now: it is waited for, as RocketMQ waits
    at.work_for(120_000)
    assert asked_at == []
    at.clock.advance(2 * HOUR)
    at.work_for(65_000)

    assert len(asked_at) == 3
    assert min(asked_at) > 6_000
    assert len(at.store.plugin("transaction").dangling()) == 1


def test_a_run_goes_on_in_slices_and_ends_all_of_many(steps):
    at = steps()
    for number in range(300):
        prepare(at, b"%d" % number)
    at.store.plugin("transaction").on_check(lambda half: "commit")

    at.work_for(60_000)

    assert at.bodies("orders") == [b"%d" % number for number in range(300)]
    marked = b"".join(message.body for message in at.read(OP)).split(b",")
    assert sorted(map(int, filter(None, marked))) == list(range(300))


@pytest.mark.shows("transaction")
def test_after_a_crash_between_copy_and_offsets_one_transaction_stays_one(steps, tmp_path):
    at = steps()
    prepare(at)
    at.store.plugin("transaction").on_check(lambda found: None)
    at.work_for(70_000)
    at.reopen()
    (tmp_path / "store 0" / "config" / "consumerOffset.json").unlink()
    at.reopen()

    (dangling,) = at.store.plugin("transaction").dangling()
    at.store.plugin("transaction").on_check(lambda found: "commit")
    at.work_for(120_000)

    assert dangling.times_checked == 2
    assert at.bodies("orders") == [b"a"]
