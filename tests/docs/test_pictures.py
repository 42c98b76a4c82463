"""Drawings are those that the script draws, and show what the formats are."""

from __future__ import annotations

import importlib
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


@pytest.mark.parametrize("name", ["terminal.svg", "follow.svg"])
def test_a_terminal_begins_with_its_last_frame(name):
    style = ET.parse(IMAGES / name).getroot().find(f"{SVG}style").text
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


@pytest.fixture
def recordings(monkeypatch):
    """Return the recordings of the script, by the name of the picture."""
    monkeypatch.syspath_prepend(str(DOCS / "site"))
    return {each.image: each for each in importlib.import_module("cast").RECORDINGS}


@pytest.mark.parametrize("name", ["terminal.svg", "follow.svg"])
def test_a_terminal_shows_the_commands_that_the_script_runs(recordings, name):
    prompts = [words.strip()[2:] for words in words_of(name) if words.startswith("$ ")]

    assert prompts[:-1] == list(recordings[name].commands)


def test_the_query_of_the_follower_changes_while_messages_come():
    words = words_of("follow.svg")
    sums = [int(found[1]) for each in words if (found := re.match(r" *paid +(\d+)", each))]

    assert len(sums) == 3
    assert sums == sorted(set(sums))  # larger each time
    assert any("plugins: all up to date" in each for each in words)


def test_the_page_begins_with_the_commands_of_its_recording(recordings):
    page = text_of("docs/follow.md").partition("\n## ")[0]

    for command in recordings["follow.svg"].commands:
        words = command.split()
        assert f"$ {' '.join(words[:2])} " in page, command
        assert words[2].startswith("-") or words[2].replace("copy", "STORE") in page, command


def test_pages_show_the_drawings():
    shown = {
        name
        for path in [*ROOT.glob("README*.md"), *DOCS.rglob("*.md")]
        for name in re.findall(r"!\[[^\]]*\]\(\S*images/(\S+)\)", path.read_text(encoding="utf-8"))
    }

    assert shown == {path.name for path in IMAGES.iterdir()}
