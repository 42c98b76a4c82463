"""The pages say what is so: hex and tables are the code's."""

from __future__ import annotations

import json
import re
import runpy

import pytest
from pages import ROOT, blocks_of, text_of
from statefiles import value_of

import reput
from reput.dispatch.manifest import MANIFEST
from reput.files import Disk
from reput.log import StateFile
from reput.record import MessageView
from reput.record.layout import HEADER_DTYPE
from reput.record.messageids import offset_message_id
from reput_consumequeue.layout import UNIT_DTYPE


def block(page: str, name: str) -> str:
    return next(found.text for found in blocks_of(page) if found.name == name)


def table_rows(text: str, width: int) -> list[list[str]]:
    """Cells of every table row that begins with a cell in backquotes or a number."""
    rows = re.findall(r"^\| ((?:`|\d).*) \|$", text, re.MULTILINE)
    cells = [re.split(r" \| ", row, maxsplit=width - 1) for row in rows]
    return [row for row in cells if len(row) == width]


def section_of(page: str, heading: str) -> str:
    return re.split(r"^## ", text_of(page).split(f"## {heading}\n", 1)[1], flags=re.MULTILINE)[0]


# --------------------------------------------------------------------------- one record

ANATOMY = "docs/anatomy-of-a-record.md"


def dumped_record() -> bytes:
    lines = block(ANATOMY, "record").splitlines()
    return bytes.fromhex("".join(line[6:53] for line in lines))


def test_the_record_of_the_page_is_one_that_rocketmq_made():
    vectors = runpy.run_path(str(ROOT / "tests" / "core" / "vectors.py"))
    assert dumped_record() == vectors["V1"]


def test_the_dump_shows_its_own_characters_and_positions():
    record = dumped_record()

    for number, line in enumerate(block(ANATOMY, "record").splitlines()):
        piece = record[16 * number : 16 * number + 16]
        shown = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in piece)
        assert line == f"{16 * number:04x}  {piece.hex(' '):<47}  {shown}"


def test_the_fields_of_the_page_follow_each_other_as_in_the_header():
    record = dumped_record()
    rows = table_rows(section_of(ANATOMY, "Field by field"), 5)

    end = 0
    for at, size, value, _, _ in rows:
        assert int(at) == end
        end += int(size)
        assert value.strip("`") == record[int(at) : end].hex()
    assert end == len(record)
    names = [name.strip("`") for *_, name, _ in rows]
    header = HEADER_DTYPE.names or ()
    tail = ["body", "topic_size", "topic", "properties_size", "properties"]
    assert names == [*header, *tail]
    assert [int(at) for at, *_ in rows[: len(header)]] == [
        (HEADER_DTYPE.fields or {})[name][1] for name in header
    ]


def test_unit_and_message_id_of_the_page_are_the_records():
    view = MessageView(dumped_record())

    unit = bytes.fromhex(block(ANATOMY, "unit"))
    msg_id = "".join(block(ANATOMY, "message id").split())

    assert len(unit) == UNIT_DTYPE.itemsize
    assert unit == b"".join(
        value.to_bytes(width, "big", signed=True)
        for value, width in ((view.physical_offset, 8), (view.size, 4), (view.tags_code, 8))
    )
    assert f"`TagA` gives {view.tags_code}." in " ".join(text_of(ANATOMY).split())
    assert msg_id == view.msg_id == offset_message_id(view.record[64:72], view.physical_offset)


# --------------------------------------------------------------------------- formats


RULERS = {each.name: each.text for each in blocks_of("docs/formats.md") if each.name[-3:] == ".py"}


@pytest.mark.parametrize(("source", "text"), RULERS.items())
def test_a_ruler_stands_in_the_module_that_it_names(source, text):
    assert text in text_of(source)


def test_every_ruler_of_a_format_is_on_the_page():
    modules = [
        path
        for path in [*ROOT.glob("core/src/reput/**/*.py"), *ROOT.glob("plugins/*/src/**/*.py")]
        if "    +--" in path.read_text(encoding="utf-8")
    ]

    assert {path.relative_to(ROOT).as_posix() for path in modules} == RULERS.keys()


def test_the_small_files_of_the_page_have_the_fields_that_are_written(tmp_path):
    config = {"commitlog": {"file_size": 16 << 20}}
    with reput.open(tmp_path, plugins=["consumequeue"], config=config) as store:
        store.put(reput.Message("t", b"x"))

    manifest = json.loads(value_of(tmp_path, MANIFEST))
    assert manifest == json.loads(block("docs/formats.md", "manifest"))
    written = json.loads(StateFile.of(str(tmp_path), Disk()).load()[0]["consumequeue/state"].value)
    assert list(json.loads(block("docs/formats.md", "plugin"))) == list(written)


def test_a_closed_store_has_the_files_of_the_page_and_no_other(tmp_path):
    config = {"commitlog": {"file_size": 4096}}
    with reput.open(tmp_path, plugins=["consumequeue"], config=config) as store:
        store.put(reput.Message("t", b"x"))
        open_files = {path.name for path in tmp_path.iterdir()}

    files = {
        path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*") if path.is_file()
    }

    assert "abort" in open_files
    assert files == {
        "checkpoint",
        "commitlog/00000000000000000000",
        "consumequeue/t/0/00000000000000000000",
        "lock",
        "reput/state",
    }
