"""The pages say what is so: snippets run, tables are the classes'."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path

import attrs

from reput_consumer import ConsumerConfig, MemberSettings
from reput_consumer.metadata import localoffsets
from reput_consumer.queues import MessageQueue

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "consumer-groups.md").read_text("utf-8")


def test_the_snippets_run_from_top_to_bottom_and_print_what_they_say(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code = "\n".join(re.findall(r"```python\n(.*?)```", PAGE, flags=re.S))
    printed = io.StringIO()

    with contextlib.redirect_stdout(printed):
        exec(compile(code, "consumer-groups.md", "exec"), {})

    expected = re.findall(r"^ *print\(.*\)  # (.*)$", code, flags=re.M)
    assert len(expected) == 6
    assert printed.getvalue().splitlines() == expected


def test_the_table_of_options_is_the_class():
    page = (ROOT / "docs" / "configuration.md").read_text("utf-8")
    section = page.split("## `[consumer]`\n")[1].split("\n## ")[0]
    rows = re.findall(r"^\| `(\w+)` \| (\S+) \| ", section, flags=re.M)

    shown = [(name, None if value == "none" else eval(value.strip("`"))) for name, value in rows]

    assert shown == [(field.name, field.default) for field in attrs.fields(ConsumerConfig)]


def test_arguments_that_the_page_names_are_settings():
    table = PAGE.split("## For those who come from the Java client")[1]
    named = set(re.findall(r"`(\w+)=", table))

    known = {field.name for field in attrs.fields(MemberSettings)} | {"done", "level", "threads"}
    assert named - known <= {"start", "broadcast", "strategy", "run"}


def test_local_offsets_of_the_page_are_the_code_s():
    page = (ROOT / "docs" / "formats.md").read_text("utf-8")

    assert localoffsets.encode({MessageQueue("T", "broker-a", 0): 12}).decode() in page
