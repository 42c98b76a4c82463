from __future__ import annotations

import threading

import pytest

import reput
from reput_tools.cli.command import cat
from reput_tools.cli.kit.exitcodes import ExitCode
from reput_tools.cli.kit.timestamps import Start
from reput_tools.cli.messages import queuereader


@pytest.mark.parametrize("case", ["basic", "slow", "v6", "batch", "transaction"])
def test_a_topic_is_what_java_put_in_the_order_of_storing(
    run, golden_store, golden_rows, case
) -> None:
    path = golden_store(case)
    units = {}
    for row in golden_rows(case, "queue"):
        for queue_offset, (physical_offset, size, _) in enumerate(row["units"], row["min_offset"]):
            place = row["queue_id"], queue_offset, size
            units.setdefault(row["topic"], {})[physical_offset] = place

    for topic, expected in units.items():
        lines = run("cat", path, topic, "--json").lines

        found = [
            (line["physical_offset"], (line["queue_id"], line["queue_offset"], line["size"]))
            for line in lines
        ]
        assert found == sorted(expected.items())


def test_one_queue_from_an_offset_on(run, golden_store, golden_rows) -> None:
    path = golden_store("basic")
    row = max(golden_rows("basic", "queue"), key=lambda row: row["max_offset"])

    lines = run(
        *("cat", path, row["topic"], "--queue", row["queue_id"]),
        *("--from", 40, "--count", 5, "--json"),
    ).lines

    assert [line["queue_offset"] for line in lines] == [40, 41, 42, 43, 44]
    assert [line["physical_offset"] for line in lines] == [unit[0] for unit in row["units"][40:45]]


def test_an_offset_after_the_end_of_all_queues_is_reported(run, golden_store, golden_rows) -> None:
    path = golden_store("basic")
    topic = golden_rows("basic", "put")[0]["topic"]

    outcome = run("cat", path, topic, "--from", "99999999")

    assert "--from 99999999 is after the last message; the queues end at " in outcome.err
    assert (outcome.code, outcome.out) == (0, "")


def test_a_trimmed_queue_begins_where_it_begins_now(run, golden_store, golden_rows) -> None:
    path = golden_store("trimmed")
    row = next(row for row in golden_rows("trimmed", "queue") if row["min_offset"])

    for start in ("earliest", "0"):
        lines = run(
            *("cat", path, row["topic"], "--queue", row["queue_id"], "--from", start),
            *("--count", 1, "--json"),
        ).lines

        assert [line["queue_offset"] for line in lines] == [row["min_offset"]]


def test_messages_since_a_time(run, golden_store, golden_rows) -> None:
    path = golden_store("slow")
    puts = golden_rows("slow", "put")
    topic = puts[len(puts) // 2]["topic"]
    since = puts[len(puts) // 2]["store_timestamp"]

    lines = run("cat", path, topic, "--from", f"@{since}", "--json").lines

    assert [line["msg_id"] for line in lines] == [
        row["msg_id"] for row in puts if row["topic"] == topic and row["store_timestamp"] >= since
    ]


def test_latest_is_behind_everything(run, golden_store, golden_rows) -> None:
    path = golden_store("basic")
    topic = golden_rows("basic", "put")[0]["topic"]

    outcome = run("cat", path, topic, "--from", "latest")

    assert outcome == (ExitCode.OK, "", "", b"")


def test_a_topic_that_is_not_there_names_the_one_that_was_meant(run, queue_store) -> None:
    path = queue_store(reput.Message("orders", b"x"))

    outcome = run("cat", path, "ordres")

    assert outcome.code == ExitCode.NOT_FOUND
    assert "did you mean 'orders'?" in outcome.err


def test_a_queue_that_is_not_there_names_those_there_are(run, queue_store) -> None:
    path = queue_store(*(reput.Message("orders", b"x", queue_id=each) for each in range(3)))

    outcome = run("cat", path, "orders", "--queue", 7)

    assert outcome.code == ExitCode.NOT_FOUND
    assert "has no queue 7; it has 0, 1, 2" in outcome.err


@pytest.fixture
def follow(run, monkeypatch):
    """``follow(path, arriving, *options)``: of what arrives, one message comes with each wait."""

    def follow(path, arriving, *options):
        left = iter(arriving)
        with reput.open(path) as writer:

            def wait(self) -> bool:
                message = next(left, None)
                if message is None:
                    raise KeyboardInterrupt
                writer.put(message)
                assert writer.wait_dispatched(timeout=30)
                return True

            monkeypatch.setattr(cat._Waiting, "wait", wait)
            monkeypatch.setattr(queuereader, "_LOOKS_FOR_QUEUES", 1)
            return run("cat", path, "orders", "--follow", *options)

    return follow


def test_following_shows_what_arrives_and_ends_with_ctrl_c(follow, queue_store) -> None:
    path = queue_store(reput.Message("orders", b"before"))
    arriving = [
        reput.Message("orders", b"one"),
        reput.Message("audit", b"not this one"),
        reput.Message("orders", b"two", queue_id=3),
    ]

    outcome = follow(path, arriving, "--format", "%q@%o %s")

    assert outcome.code == ExitCode.OK
    assert outcome.out.splitlines() == ["0@0 before", "0@1 one", "3@0 two"]


def test_following_waits_for_a_topic_that_does_not_exist_yet(follow, queue_store) -> None:
    path = queue_store(reput.Message("audit", b"x"))

    outcome = follow(path, [reput.Message("orders", b"here")], "--format", "%s", "--count", 1)

    assert outcome.out == "here\n"
    assert "waiting for it" in outcome.err


def test_following_from_latest_begins_with_what_comes(follow, queue_store) -> None:
    path = queue_store(reput.Message("orders", b"before"))
    options = ("--from", "latest", "--format", "%s", "--count", 1)

    outcome = follow(path, [reput.Message("orders", b"after")], *options)

    assert outcome.out == "after\n"


def test_what_arrives_between_two_looks_comes_in_order(queue_store) -> None:
    path = queue_store()
    with reput.open(path) as writer, reput.open(path, mode="r") as store:
        for number in range(40):
            writer.put(reput.Message("orders", b"%d" % number, queue_id=number * 7 % 4))
        assert writer.wait_dispatched(timeout=30)
        readers = [
            queuereader.QueueReader(store, queue, Start("earliest")) for queue in store.queues()
        ]

        found = list(queuereader.follow(readers, lambda known: [], lambda: False))

    assert [int(placed.message.body) for placed in found] == list(range(40))


def test_reading_ends_where_the_queues_ended_when_it_began(queue_store) -> None:
    path = queue_store(*(reput.Message("orders", b"%d" % each) for each in range(1000)))
    stop = threading.Event()
    with reput.open(path) as writer, reput.open(path, mode="r") as store:

        def write() -> None:
            while not stop.is_set():
                writer.put(reput.Message("orders", b"more"))

        readers = [
            queuereader.QueueReader(store, queue, Start("earliest")) for queue in store.queues()
        ]
        thread = threading.Thread(target=write)
        thread.start()
        try:
            found = list(queuereader.merged(readers))
        finally:
            stop.set()
            thread.join()

    assert [placed.queue_offset for placed in found] == list(range(1000))
