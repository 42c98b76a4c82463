"""An export of topics that the log does not have is refused, and leaves nothing."""

from __future__ import annotations

import pytest
from commands import commands
from exportedstores import make_store

import reput


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    return make_store(tmp_path_factory.mktemp("topics") / "store")


@pytest.fixture
def run():
    with commands() as run:
        yield lambda *arguments: run("export", *arguments)


def test_an_export_of_no_topic_of_the_log_is_not_found(made, tmp_path, run):
    outcome = run(made, tmp_path / "out", "--topic", "nope")

    assert outcome.code == 3
    assert outcome.err.startswith("reput: ")
    assert "'nope'" in outcome.err
    assert list(tmp_path.iterdir()) == []


def test_other_conditions_may_leave_nothing(made, tmp_path, run):
    outcome = run(made, tmp_path / "out", "--topic", "orders", "--since", "2030-01-01")

    assert outcome.code == 0
    assert "no message is of what was asked for" in outcome.err


def test_one_topic_of_several_suffices(made, tmp_path, run):
    assert run(made, tmp_path / "out", "-t", "nope", "-t", "orders", "-j", "1").code == 0


def test_a_mistyped_topic_is_suggested(tmp_path, run):
    pytest.importorskip("reput_consumequeue")
    with reput.open(tmp_path / "store", plugins=["consumequeue"]) as store:
        store.put(reput.Message("orders", b"1"))

    outcome = run(tmp_path / "store", tmp_path / "out", "--topic", "order")

    assert outcome.code == 3
    assert outcome.err.endswith("; did you mean 'orders'?\n")
