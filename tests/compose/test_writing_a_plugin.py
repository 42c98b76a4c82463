"""The page that teaches how to write a plugin shows the examples' own code."""

from __future__ import annotations

import ast
import re
import textwrap
from pathlib import Path

import attrs
import pytest

from reput.files import Disk
from reput.record import DispatchBatch, TextColumn
from reput_table import Schema

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "writing-a-plugin.md"
SNIPPET = re.compile(r"^(?:<!-- (\S+) -->\n)?```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SNIPPETS = SNIPPET.findall(PAGE.read_text(encoding="utf-8"))
QUOTED = [(source, text) for source, _, text in SNIPPETS if source]


@pytest.mark.parametrize(("source", "text"), QUOTED, ids=lambda part: part.split("\n")[0])
def test_a_snippet_stands_in_the_file_that_it_names(source, text):
    lines = textwrap.dedent(text).splitlines()
    file = (ROOT / source).read_text(encoding="utf-8").splitlines()

    windows = (file[at : at + len(lines)] for at in range(len(file)))

    assert any(textwrap.dedent("\n".join(window)).splitlines() == lines for window in windows)


def test_all_code_is_quoted_from_somewhere():
    unquoted = [kind for source, kind, _ in SNIPPETS if not source and kind != "console"]

    assert unquoted == []
    assert len(QUOTED) > 10


def test_all_four_files_are_shown():
    files = sorted((ROOT / "examples/reput-audit/src/reput_audit").glob("[!_]*.py"))
    counts = ROOT / "examples/reput-audit/src/reput_audit/_counts.py"

    shown = {ROOT / source for source, _ in QUOTED}

    assert {*files, counts} <= shown


def table_names(heading):
    """Names in the first column of the table under a heading."""
    text = PAGE.read_text(encoding="utf-8").partition(f"\n{heading}\n")[2]
    rows = re.findall(r"^\| (`.*?) \|", text.partition("\n##")[0], re.MULTILINE)
    return [name for row in rows for name in re.findall(r"`(\w+)`", row)]


def public_names(kind):
    fields = getattr(kind, "__slots__", ()), getattr(kind, "__annotations__", {})
    return {name for name in (*dir(kind), *fields[0], *fields[1]) if not name.startswith("_")}


@pytest.mark.parametrize("kind", [DispatchBatch, Disk], ids=lambda kind: kind.__name__)
def test_the_table_of_what_a_plugin_is_given_has_names_that_exist(kind):
    named = table_names(f"### `{kind.__name__}`")

    assert len(named) > 10
    assert set(named) <= public_names(kind)


def test_the_text_about_columns_of_texts_has_names_that_exist():
    text = PAGE.read_text(encoding="utf-8").partition("A *text column*")[2].partition("\n\n")[0]
    named = re.findall(r"`([a-z_]+)`", text)

    assert len(named) > 3
    assert set(named) <= public_names(TextColumn)


def test_every_argument_of_a_schema_is_explained():
    named = table_names("## 1. A table")

    assert {field.name for field in attrs.fields(Schema)} <= set(named)


@pytest.mark.parametrize("file", ["examples/words.py", "examples/looking.py"])
def test_the_page_shows_each_function_of_the_short_examples(file):
    shown = {
        line.strip() for source, text in QUOTED if source == file for line in text.splitlines()
    }
    lines = (ROOT / file).read_text(encoding="utf-8").splitlines()
    definitions = [
        node
        for node in ast.parse("\n".join(lines)).body
        if isinstance(node, (ast.ClassDef, ast.FunctionDef))
    ]

    missing = [
        node.name for node in definitions if lines[node.body[-1].lineno - 1].strip() not in shown
    ]

    assert len(definitions) > 1
    assert missing == []
