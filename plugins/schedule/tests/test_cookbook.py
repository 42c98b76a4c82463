"""The page on delayed messages: its snippets run and print what they say."""

from __future__ import annotations

import re
from pathlib import Path

import attrs
import pytest

from reput_schedule import ScheduleConfig

DOCS = Path(__file__).resolve().parents[3] / "docs"
PAGE = (DOCS / "delayed-messages.md").read_text(encoding="utf-8")
SNIPPETS = re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


def test_every_snippet_runs_and_prints_what_it_says(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    names = {}

    for snippet in SNIPPETS:
        expected = re.findall(r"^print\(.*\)  # (.*)$", snippet, re.MULTILINE)
        exec(compile(snippet, "delayed-messages.md", "exec"), names)
        assert capsys.readouterr().out.splitlines() == expected, snippet

    assert len(SNIPPETS) > 5


@pytest.mark.parametrize("field", attrs.fields(ScheduleConfig), ids=lambda field: field.name)
def test_every_option_is_in_the_table_with_its_default(field):
    page = (DOCS / "configuration.md").read_text(encoding="utf-8")
    section = page.split("## `[schedule]`\n", 1)[1].split("\n## ", 1)[0]
    rows = dict(re.findall(r"^\| `(\w+)` \| `([^`]*)` \|", section, re.MULTILINE))

    shown = rows[field.name].strip('"').replace("_", "")
    assert shown == str(field.default).replace("_", "")
