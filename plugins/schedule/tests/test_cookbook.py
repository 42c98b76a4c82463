"""The page on delayed messages: its snippets run and print what they say."""

from __future__ import annotations

import re
from pathlib import Path

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
