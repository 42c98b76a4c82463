"""Drawings are those that the script draws, and show what the formats are."""

from __future__ import annotations

import re
import subprocess
import sys
from xml.etree import ElementTree as ET

import pytest
from pages import DOCS, ROOT, text_of

from reput.record import java_string_hash
from reput.record.layout import HEADER_DTYPE

IMAGES = DOCS / "images"
SVG = "{http://www.w3.org/2000/svg}"


def words_of(name):
    tree = ET.parse(IMAGES / name)
    return ["".join(node.itertext()) for node in tree.iter(f"{SVG}text")]


def test_the_drawings_are_those_that_the_script_draws(tmp_path):
    script = DOCS / "site" / "figures"

    subprocess.run([sys.executable, str(script), str(tmp_path)], check=True)

    drawn = {path.name: path.read_text(encoding="utf-8") for path in tmp_path.iterdir()}
    assert drawn
    for name, text in drawn.items():
        assert (IMAGES / name).read_text(encoding="utf-8") == text, f"{name}: run `make pictures`"


@pytest.mark.parametrize("path", sorted(IMAGES.glob("*.svg")), ids=lambda path: path.name)
def test_a_picture_can_be_told_to_those_who_do_not_see_it(path):
    root = ET.parse(path).getroot()

    assert root.get("role") == "img"
    title = root.find(f"{SVG}title")
    assert title is not None
    assert title.text


def test_the_terminal_begins_with_its_last_frame():
    style = ET.parse(IMAGES / "terminal.svg").getroot().find(f"{SVG}style").text
    animated = re.findall(r"animation:([^}]*)}", style)

    # Nothing is hidden before the delay is over, nor where animations do not play.
    assert [each.split()[2:] for each in animated] == [["linear", "3.0s"]]
    assert "animation-delay" not in style
    outside = re.sub(r"@media.*$", "", style, flags=re.DOTALL)
    assert "opacity" not in outside
    assert "animation" not in outside


def test_the_record_has_every_field_of_the_header_where_it_is():
    words = words_of("record.svg")

    for name in HEADER_DTYPE.names:
        dtype, at = HEADER_DTYPE.fields[name][:2]
        place = words.index(name)
        assert words[place - 1] == str(at)
        assert words[place + 1] == f"{dtype.itemsize} bytes"


def test_the_slots_of_the_index_file_are_the_hashes_of_its_keys():
    page = text_of("docs/anatomy-of-an-index-file.md")
    words = words_of("index-file.svg")

    rows = re.findall(r"^\| (\d) \| `([^`]+)` \|.*\| (\d+) \| (\d) \|$", page, re.MULTILINE)

    assert len(rows) == 5
    for _, text, value, slot in rows:
        assert value in words
        assert int(value) % 10 == int(slot)
        if value != "0":
            assert abs(java_string_hash(text)) == int(value)


def test_the_terminal_shows_the_commands_that_the_script_runs():
    source = (DOCS / "site" / "cast.py").read_text(encoding="utf-8")
    commands = re.findall(r'^    "(reput .*)",$', source, re.MULTILINE)

    prompts = [words.strip()[2:] for words in words_of("terminal.svg") if words.startswith("$ ")]

    assert len(commands) == 3
    assert prompts[:3] == commands


def test_pages_show_the_drawings():
    shown = {
        name
        for path in [*ROOT.glob("README*.md"), *DOCS.rglob("*.md")]
        for name in re.findall(r"!\[[^\]]*\]\(\S*images/(\S+)\)", path.read_text(encoding="utf-8"))
    }

    assert shown == {path.name for path in IMAGES.glob("*.svg")}
