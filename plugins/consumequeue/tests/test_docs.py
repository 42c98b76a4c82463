"""The pages say what is so: snippets run, hex and tables are the code's."""

from __future__ import annotations

import ast
import contextlib
import importlib.util
import io
import json
import re
import tomllib
from pathlib import Path

import pytest

import reput
from reput.dispatch.statefiles.manifest import Manifest
from reput.plugin import build_config
from reput.record import Encoder, MessageView, pack_host
from reput.record.layout import HEADER_DTYPE
from reput.record.messageids import offset_message_id
from reput_consumequeue import ConsumeQueueConfig
from reput_consumequeue.layout import UNIT_DTYPE

ROOT = Path(__file__).resolve().parents[3]
DOCS = ROOT / "docs"
SNIPPET = re.compile(r"^(?:<!-- ([^\n]+) -->\n)?```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SECTIONS = {
    "commitlog": reput.CommitLogConfig,
    "dispatch": reput.DispatchConfig,
    "consumequeue": ConsumeQueueConfig,
}
PAGES = ["README.md", "docs/getting-started.md"]
OWN_PAGES = [
    *PAGES,
    "docs/README.md",
    "docs/anatomy-of-a-record.md",
    "docs/configuration.md",
    "docs/crash-safety.md",
    "docs/crash-tests.md",
    "docs/formats.md",
]


def text_of(page: str) -> str:
    return (ROOT / page).read_text(encoding="utf-8")


def snippets_of(page: str) -> list[tuple[str, str, str]]:
    """Name in the comment above it, kind and text of every fenced block."""
    return SNIPPET.findall(text_of(page))


def block(page: str, name: str) -> str:
    return next(text for found, _, text in snippets_of(page) if found == name)


def table_rows(text: str, width: int) -> list[list[str]]:
    """Cells of every table row that begins with a cell in backquotes or a number."""
    rows = re.findall(r"^\| ((?:`|\d).*) \|$", text, re.MULTILINE)
    cells = [re.split(r" \| ", row, maxsplit=width - 1) for row in rows]
    return [row for row in cells if len(row) == width]


def section_of(page: str, heading: str) -> str:
    return re.split(r"^## ", text_of(page).split(f"## {heading}\n", 1)[1], flags=re.MULTILINE)[0]


# --------------------------------------------------------------------------- snippets


def said_to_print(source: str) -> list[str]:
    """Comments behind the snippet's ``print`` calls, in their order."""
    calls = [
        node
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "print"
    ]
    lines = source.splitlines()
    ends = sorted({node.end_lineno or 0 for node in calls})
    comments = [lines[end - 1].partition(")  # ")[2] for end in ends]
    return [comment for comment in comments if comment]


@pytest.mark.parametrize("page", PAGES)
def test_snippets_run_in_their_order_and_print_what_their_comments_say(
    page, tmp_path, monkeypatch, golden_store
):
    golden_store("basic").rename(tmp_path / "rocketmq-store")
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}

    for name, kind, source in snippets_of(page):
        if kind == "toml" and name:
            Path(name).write_text(source, encoding="utf-8")
        if kind != "python":
            continue
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(source, page, "exec"), names)
        lines = iter(printed.getvalue().splitlines())
        for expected in said_to_print(source):
            assert any(line == expected for line in lines), f"{expected!r} in\n{source}"


@pytest.mark.parametrize("page", OWN_PAGES)
def test_toml_on_a_page_is_a_configuration(page):
    for _, kind, source in snippets_of(page):
        if kind == "toml":
            for section, options in tomllib.loads(source).items():
                build_config(SECTIONS[section], section, options)


# --------------------------------------------------------------------------- one record

ANATOMY = "docs/anatomy-of-a-record.md"


def dumped_record() -> bytes:
    lines = block(ANATOMY, "record").splitlines()
    return bytes.fromhex("".join(line[6:53] for line in lines))


def test_the_record_of_the_page_is_the_one_that_the_encoder_makes():
    message = reput.Message(
        "TopicTest",
        b"hello world",
        3,
        tags="TagA",
        keys=["k1", "k2"],
        properties={"UNIQ_KEY": "7F00000100002A139A1857C5D7A10000"},
        flag=7,
        born_timestamp=1_700_000_000_000,
        born_host=("127.0.0.1", 50_000),
        reconsume_times=1,
    )
    encoder = Encoder(pack_host("127.0.0.1", 10_911))

    assert encoder.encode(message, 5, 1 << 30, 1_700_000_000_123) == dumped_record()


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


RULERS = [each for each in snippets_of("docs/formats.md") if each[0].endswith(".py")]


@pytest.mark.parametrize(("source", "text"), [(name, text) for name, _, text in RULERS])
def test_a_ruler_stands_in_the_module_that_it_names(source, text):
    assert text in text_of(source)


def test_every_ruler_of_a_format_is_on_the_page():
    modules = [
        path
        for path in [*ROOT.glob("core/src/reput/**/*.py"), *ROOT.glob("plugins/*/src/**/*.py")]
        if "    +--" in path.read_text(encoding="utf-8")
    ]

    assert {path.relative_to(ROOT).as_posix() for path in modules} == {name for name, *_ in RULERS}


def test_the_small_files_of_the_page_have_the_fields_that_are_written(tmp_path):
    config = {"commitlog": {"file_size": 16 << 20}}
    with reput.open(tmp_path, plugins=["consumequeue"], config=config) as store:
        store.put(reput.Message("t", b"x"))

    assert Path(Manifest.path(str(tmp_path))).read_text("utf-8") == block(
        "docs/formats.md", "manifest"
    )
    written = json.loads((tmp_path / "reput" / "plugins" / "consumequeue.json").read_bytes())
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
        "reput/flushed",
        "reput/head",
        "reput/manifest.json",
        "reput/plugins/consumequeue.json",
        "reput/progress/consumequeue",
        "reput/queues-consumequeue.json",
    }


# --------------------------------------------------------------------------- links


@pytest.mark.parametrize("page", OWN_PAGES)
def test_sections_that_are_linked_are_there(page):
    def anchors(target: str) -> set[str]:
        headings = re.findall(r"^#+ (.+)$", text_of(target), re.MULTILINE)
        return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in headings}

    folder = (ROOT / page).parent
    for target, anchor in re.findall(r"\]\(([^)#\s]*)#([^)\s]+)\)", text_of(page)):
        linked = (folder / target if target else ROOT / page).resolve().relative_to(ROOT)
        assert anchor in anchors(linked.as_posix()), f"{target}#{anchor}"


def load_vectors():
    path = ROOT / "tests" / "core" / "vectors.py"
    spec = importlib.util.spec_from_file_location("vectors_of_docs", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_record_of_the_page_is_one_that_rocketmq_made():
    assert dumped_record() == load_vectors().V1
