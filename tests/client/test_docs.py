"""The page of the client says what is so: snippets run, its table has every option and error."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path

import attrs
import pytest
from fakecluster import FakeCluster

import reput_client
from reput_client import ClientOptions

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "client.md").read_text("utf-8")


@pytest.mark.timeout(60)
def test_the_snippets_run_from_top_to_bottom_and_print_what_they_say(cluster: FakeCluster) -> None:
    code = "\n".join(re.findall(r"```python\n(.*?)```", PAGE, flags=re.S))
    printed = io.StringIO()

    with contextlib.redirect_stdout(printed):
        exec(compile(code.replace("127.0.0.1:9876", cluster.address), "client.md", "exec"), {})

    expected = re.findall(r"^ *print\(.*\)  # (.*)$", code, flags=re.M)
    assert len(expected) == 7
    assert printed.getvalue().splitlines() == expected


def test_the_table_of_options_names_some_with_their_defaults() -> None:
    table = PAGE.split("## Options")[1].split("\n## ")[0]
    rows = re.findall(r"^\| (`.*?) \| (.*?) \|", table, flags=re.M)
    shown = [
        (name, value)
        for names, values in rows
        for name, value in zip(re.findall(r"`(\w+)`", names), values.split(", "), strict=False)
    ]
    known = {each.name: each.default for each in attrs.fields(ClientOptions)}

    assert {name for name, _ in shown} <= known.keys()
    numbers = [(name, float(value)) for name, value in shown if value.isdigit()]
    assert numbers == [(name, float(known[name])) for name, _ in numbers]
    assert len(numbers) >= 6


def test_errors_of_the_table_are_errors_of_the_package() -> None:
    table = PAGE.split("## When something fails")[1].split("\n## ")[0]

    for name in re.findall(r"`(\w+Error)`", table):
        assert issubclass(getattr(reput_client, name), reput_client.ClientError)
