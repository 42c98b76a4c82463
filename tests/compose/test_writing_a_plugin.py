"""The page that teaches how to write a plugin shows the example's own code."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path

import pytest

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
