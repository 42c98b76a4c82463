"""``reput transactions``: what is open, and ending it by hand."""

from __future__ import annotations

import json

import pytest
from statefiles import manifest_of

import reput
from reput_testing.disks.filedamage import traces

testing = pytest.importorskip("click.testing")
pytest.importorskip("rich")

from reput_tools.cli.root import reput as command  # noqa: E402

OP = "RMQ_SYS_TRANS_OP_HALF_TOPIC"


def run(*arguments, stdin=None):
    return testing.CliRunner().invoke(command, ["transactions", *map(str, arguments)], input=stdin)


@pytest.fixture
def at(steps):
    """A closed store with three open transactions, two of one block."""
    found = steps()
    half = found.store.plugin("transaction").prepare(
        reput.Message("orders", b"1", 2, keys=["k1", "k2"]), group="g"
    )
    members = (
        found.store.plugin("transaction")
        .transaction("h")
        .put_many([reput.Message("orders", b"2"), reput.Message("payments", b"3")])
    )
    found.ids = [each.transaction_id for each in (half, *members)]
    found.store.close()
    return found


def test_a_table_shows_what_is_open(at):
    lines = run(at.root).output.splitlines()

    assert lines[0].split() == ["AGE", "FOR", "KEYS", "GROUP", "CHECKED", "ID"]
    assert lines[1].split()[-5:] == ["k1", "k2", "g", "0", at.ids[0]]
    assert "orders/2" in lines[1]
    assert "payments/0" in lines[3]
    assert "3 open transactions" in lines[-1]


def test_json_has_everything(at):
    document = json.loads(run(at.root, "--json", "--group", "g").output)

    (found,) = document["transactions"]
    assert found.pop("age_ms") > 0
    assert found.pop("msg_id").endswith("00" * 8)
    assert found.pop("store_timestamp") == found.pop("born_timestamp") == at.clock.now
    assert found == {
        "id": at.ids[0],
        "member_of": None,
        "topic": "orders",
        "queue_id": 2,
        "keys": ["k1", "k2"],
        "tags": None,
        "group": "g",
        "times_checked": 0,
        "half_queue_offset": 0,
        "physical_offset": 0,
        "body_size": 1,
    }


def test_looking_changes_nothing(at):
    before = traces(at.root)

    assert run(at.root).exit_code == 0
    assert run(at.root, "--commit", "nobody", "--yes").exit_code == 3
    assert run(at.root, "--commit", at.ids[0], stdin="n\n").exit_code == 6

    assert traces(at.root) == before


def test_a_commit_by_hand_takes_its_transaction_along_and_writes_markers(at):
    result = run(at.root, "--commit", at.ids[1], "--roll-back", at.ids[0], stdin="y\n")

    assert result.exit_code == 0, result.output
    assert f"{at.ids[1]}: committed" in result.output
    assert f"{at.ids[0]}: rolled back" in result.output
    at.open()
    assert at.bodies("orders") == [b"2"]
    assert at.bodies("payments") == [b"3"]
    assert at.bodies("orders", 2) == []
    assert sorted(b"".join(at.bodies(OP)).split(b",")) == [b"", b"0", b"1", b"2"]
    assert at.store.plugin("transaction").dangling() == []


def test_an_id_of_a_message_that_ends_with_another_is_no_error(at):
    result = run(at.root, "--commit", at.ids[1], "--commit", at.ids[2], "--yes", "--json")

    document = json.loads(result.output)
    assert [each["outcome"] for each in document["ended"]] == ["commit", "commit"]
    assert document["ended"][1]["physical_offset"] is None


def test_contradictions_are_refused(at):
    assert run(at.root, "--commit", at.ids[0], "--roll-back", at.ids[0]).exit_code == 2


def test_a_store_that_does_not_use_the_plugin_stays_so(at):
    config = {"commitlog": {"file_size": 65_536}}
    with reput.open(at.root, plugins=["consumequeue"], forget=["transaction"], config=config):
        pass

    result = run(at.root, "--commit", at.ids[0], "--yes")

    assert result.exit_code == 0, result.output
    with reput.open(at.root, "r") as store:
        assert store.read("orders", 2, 0).messages[0].body == b"1"
        assert store.read(OP, 0, 0).messages[0].body == b"0,"

    assert manifest_of(at.root).plugins == ("consumequeue",)


def test_a_store_of_rocketmqs_is_looked_into_without_a_trace(golden_store):
    root = golden_store("transaction")
    before = traces(root)

    assert "No open transactions" in run(root).output
    assert json.loads(run(root, "--json").output)["transactions"] == []

    assert traces(root) == before
