"""The page about retention runs, and the table of options is the class."""

from __future__ import annotations

import contextlib
import io
import re
import tomllib
from pathlib import Path

import pytest

from reput.plugin import build_config
from reput_retention import RetentionConfig

ROOT = Path(__file__).resolve().parents[3]


def text_of(page):
    return (ROOT / page).read_text(encoding="utf-8")


def blocks_of(page, kind):
    return re.findall(rf"^```{kind}\n(.*?)^```$", text_of(page), flags=re.M | re.S)


def test_toml_of_the_page_is_a_configuration():
    (text,) = blocks_of("docs/retention.md", "toml")

    config = build_config(RetentionConfig, "retention", tomllib.loads(text)["retention"])

    assert config.is_active


def test_the_snippets_of_the_page_print_what_they_say(tmp_path, monkeypatch):
    pytest.importorskip("reput_consumequeue")
    monkeypatch.chdir(tmp_path)
    sources = blocks_of("docs/retention.md", "python")

    for source in sources:
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(source, "docs/retention.md", "exec"), {})
        said = re.findall(r"# prints (.*)$", source, flags=re.M)
        assert said
        assert printed.getvalue().splitlines() == said
