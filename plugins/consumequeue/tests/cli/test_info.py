from __future__ import annotations

import os

import pytest

import reput
from reput_tools.cli.kit.exitcodes import ExitCode

CASES = ["basic", "slow", "v6", "batch", "transaction", "trimmed", "ext", "delay"]


@pytest.mark.parametrize("case", CASES)
def test_every_queue_is_as_java_says(run, golden_store, golden_rows, case) -> None:
    path = golden_store(case)

    outcome = run("info", path, "--json")

    found = {
        (topic["topic"], queue["queue_id"]): (queue["min_queue_offset"], queue["max_queue_offset"])
        for topic in outcome.json["topics"]
        for queue in topic["queues"]
    }
    java = {
        (row["topic"], row["queue_id"]): (row["min_offset"], row["max_offset"])
        for row in golden_rows(case, "queue")
    }
    assert outcome.code == ExitCode.OK
    # Java lists queues that nobody ever wrote, too.
    assert {queue: java[queue] for queue in found} == found
    assert {queue for queue, (_, end) in java.items() if end} <= found.keys()


def test_the_last_update_is_the_store_time_of_the_newest_message(
    run, golden_store, golden_rows
) -> None:
    path = golden_store("basic")
    newest: dict[str, int] = {}
    for row in golden_rows("basic", "put"):
        newest[row["topic"]] = row["store_timestamp"]

    topics = run("info", path, "--json").json["topics"]

    assert {each["topic"]: each["last_update_timestamp"] for each in topics} == newest


def test_people_see_topics_and_plugins(run, queue_store) -> None:
    path = queue_store(
        *(reput.Message("orders", b"x", queue_id=each % 4) for each in range(10)),
        reput.Message("audit", b"y"),
    )

    outcome = run("info", path)

    assert outcome.code == ExitCode.OK
    assert "11 in 2 topics, 5 queues" in outcome.out
    rows = {line.split()[0]: line.split() for line in outcome.out.splitlines() if line}
    assert rows["orders"][1:5] == ["4", "10", "0", "3"]
    assert rows["consumequeue"][2] == "idle"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_directory_that_may_not_be_written_can_be_read(run, golden_store) -> None:
    path = golden_store("basic")
    for each in [path, *path.rglob("*")]:
        each.chmod(0o555)

    outcome = run("info", path)

    for each in [path, *path.rglob("*")]:
        each.chmod(0o755)
    assert outcome.code == ExitCode.OK
