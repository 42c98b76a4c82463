"""What the page of the command line shows is what the commands print, but for numbers and names."""

from __future__ import annotations

import re
import shlex

import pytest
from commands import commands
from pages import blocks_of, commands_of

import reput
from reput_schedule import delayed

SMALL = {"commitlog": {"file_size": 1 << 16}}
# The page's example of a plugin is a third party's, and not installed here; its messages are ours.
NAMES = {"audit": "index", "STORE": "store"}
_NUMBER = re.compile(r"~?\d[\d,.:-]*")
_UNIT = re.compile(r"\b0 (?:min 0 s|GiB|MiB|KiB|B|ms|s|h|min)\b(?:/s)?")
_SHOWN = {
    command: output
    for block in blocks_of("docs/cli.md")
    if block.kind == "console"
    for command, output in commands_of(block)
    if output
}


def frame_of(text):
    """Lines without numbers, units and spaces between columns, and with the names of the test."""
    lines = []
    for line in text.splitlines():
        for name, other in NAMES.items():
            line = re.sub(rf"\b{name}\b", other, line)
        line = _UNIT.sub("0 B", re.sub(r"\s+", " ", _NUMBER.sub("0", line)).strip())
        line = re.sub(r"\(in [^)]*\)", "(in 0 B)", line.replace("in one piece", "0 splits"))
        lines.append(line)
    return [line for line in lines if line and "█" not in line]  # bars are of their numbers


def put_orders(path, plugins):
    with reput.open(path, plugins=plugins, config=SMALL) as store:
        for number in range(400):
            store.put(reput.Message("orders", b"x" * 200, keys=[f"k{number}"]))
        store.wait_dispatched()


def put_prices(path):
    plugins = ["consumequeue", "compaction"]
    config = {**SMALL, "compaction": {"topics": ["prices"]}}
    with reput.open(path, plugins=plugins, config=config) as store:
        for key in ("a", "b", "a", "c"):
            store.put(reput.Message("prices", b"1", keys=key))
        store.wait_dispatched()


def put_delayed(path):
    with reput.open(path, plugins=["consumequeue", "schedule"], config=SMALL) as store:
        store.put(delayed(reput.Message("orders", b"x"), level=17))
        store.put(delayed(reput.Message("orders", b"x"), level=18))
        store.put(delayed(reput.Message("orders", b"x"), level=18))
        store.put(delayed(reput.Message("orders", b"x"), delay_ms=86_400_000))
        store.wait_dispatched()


CASES = [
    ("reput plugins STORE --plan", lambda path: put_orders(path, ["consumequeue", "index"])),
    ("reput suspend STORE audit", lambda path: put_orders(path, ["consumequeue", "index"])),
    ("reput backfill STORE audit", lambda path: put_orders(path, ["consumequeue"])),
    ("reput rebuild STORE", lambda path: put_orders(path, ["consumequeue", "index"])),
    ("reput compact STORE", put_prices),
    ("reput schedule STORE", put_delayed),
]


@pytest.mark.parametrize(("command", "make"), CASES, ids=[command for command, _ in CASES])
def test_a_command_prints_what_the_page_shows(command, make, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    make("store")
    words = shlex.split(command)[1:]

    with commands() as run:
        outcome = run(*(NAMES.get(word, word) for word in words))

    said = frame_of(outcome.out + outcome.err)
    assert outcome.code == 0, outcome.err
    assert [line for line in frame_of(_SHOWN[command]) if line not in said] == [], said


def test_a_resumed_plugin_is_told_as_the_page_shows(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    put_orders("store", ["consumequeue", "index"])

    with commands() as run:
        run("suspend", "store", "index")
        outcome = run("resume", "store", "index")

    said = frame_of(outcome.out + outcome.err)
    shown = frame_of(_SHOWN["reput resume STORE audit"])
    assert [line for line in shown if line not in said] == []
