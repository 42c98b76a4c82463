"""``reput compact``: what it does, prints, and returns to the shell."""

from __future__ import annotations

import inspect
import json
import logging

import pytest
from click.testing import CliRunner

import reput
from reput_tools.cli.root import reput as command

pytestmark = pytest.mark.sizes(compaction={"log_file_size": 1200, "queue_file_size": 200})
CONFIG = {
    "commitlog": {"file_size": 1 << 16},
    "compaction": {"topics": ["prices", "orders"]},
}


@pytest.fixture
def run():
    """``run("compact", path)``: exit code, stdout and stderr."""
    separate = "mix_stderr" in inspect.signature(CliRunner).parameters
    runner = CliRunner(**({"mix_stderr": False} if separate else {}))

    def invoke(*arguments):
        result = runner.invoke(command, [str(each) for each in arguments])
        return result.exit_code, result.stdout, result.stderr

    root = logging.getLogger()
    before = root.handlers[:], root.level
    yield invoke
    root.handlers[:], root.level = before


@pytest.fixture
def store(tmp_path):
    root = tmp_path / "store"
    with reput.open(root, plugins=["compaction"], config=CONFIG) as opened:
        for number in range(10):
            opened.put(reput.Message("prices", b"%d" % number, keys=f"k{number % 3}"))
        opened.put(reput.Message("orders", b"one", 2, keys="k"))
        opened.wait_dispatched()
    return root


def test_a_table_shows_what_became_of_each_queue(run, store):
    code, out, err = run("compact", store)

    assert (code, err) == (0, "")
    head, orders, prices = (line.split() for line in out.splitlines())
    assert head == ["TOPIC", "QUEUE", "MESSAGES", "KEPT", "SIZE", "KEPT", "FILES", "KEPT"]
    assert orders[:4] == ["orders", "2", "1", "1"]
    assert prices[:4] == ["prices", "0", "10", "3"]
    with reput.open(store, "r") as opened:
        assert [view.body for view in opened.read("prices", 0, 0)] == [b"7", b"8", b"9"]


def test_json_has_the_same_for_programs(run, store):
    code, out, _ = run("compact", store, "prices", "--json")

    (queue,) = json.loads(out)["queues"]
    assert code == 0
    assert {name: queue[name] for name in ("topic", "queue_id")} == {
        "topic": "prices",
        "queue_id": 0,
    }
    assert (queue["messages_before"], queue["messages_after"]) == (10, 3)
    assert queue["size_before"] > queue["size_after"] > 0
    assert (queue["files_before"], queue["files_after"]) == (4, 1)


def test_a_second_time_there_is_nothing_to_do(run, store):
    run("compact", store)

    assert run("compact", store) == (0, "nothing to compact\n", "")
    assert json.loads(run("compact", store, "--json")[1]) == {"queues": []}


def test_a_topic_that_is_not_compacted_is_not_found(run, store):
    code, out, err = run("compact", store, "prises")

    assert (code, out) == (3, "")
    assert "'prises' is not compacted; compacted topics: orders, prices" in err


@pytest.mark.costly
def test_several_processes_do_the_same(run, store):
    code, out, err = run("compact", store, "--jobs", 2, "--json")

    assert (code, err) == (0, "")
    kept = {each["topic"]: each["messages_after"] for each in json.loads(out)["queues"]}
    assert kept == {"orders": 1, "prices": 3}
    with reput.open(store, "r") as opened:
        assert [view.body for view in opened.read("prices", 0, 0)] == [b"7", b"8", b"9"]


def test_the_command_is_listed(run):
    _, out, _ = run("--help")

    assert "compact" in out
