"""``reput schedule``, as a user runs it."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

import reput
from reput.files import system_clock
from reput_schedule import delayed
from reput_tools.cli.root import reput as command


@pytest.fixture
def store(tmp_path):
    path = tmp_path / "store"
    names = ["consumequeue", "schedule"]
    with reput.open(path, plugins=names, config={"commitlog": {"file_size": 1 << 20}}) as store:
        for level in (17, 18, 18):
            store.put(delayed(reput.Message("orders", b"x"), level=level))
        store.put(delayed(reput.Message("orders", b"x"), deliver_at=system_clock() + 80_000_000))
        store.wait_dispatched(60)
    return path


def run(*arguments):
    result = CliRunner().invoke(command, ["schedule", *map(str, arguments)])
    assert result.exit_code == 0, result.stdout
    return result.stdout


def test_it_shows_levels_times_and_what_is_next(store):
    text = run(store)

    assert text.startswith("waiting   4 messages\nnext due")
    rows = [line.split() for line in text.splitlines()]
    assert ["17", "1h", "1"] in [row[:3] for row in rows]
    assert ["18", "2h", "2"] in [row[:3] for row in rows]
    assert ["timed", "-", "1"] in [row[:3] for row in rows]
    bars = [line for line in text.splitlines() if "█" in line]
    assert [bar.count("█") for bar in bars] == [20, 40, 20]
    assert [bar.split("  ")[0].strip() for bar in bars] == ["10m to 1h", "1h to 6h", "6h to 1d"]


def test_json_says_the_same_to_programs(store):
    document = json.loads(run(store, "--json"))

    assert document["message_count"] == 4
    assert document["delivered_by"] == "reput"
    assert [(each["level"], each["message_count"]) for each in document["levels"]] == [
        (17, 1),
        (18, 2),
    ]
    assert document["timed"]["message_count"] == 1
    assert document["next_timestamp"] == document["levels"][0]["next_timestamp"]
    assert sum(bar["message_count"] for bar in document["histogram"]) == 4


def test_a_store_of_rocketmq_says_who_delivers(golden_store):
    text = run(golden_store("delay"))

    assert "waiting       138 messages" in text
    assert "a RocketMQ broker" in text
    assert "overdue       138" in text


def test_a_store_in_which_nothing_waits_says_so(golden_store):
    assert run(golden_store("basic")) == "waiting  0 messages\n"
