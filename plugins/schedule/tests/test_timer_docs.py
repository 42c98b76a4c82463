"""What the documents say of the timer's files is what the code does."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import reput_schedule.timerwheel.layout as layout
from reput.record import java_string_hash
from reput_schedule.timerwheel.timerparking import rounded

ROOT = Path(__file__).parents[3]
ANATOMY = ROOT / "docs/anatomy-of-a-timer-wheel.md"
FORMATS = ROOT / "docs/formats.md"
MARK = "<!-- plugins/schedule/src/reput_schedule/timerwheel/layout.py -->\n```text\n"


def rulers(path):
    """The blocks of a page that are said to be those of the layout's docstring."""
    return [part.split("```")[0] for part in path.read_text(encoding="utf-8").split(MARK)[1:]]


@pytest.mark.parametrize(("path", "count"), [(ANATOMY, 2), (FORMATS, 5)])
def test_rulers_are_those_of_the_module(path, count):
    found = rulers(path)

    assert len(found) == count
    for ruler in found:
        assert ruler.rstrip("\n") in layout.__doc__


@pytest.mark.parametrize(
    ("dtype", "start", "edges"),
    [
        (layout.SLOT_DTYPE, 0, [0, 8, 16, 24, 28, 32]),
        (layout.RECORD_DTYPE, 0, [0, 4, 12, 16, 24, 28, 36, 40, 44, 52]),
        (layout.BLANK_DTYPE, 0, [0, 4, 12, 16]),
        (layout.CHECK_DTYPE, 0, [0, 8, 16, 24, 32, 40, 48, 56]),
        (layout.NOTE_DTYPE, 64, [64, 68, 72, 76, 80, 88, 96, 104, 112, 120, 128, 132, 136]),
    ],
)
def test_edges_on_the_rulers_are_those_of_the_dtypes(dtype, start, edges):
    offsets = [start + dtype.fields[name][1] for name in dtype.names]

    assert [*offsets, start + dtype.itemsize] == edges
    line = next(
        each for each in layout.__doc__.splitlines() if each.split() == list(map(str, edges))
    )
    assert line.startswith("    ")


def test_bytes_in_the_anatomy_are_those_that_we_write():
    page = ANATOMY.read_text(encoding="utf-8")
    blocks = re.findall(r"```text\n([0-9a-f ]+)\n```", page)
    slot = np.array([(1_700_000_000, 0, 104, 3, 0)], layout.SLOT_DTYPE)
    topic = java_string_hash("TopicTest")
    record = np.array(
        [(52, -1, 1, 1_700_000_000_000, 5000, 1 << 30, 174, topic, 0)], layout.RECORD_DTYPE
    )

    assert [bytes.fromhex(block) for block in blocks] == [slot.tobytes(), record.tobytes()]


def test_times_in_the_anatomy_are_those_that_we_compute():
    page = ANATOMY.read_text(encoding="utf-8")
    rows = re.findall(r"^\| ([\d,]+) \| ([\d,]+) \| ([\d,]+) \|$", page, re.MULTILINE)

    assert len(rows) == 2
    for row in rows:
        deliver, slot, delivered = (int(number.replace(",", "")) for number in row)
        assert rounded(deliver, 1000) == slot
        assert delivered == slot + 1000
