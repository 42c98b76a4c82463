"""A half message whose commit another plugin refuses is refused when it is prepared."""

from __future__ import annotations

import json
import pickle

import attrs
import pytest

import reput
from reput.errors import MessageIllegalError, PutError
from reput.files import system_clock
from reput.status import PutStatus
from reput_testing import ManualClock
from reput_transaction import CommitRefusedError

testing = pytest.importorskip("click.testing")
pytest.importorskip("rich")

from reput_tools.cli.root import reput as command  # noqa: E402

PLUGINS = ["compaction", "consumequeue", "schedule", "transaction"]
COMPACTED = {"compaction": {"topics": ["prices"]}}
LOG = {"commitlog": {"file_size": 65_536}}
REFUSED = {
    "compacted": reput.Message("prices", b"1"),
    "level": reput.Message("orders", b"1", properties={"DELAY": "soon"}),
    "time": reput.Message("orders", b"1", properties={"TIMER_DELIVER_MS": "soon"}),
}


def prepare(store, message):
    store.plugin("transaction").prepare(message)


def put_in_a_block(store, message):
    with store.plugin("transaction").transaction() as block:
        block.put(reput.Message("orders", b"0"))
        block.put(message)


def put_marked(store, message):
    marked = {**(message.properties or {}), "TRAN_MSG": "true"}
    store.put(attrs.evolve(message, properties=marked))


BEGIN = {"prepare": prepare, "block": put_in_a_block, "put": put_marked}


class LateRefusal(reput.Plugin):
    """Is called after the plugin ``transaction``, and refuses a topic."""

    name = "zz"

    @reput.hookimpl
    def reput_put(self, messages):
        if any(message.topic == "closed" for message in messages):
            raise MessageIllegalError("topic", "closed", None, "this topic is closed")


def opened(path, plugins=PLUGINS, **config):
    return reput.open(path, plugins=plugins, config={**LOG, **config})


@pytest.mark.parametrize("kind", REFUSED)
@pytest.mark.parametrize("by", BEGIN)
def test_what_a_plugin_refuses_at_the_commit_is_refused_when_prepared(tmp_path, kind, by):
    message = REFUSED[kind]
    with opened(tmp_path / "store", **COMPACTED) as store:
        transactions = store.plugin("transaction")

        with pytest.raises(PutError):
            BEGIN[by](store, message)

        store.wait_dispatched()
        assert transactions.dangling() == []
        assert not store.read("orders", 0, 0)


def test_a_plugin_that_is_called_after_transactions_refuses_too(tmp_path):
    plugins = [*PLUGINS, LateRefusal()]
    with opened(tmp_path / "store", plugins) as store:
        transactions = store.plugin("transaction")

        with pytest.raises(MessageIllegalError, match="this topic is closed"):
            transactions.prepare(reput.Message("closed", b"1"))
        half = transactions.prepare(reput.Message("open", b"1"))
        transactions.commit(half)

        assert transactions.dangling() == []


@pytest.fixture
def stuck(tmp_path):
    """A store with an open transaction whose topic was compacted after it was prepared."""
    path = tmp_path / "store"
    with opened(path) as store:
        store.plugin("transaction").prepare(reput.Message("prices", b"1"))
    return path


def test_a_commit_that_cannot_succeed_names_the_roll_back(stuck):
    with opened(stuck, **COMPACTED) as store:
        transactions = store.plugin("transaction")
        (half,) = transactions.dangling()

        with pytest.raises(CommitRefusedError) as raised:
            transactions.commit(half)

        error = raised.value
        assert isinstance(error, PutError)
        assert error.status is PutStatus.MESSAGE_ILLEGAL
        assert "prices is compacted by key" in str(error)
        assert f"--roll-back {half.transaction_id}" in str(error)
        assert str(pickle.loads(pickle.dumps(error))) == str(error)
        transactions.rollback(half)  # at once: nothing of the commit is in the log
        assert transactions.dangling() == []


def test_a_check_whose_commit_is_refused_leaves_the_plugin_running(stuck, caplog):
    clock = ManualClock(system_clock() + 60_000)
    config = {**LOG, **COMPACTED}
    with reput.open(stuck, plugins=PLUGINS, config=config, threads=False, clock=clock) as store:
        store.plugin("transaction").on_check(lambda half: "commit")
        for _ in range(10):
            clock.now += 60_000
            store.work()

        assert len(store.plugin("transaction").dangling()) == 1

    assert "it stays open" in caplog.text
    assert "--roll-back" in caplog.text
    assert "suspended" not in caplog.text


def test_the_command_names_the_roll_back(stuck):
    with opened(stuck, **COMPACTED) as store:
        (half,) = store.plugin("transaction").dangling()
    topics = {"prices": {"topicName": "prices", "attributes": {"cleanup.policy": "COMPACTION"}}}
    (stuck / "config" / "topics.json").write_text(json.dumps({"topicConfigTable": topics}))
    run, path = testing.CliRunner().invoke, str(stuck)

    listed = run(command, ["transactions", path])
    refused = run(command, ["transactions", path, "--commit", half.transaction_id, "--yes"])
    ended = run(command, ["transactions", path, "--roll-back", half.transaction_id, "--yes"])

    assert f"--commit {half.transaction_id}`, or with --roll-back" in listed.output
    assert refused.exit_code == 6
    assert f"--roll-back {half.transaction_id}`" in refused.output
    assert ended.exit_code == 0
    assert "No open transactions" in run(command, ["transactions", path]).output
