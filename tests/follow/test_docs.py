"""The page about following says what is so: its snippet runs, its tables have every state."""

from __future__ import annotations

import contextlib
import io
import json
import re
from pathlib import Path

import click
import pytest
from fakemaster import FILE_SIZE, FakeLog, FakeMaster
from masterlogs import CONFIG, bytes_of

import reput
from reput_server.follow import FollowEndedError, State
from reput_server.follow.command.follow import follow
from reput_server.follow.command.metrics import METRICS
from reput_server.follow.command.run import exit_code_of

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "follow.md").read_text("utf-8")


def rows(section: str) -> list[list[str]]:
    table = PAGE.split(f"## {section}")[1].split("\n## ")[0]
    return [
        [cell.strip() for cell in line.strip("|").replace("\\|", "/").split(" | ")]
        for line in re.findall(r"^(\| `.*\|)$", table, flags=re.M)
    ]


@pytest.mark.timeout(60)
def test_the_snippet_runs_and_prints_what_it_says(tmp_path, monkeypatch):
    with reput.open(tmp_path / "master", plugins=[], config=CONFIG) as store:
        store.put(reput.Message("orders", b"one book", keys="order-1"))
        log = FakeLog(bytes_of(store), file_size=FILE_SIZE)
    (code,) = re.findall(r"```python\n(.*?)```", PAGE, flags=re.S)
    printed = io.StringIO()
    monkeypatch.chdir(tmp_path)

    with FakeMaster(log) as master, contextlib.redirect_stdout(printed):
        exec(compile(code.replace("broker-host:10911", master.address), "follow.md", "exec"), {})

    expected = re.findall(r"^ *print\(.*\)  # (.*)$", code, flags=re.M)
    assert len(expected) == 3
    assert printed.getvalue().splitlines() == expected


def test_the_table_of_states_has_all_of_them_with_their_exit_codes():
    shown = {cells[0].strip("| `"): cells[1] for cells in rows("When it ends")}

    assert set(shown) == {each.value for each in State} - {"connecting", "following"}
    for each in State:
        if each.is_final and each is not State.STOPPED:
            error = FollowEndedError(each, "", "")
            assert shown[each.value] == str(int(exit_code_of(error))), each


def test_the_table_of_options_names_those_that_exist():
    named = {
        name for cells in rows("On the command line") for name in re.findall(r"--[a-z-]+", cells[0])
    }

    known = {
        option for each in follow.params if isinstance(each, click.Option) for option in each.opts
    }
    assert len(named) > 5
    assert named <= known


def test_the_board_asks_for_metrics_that_exist_and_shows_all():
    path = (
        Path(__file__).resolve().parents[2]
        / "extras"
        / "server"
        / "grafana"
        / "follower"
        / "board.json"
    )
    board = json.loads(path.read_text("utf-8"))

    queries = [target["expr"] for panel in board["panels"] for target in panel["targets"]]
    queries += [each["query"] for each in board["templating"]["list"] if each["type"] == "query"]
    named = {name for query in queries for name in re.findall(r"\breput_\w+", query)}
    assert named == set(METRICS)


def test_the_table_of_metrics_has_all_of_them():
    named = {re.match(r"\| `(\w+)", "| " + cells[0].lstrip("| "))[1] for cells in rows("Metrics")}

    assert named == set(METRICS)
