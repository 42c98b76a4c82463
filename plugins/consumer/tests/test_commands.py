"""``reput groups``, ``consume``, ``reset-offset``, ``dlq`` and ``topics``."""

from __future__ import annotations

import base64
import os
import re

import pytest
from groupstores import bodies
from statefiles import manifest_of

import reput
from reput_consumer import Selector

pytest.importorskip("click.testing")
pytest.importorskip("rich")

from commands import commands


@pytest.fixture
def run():
    with commands() as run:
        yield run


@pytest.fixture
def path(at):
    """A closed store: of six messages the group billing has consumed four, and given up one."""
    for number in range(6):
        at.put(f"order {number}", queue=number % 2, tags="paid" if number < 3 else "open", keys="k")
    with at.consumer("billing", explicit=True) as consumer:
        for message in consumer:
            if message.body == b"order 0":
                message.retry(-1)
            elif message.body < b"order 4":
                message.ack()
    with at.consumer("audit", start="latest"):
        pass
    at.store.close()
    return at.root


def test_a_table_shows_the_groups(run, path):
    lines = run("groups", path).out.splitlines()

    assert lines[0].split() == ["GROUP", "TOPICS", "MEMBERS", "LAG", "OLDEST", "RETRIES", "DEAD"]
    assert lines[1].split() == ["audit", "orders", "0", "0", "-", "0", "0"]
    assert lines[2].split()[:4] == ["billing", "orders", "0", "2"]
    assert lines[2].split()[-2:] == ["0", "1"]
    assert lines[-1] == f"2 groups; reput groups {path} billing shows its queues"  # it lags


def test_a_group_is_shown_queue_by_queue(run, path):
    lines = run("groups", path, "billing").out.splitlines()

    assert lines[0].split() == ["lag", "2", "messages"]
    assert "dead letters  1" in lines[2]
    assert lines[-2].split()[:5] == ["orders", "0", "2", "3", "1"]
    assert lines[-1].split()[:5] == ["orders", "1", "2", "3", "1"]


def test_json_has_everything_and_a_rate_if_asked_for(run, path):
    document = run("groups", path, "billing", "--json", "--rate", "0.1").json

    (group,) = document["groups"]
    oldest = group.pop("oldest_timestamp")
    oldest_of = [queue.pop("oldest_timestamp") for queue in group["queues"]]
    assert oldest_of == [None, oldest, oldest]
    assert group == {
        "group": "billing",
        "lag": 2,
        "retry_lag": 0,
        "dead_letter_count": 1,
        "out_count": 0,
        "out_since_timestamp": None,
        "ignored_offsets": [],
        "is_mixed": False,
        "members": [],
        "messages_per_second": 0.0,
        "queues": [
            {"topic": topic, "queue_id": number, "offset": offset, "min_offset": 0}
            | {"max_offset": offset + lag, "lag": lag}
            | {"out_count": 0, "out_since_timestamp": None}
            for topic, number, offset, lag in (
                ("%RETRY%billing", 0, 0, 0),
                ("orders", 0, 2, 1),
                ("orders", 1, 2, 1),
            )
        ],
    }


@pytest.mark.parametrize("offset", [-1, -(1 << 63), '"-1"'])
def test_a_negative_offset_counts_as_none_and_is_shown(at, run, caplog, offset):
    at.put("1")
    at.store.close()
    path = at.root / "config" / "consumerOffset.json"
    path.write_text(f'{{"offsetTable":{{"orders@g":{{0:{offset}}}}}}}')
    before = path.read_bytes()
    at.open()
    number = int(str(offset).strip('"'))

    found = run("groups", at.root, "--json").json["groups"][0]["ignored_offsets"]

    assert f"group=g topic=orders offsets=0:{number}" in caplog.text
    assert found == [{"topic": "orders", "queue_id": 0, "offset": number}]
    for options in ([], ["g"]):
        assert f"offset {number} of orders/0 is ignored" in run("groups", at.root, *options).out
    assert path.read_bytes() == before
    with at.consumer(start="latest") as consumer:  # as with a broker: the group has no offset
        at.put("2", "3")
        assert bodies(consumer) == ["2", "3"]
    at.store.work()
    assert "is ignored" not in run("groups", at.root).out
    assert at.plugin.offsets()["g"]["orders", 0] == 3


def test_members_that_subscribe_differently_are_shown(run, at):
    at.put("1")
    with at.consumer("g", {"orders": "A"}), at.consumer("g", {"orders": "B"}, mixed=True):
        for options in ([], ["g"]):
            assert "subscribe differently" not in run("groups", at.root, *options).out
        at.work_for(2_000)

        for options in ([], ["g"]):
            assert "members subscribe differently" in run("groups", at.root, *options).out
        assert run("groups", at.root, "--json").json["groups"][0]["is_mixed"] is True


def test_an_unknown_group_and_a_store_without_groups_are_told(run, path, tmp_path):
    outcome = run("groups", path, "nobody")
    assert (outcome.code, outcome.out) == (3, "")
    assert "lists them" in outcome.err

    with reput.open(tmp_path / "other", plugins=["consumequeue"]) as store:
        store.put(reput.Message("T", b"1"))
    assert "No consumer groups" in run("groups", tmp_path / "other").out
    assert run("groups", tmp_path / "other", "--json").json["groups"] == []


def test_groups_are_shown_beside_a_writer(run, at):
    at.put("1")
    with at.consumer("g") as consumer:
        consumer.next(0)
        consumer.commit(durable=True)
        assert run("groups", at.root, "--json").json["groups"][0]["lag"] == 1


def test_members_and_their_queues_are_shown(run, at):
    for queue in range(3):
        at.put("1", queue=queue)
    with at.consumer("g", name="a"), at.consumer("g", name="b\x1b[31m"):
        selectors = {"orders": Selector()}
        at.plugin.port.join("g", "remote", selectors, lambda: None)  # as a server does
        at.work_for(6_000)
        lines = run("groups", at.root).out.splitlines()
        one = run("groups", at.root, "g").out
        document = run("groups", at.root, "--json").json

    assert lines[1].split()[:3] == ["g", "orders", "3"]
    assert lines[-2] == f"in process {os.getpid()}"
    assert f"members       3 (in process {os.getpid()})" in one
    assert "\x1b" not in one
    rows = [line.split() for line in one.splitlines()]
    assert [row[-1] for row in rows if row[:1] == ["orders"]] == ["a", r"b\x1b[31m", "-"]
    assert next(row for row in rows if row[:1] == ["remote"])[-2:] == ["?", "orders"]
    assert "? clients of a server share queues out" in one
    assert (document["writer_pid"], document["are_members_known"]) == (os.getpid(), True)
    members = document["groups"][0]["members"]
    assert [each["member"] for each in members] == ["a", "b\x1b[31m", "remote"]
    assert members[2]["queues"] is None
    assert {"topic": "orders", "queue_id": 0} in members[0]["queues"]


def test_a_writer_that_tells_nobody_who_its_members_are_is_named(run, at):
    at.put("1")
    with at.consumer("g"):
        pass
    (at.root / "reput" / "consumer" / "members.json").unlink()  # as if the plugin were not there
    assert run("groups", at.root).out.splitlines()[1].split()[2] == "?"
    one = run("groups", at.root, "g").out
    assert f"? (process {os.getpid()} has the store open, and has not told who is in" in one
    assert run("groups", at.root, "g", "--json").json["groups"][0]["members"] is None


def test_what_was_not_consumed_is_printed_and_consumed(run, path):
    outcome = run("consume", path, "billing", "orders")

    assert outcome.out.splitlines() == [
        "orders/0@2 tags=open keys=k  order 4",
        "orders/1@2 tags=open keys=k  order 5",
    ]
    assert outcome.err == "2 messages consumed by billing\n"
    assert run("consume", path, "billing", "orders").out == ""


def test_consuming_may_stop_early_and_select(run, path):
    lines = run("consume", path, "new", "orders", "--tag", "paid", "--count", "1", "--json").lines
    rest = run("consume", path, "new", "orders", "--tag", "paid", "--json").lines

    assert [base64.b64decode(each["body_base64"]) for each in lines] == [b"order 0"]
    assert sorted(base64.b64decode(each["body_base64"]) for each in rest) == [
        b"order 1",
        b"order 2",
    ]


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("a/b", "orders"), 2),
        (("g", "a/b"), 2),
        (("g", "orders", "--tag", "a", "--where", "b > 1"), 2),
        (("g", "orders", "--tag", "||"), 2),
        (("g", "orders", "--where", "b >"), 5),
        (("g", "nothing"), 3),
    ],
)
def test_what_cannot_be_consumed_is_refused_and_nothing_is_written(run, path, arguments, code):
    before = (path / "config" / "consumerOffset.json").read_bytes()

    outcome = run("consume", path, *arguments)

    assert outcome.code == code, outcome
    assert "internal error" not in outcome.err
    assert (path / "config" / "consumerOffset.json").read_bytes() == before


def test_a_group_is_moved(run, path):
    outcome = run("reset-offset", path, "billing", "orders", "--to", "1", "--yes", "--json")

    assert outcome.json["queues"] == [
        {"queue_id": 0, "before": 2, "after": 1},
        {"queue_id": 1, "before": 2, "after": 1},
    ]
    assert len(run("consume", path, "billing", "orders").out.splitlines()) == 4


def test_moving_asks_first(run, path):
    refused = run("reset-offset", path, "billing", "orders", "--to", "earliest", stdin="n\n")
    done = run("reset-offset", path, "billing", "orders", "--to", "@0", stdin="y\n")

    assert refused.code == 6
    assert "nothing was changed" in refused.err
    # Before them the heading; with an old click the answer, too, which a terminal shows by itself.
    rows = [line.split() for line in done.out.splitlines()[-2:]]
    assert rows == [["0", "2", "0"], ["1", "2", "0"]]


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("billing", "orders", "--to", "sometime"), 2),
        (("a/b", "orders", "--to", "latest"), 2),
        (("billing", "nothing", "--to", "latest"), 3),
    ],
)
def test_a_place_that_there_is_not_is_refused(run, path, arguments, code):
    outcome = run("reset-offset", path, *arguments, "--yes")

    assert outcome.code == code, outcome
    assert outcome.out == ""


def test_a_store_that_does_not_use_the_plugin_does_not_use_it_later(run, tmp_path):
    root = tmp_path / "other"
    with reput.open(root, plugins=["consumequeue"]) as store:
        store.put(reput.Message("T", b"1"))

    assert run("consume", root, "g", "T").out == "T/0@0  1\n"
    assert run("reset-offset", root, "g", "T", "--to", "earliest", "--yes").code == 0
    assert run("consume", root, "g", "T").out == "T/0@0  1\n"

    assert manifest_of(root).plugins == ("consumequeue",)


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (("consume", "{root}", "g", "odrers"), "no topic 'odrers'; did you mean 'orders'?"),
        (("reset-offset", "{root}", "g", "x", "--to", "latest", "--yes"), "no topic 'x'; "),
        (("topics", "delete", "{root}", "odrers", "--yes"), "did you mean 'orders'?"),
        (("topics", "alter", "{root}", "x", "--perm", "r"), "`reput topics create {root} x` adds"),
    ],
)
def test_a_command_that_fails_leaves_the_plugins_of_the_store(run, tmp_path, arguments, error):
    root = tmp_path / "other"
    with reput.open(root, plugins=["consumequeue"]) as store:
        store.put(reput.Message("orders", b"1"))

    outcome = run(*(each.format(root=root) for each in arguments))

    assert outcome.code == 3, outcome
    assert error.format(root=root) in outcome.err
    assert manifest_of(root).plugins == ("consumequeue",)


# ------------------------------------------------------------------ dead letters


def test_dead_letters_are_listed(run, path):
    lines = run("dlq", "ls", path, "billing").out.splitlines()
    (letter,) = run("dlq", "ls", path, "billing", "--json").lines

    assert lines[0].split() == ["AGE", "TOPIC", "KEYS", "FAILED", "ID"]
    assert lines[1].split()[-1] == letter["msg_id"]
    assert lines[-1].startswith("1 dead letter; reput dlq resend ")
    assert (letter["topic"], letter["reconsume_times"], letter["keys"]) == ("orders", 1, ["k"])
    assert "No dead letters" in run("dlq", "ls", path, "audit").out


@pytest.mark.parametrize("by", ["id", "all"])
def test_a_dead_letter_is_resent_to_its_group_and_to_no_other(run, path, by):
    (letter,) = run("dlq", "ls", path, "billing", "--json").lines
    which = [letter["msg_id"]] if by == "id" else ["--all"]
    run("consume", path, "billing", "orders")

    outcome = run("dlq", "resend", path, "billing", *which, "--yes", "--json")

    assert outcome.json["resent"] == [letter["msg_id"]]
    assert run("groups", path, "audit", "--json").json["groups"][0]["lag"] == 0
    (again,) = run("consume", path, "billing", "orders", "--json").lines
    assert base64.b64decode(again["body_base64"]) == b"order 0"
    assert (again["topic"], again["reconsume_times"]) == ("orders", 0)


@pytest.mark.parametrize(
    ("arguments", "code"), [((), 2), (("--all", "X"), 2), (("X",), 3), (("--all",), 6)]
)
def test_what_cannot_be_resent_is_refused(run, path, arguments, code):
    is_sure = () if code == 6 else ("--yes",)

    outcome = run("dlq", "resend", path, "billing", *arguments, *is_sure, stdin="n\n")

    assert outcome.code == code, outcome
    assert outcome.out.strip() in ("", "n")  # an old click shows the answer, as a terminal would


def test_where_there_is_no_dead_letter_nobody_is_asked(run, path):
    for group in ("audit", "nobody"):
        outcome = run("dlq", "resend", path, group, "--all")

        assert (outcome.code, outcome.out) == (3, "")
        assert "Resend" not in outcome.err
        assert "reput groups" in outcome.err


def test_the_question_says_how_many_are_resent(run, path):
    outcome = run("dlq", "resend", path, "billing", "--all", stdin="y\n")

    assert outcome.code == 0
    assert "Resend 1 dead letter to group billing?" in outcome.err


# ------------------------------------------------------------------ stores of all kinds

CHANGING = [
    ("consume", "billing", "orders"),
    ("reset-offset", "billing", "orders", "--to", "latest", "--yes"),
    ("dlq", "resend", "billing", "--all", "--yes"),
    ("topics", "create", "new"),
    ("topics", "alter", "orders", "--queues", "9"),
    ("topics", "delete", "orders", "--yes"),
]
READING = [("groups",), ("groups", "billing"), ("dlq", "ls", "billing")]


def placed(words, path):
    """A command line; the store's path stands behind the name of the command."""
    name = 2 if words[0] in ("dlq", "topics") else 1
    return (*words[:name], path, *words[name:])


@pytest.mark.parametrize("words", CHANGING, ids=" ".join)
def test_what_changes_a_store_waits_for_its_writer_to_end(run, path, words):
    before = {each: each.read_bytes() for each in (path / "config").glob("*.json*")}
    with reput.open(path):
        outcome = run(*placed(words, path))

    assert (outcome.code, outcome.out) == (4, "")
    assert "\n" not in outcome.err.strip()
    assert {each: each.read_bytes() for each in before} == before


@pytest.mark.parametrize("words", READING, ids=" ".join)
@pytest.mark.parametrize("form", [(), ("--json",)])
def test_what_reads_a_store_reads_it_beside_its_writer_and_changes_nothing(run, path, words, form):
    files = {each: each.read_bytes() for each in path.rglob("*") if each.is_file()}
    alone = run(*placed(words, path), *form)
    assert {each: each.read_bytes() for each in path.rglob("*") if each.is_file()} == files

    with reput.open(path):
        files = {each: each.read_bytes() for each in path.rglob("*") if each.is_file()}
        beside = run(*placed(words, path), *form)
        assert {each: each.read_bytes() for each in path.rglob("*") if each.is_file()} == files

    assert (alone.code, beside.code) == (0, 0)
    assert without_ages(beside.out) == without_ages(alone.out)


def without_ages(text):
    ages = r"[\d.,]+ ?(ms|s|min|m|h|d)\b( \d+ \w+)?|\(.*old\)"
    return re.sub(rf'{ages}|"writer_pid": (null|\d+)', "", text).split()


@pytest.mark.parametrize("words", [*CHANGING, *READING], ids=" ".join)
def test_where_there_is_no_store_each_command_says_so(run, tmp_path, words):
    outcome = run(*placed(words, tmp_path / "nowhere"))

    assert (outcome.code, outcome.out) == (3, "")
    assert "the store does not exist" in outcome.err


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("groups",), 0),
        (("groups", "billing"), 3),
        (("consume", "billing", "orders"), 3),
        (("reset-offset", "billing", "orders", "--to", "latest", "--yes"), 3),
        (("dlq", "ls", "billing"), 0),
        (("dlq", "resend", "billing", "--all", "--yes"), 3),
        (("topics", "create", "orders"), 0),
    ],
    ids=str,
)
def test_a_store_without_a_message_has_an_answer_to_each_command(run, steps, words, code):
    at = steps()
    at.store.close()

    assert run(*placed(words, at.root)).code == code
    assert run(*placed(words, at.root), "--json").code == (6 if "create" in words else code)


# ------------------------------------------------------------------ topics


def test_topics_are_created_and_altered(run, path):
    created = run("topics", "create", path, "new", "--queues", "8")
    altered = run("topics", "alter", path, "new", "--perm", "r", "--json").json

    assert created.out == "new: 8 queues, rw\n"
    assert (altered["read_queue_nums"], altered["perm"]) == (8, 4)
    assert '"readQueueNums":8' in (path / "config" / "topics.json").read_text()


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("create", "orders2", "--queues", "0"), 2),
        (("create", "a/b"), 2),
        (("alter", "orders2"), 2),
        (("alter", "orders2", "--queues", "3"), 3),
    ],
)
def test_topics_that_cannot_be_are_refused(run, path, arguments, code):
    which, topic, *options = arguments

    assert run("topics", which, path, topic, *options).code == code


def test_a_topic_is_deleted_with_the_offsets_of_its_groups(run, path):
    deleted = run("topics", "delete", path, "orders", "--yes")

    assert deleted.out == "orders: deleted, with the offsets of audit, billing\n"
    assert '"orders"' not in (path / "config" / "topics.json").read_text()
    assert "orders" not in run("groups", path, "billing").out
    again = run("topics", "delete", path, "orders", "--yes", "--json")
    assert (again.code, again.out) == (3, "")
    assert "reput info" in again.err


def test_deleting_a_topic_asks_first(run, path):
    refused = run("topics", "delete", path, "orders", stdin="n\n")
    done = run("topics", "delete", path, "orders", stdin="y\n")

    assert refused.code == 6
    assert "nothing was changed" in refused.err
    assert "audit, billing" in done.out


def test_a_topic_is_not_created_twice(run, path):
    run("topics", "create", path, "new")

    outcome = run("topics", "create", path, "new")

    assert outcome.code == 6
    assert "reput topics alter" in outcome.err
