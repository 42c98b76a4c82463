"""All commands that take a topic say the same of one that a store does not have."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

import reput
from reput_tools.cli.root import reput as program


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    root = tmp_path_factory.mktemp("unknown") / "store"
    with reput.open(root, plugins=["consumequeue", "consumer"]) as opened:
        opened.put(reput.Message("orders", b"Berlin"))
    return str(root)


@pytest.mark.parametrize(
    ("command", "others"),
    [
        ("cat", ["ordres"]),
        ("info", ["-t", "ordres"]),
        ("grep", ["Berlin", "-t", "ordres"]),
        ("sql", ["SELECT 1", "-t", "ordres"]),
        ("export", ["OUT", "-t", "ordres"]),
        ("consume", ["billing", "ordres"]),
        ("reset-offset", ["billing", "ordres", "--to", "earliest"]),
        ("topics delete", ["ordres"]),
    ],
)
def test_an_unknown_topic_ends_a_command_with_the_nearest_name(store, command, others, tmp_path):
    others = [str(tmp_path / each) if each == "OUT" else each for each in others]

    done = CliRunner().invoke(program, [*command.split(), store, *others, *_sure(command)])

    assert done.exit_code == 3, done.output
    assert done.output == f"reput: {store}: no topic 'ordres'; did you mean 'orders'?\n"


def _sure(command: str) -> list[str]:
    return ["-y"] if command == "topics delete" else []


@pytest.mark.parametrize(
    ("command", "others"),
    [
        ("grep", ["Berlin"]),
        ("sql", ["SELECT count(*) FROM messages"]),
        ("export", ["OUT", "--format", "jsonl"]),
    ],
)
def test_beside_another_topic_an_unknown_one_is_a_warning(store, command, others, tmp_path):
    others = [str(tmp_path / each) if each == "OUT" else each for each in others]

    done = CliRunner().invoke(program, [command, store, *others, "-t", "ordres", "-t", "orders"])

    assert done.exit_code == 0, done.output
    assert done.stderr == "reput: no topic 'ordres'; did you mean 'orders'?\n"
