"""Code on the pages runs from top to bottom and prints what it says; commands are taken."""

from __future__ import annotations

import ast
import contextlib
import gc
import io
import itertools
import os
import re
import shlex
import subprocess
import sys
import textwrap
from pathlib import Path

import click
import pytest
from commands import commands
from pages import ROOT, blocks_of, commands_of, pages, text_of

import reput
from reput_tools.cli.lazycommand import LazyCommand
from reput_tools.cli.root import ReputGroup

# They need a Java, and run in `tests/spark`.
ON_SPARK = {
    "docs/spark.md",
    "docs/spark-jobs.md",
    "docs/spark-lakes.md",
    "docs/spark-streaming.md",
    "docs/spark-tables.md",
    "docs/spark-writing.md",
    "extras/spark/README.md",
}
# They need a broker, and run in `tests/client` and in `tests/follow`.
# `docs/clients-5.md` needs a released client, and runs in `tests/interop/clients`.
AT_BROKERS = {"docs/client.md", "docs/clients-5.md", "docs/follow.md"}
# Pages in another language have the snippets of their sisters, which `test_languages` compares.
WITH_PYTHON = [
    page
    for page in pages()
    if page not in ON_SPARK | AT_BROKERS
    and not page.startswith("examples/")  # they have environments of their own
    and not page.startswith("docs/zh/")
    and not page.endswith(".zh.md")
    and any(block.kind == "python" for block in blocks_of(page))
]


def one_order():
    with reput.open("orders-store", plugins=()) as store:
        store.put(reput.Message("orders", b"first", tags="paid", keys=["k1", "k2"]))


# What a page needs beyond reput; the environment `docs` has it.
NEEDS = {"docs/dataframes.md": ("duckdb", "polars"), "docs/metrics.md": ("opentelemetry",)}
# What a page takes for granted.
BEFORE = {"docs/arrow.md": one_order}


def test_the_snippets_on_spark_run_where_spark_is():
    tests = "".join(
        path.read_text(encoding="utf-8") for path in (ROOT / "tests" / "spark").rglob("*.py")
    )

    left_out = [page for page in ON_SPARK if page.removeprefix("docs/") not in tests]

    assert left_out == []


def source_of(block):
    """The file that a block is a part of, if its comment names one."""
    return ROOT / block.name if block.name and (ROOT / block.name).is_file() else None


def is_in(text, file):
    lines = textwrap.dedent(text).splitlines()
    whole = file.read_text(encoding="utf-8").splitlines()
    windows = ("\n".join(whole[at : at + len(lines)]) for at in range(len(whole)))
    return any(textwrap.dedent(window).splitlines() == lines for window in windows)


def said_to_print(source):
    """Lines that a snippet says it prints: comments behind print or below it, or "prints …"."""
    lines = source.splitlines()
    calls = [
        node
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "print"
    ]
    ends = sorted({node.end_lineno or 0 for node in calls})
    behind = [(end, lines[end - 1].partition(")  # ")[2]) for end in ends]
    named = [(at, match[1]) for at, line in enumerate(lines, 1) if (match := _PRINTS.search(line))]
    for end in ends:
        for at, line in itertools.takewhile(
            lambda each: each[1].startswith("# "), enumerate(lines[end:], end + 1)
        ):
            behind.append((at, line.removeprefix("# ")))
    plain = [(at, text) for at, text in behind if text and not _PRINTS.search(f"# {text}")]
    return [text for _, text in sorted(plain + named)]


_PRINTS = re.compile(r"# prints:? (.+)$")


@pytest.mark.timeout(120)  # a snippet that waits for ever shows a reader how to hang
@pytest.mark.parametrize("page", WITH_PYTHON)
def test_python_on_a_page_runs_and_prints_what_it_says(page, tmp_path, monkeypatch, golden_store):
    for module in () if "REPUT_SITE" in os.environ else NEEDS.get(page, ()):
        pytest.importorskip(module)
    golden_store("basic").rename(tmp_path / "rocketmq-store")
    monkeypatch.chdir(tmp_path)
    BEFORE.get(page, lambda: None)()
    names: dict[str, object] = {}
    everything = ""
    gc.freeze()  # to collect what all tests have made takes half a second

    for block in blocks_of(page):
        if block.kind == "toml" and block.name and source_of(block) is None:
            Path(block.name).write_text(block.text, encoding="utf-8")
        if block.kind == "text" and block.name == "output":
            assert everything == block.text
        if block.kind != "python":
            continue
        if source := source_of(block):
            assert is_in(block.text, source), f"{block.name} has no such lines:\n{block.text}"
            continue
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(block.text, page, "exec"), names)
        everything += printed.getvalue()
        lines = iter(printed.getvalue().splitlines())
        for expected in said_to_print(block.text):
            assert any(line == expected for line in lines), f"{expected!r} in\n{block.text}"
    # What the page leaves open is reported here, and not in whichever test the collector runs next.
    names.clear()
    gc.collect()
    gc.unfreeze()


TESTING = [
    page
    for page in WITH_PYTHON
    for block in blocks_of(page)
    if block.kind == "python" and re.match(r"test_\w+\.py$", block.name or "")
]


@pytest.mark.parametrize("page", TESTING)
def test_the_tests_on_a_page_pass(page, tmp_path):
    named = [block for block in blocks_of(page) if (block.name or "").startswith("test_")]
    (tmp_path / "pytest.ini").write_text("[pytest]\nfilterwarnings = error\n", encoding="utf-8")
    for block in named:
        (tmp_path / block.name).write_text(block.text, encoding="utf-8")

    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "."]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)

    assert done.returncode == 0, done.stdout + done.stderr


# --------------------------------------------------------------------------- consoles


def calls_in(command):
    """The calls of reput in a line for a shell, as lists of arguments."""
    words = shlex.shlex(command.partition("\n")[0], posix=True, punctuation_chars="|&;<>")
    words.whitespace_split = True
    calls: list[list[str]] = [[]]
    for word in words:
        if set(word) <= set("|&;<>"):
            calls.append([])
        elif calls[-1] or not re.fullmatch(r"\w+=\S*", word):
            calls[-1].append(word)
    return [call[1:] for call in calls if call and call[0].rpartition("/")[2] == "reput"]


CONSOLES = [
    (page, shlex.join(["reput", *call]), call)
    for page in pages()
    for block in blocks_of(page)
    if block.kind == "console"
    for command, _ in commands_of(block)
    for call in calls_in(command)
]


@pytest.mark.parametrize(("page", "command", "words"), CONSOLES)
def test_a_command_on_a_page_is_one_that_the_command_line_takes(page, command, words):
    found, context = ReputGroup("reput"), click.Context(ReputGroup("reput"), info_name="reput")

    while words and not words[0].startswith("-") and _has_below(found, context, words[0]):
        name, *words = words
        if name in _OF_OTHERS:
            return
        inner = found.get_command(context, name)
        assert inner is not None, f"{page}: no command {name!r}"
        found = inner.load() if isinstance(inner, LazyCommand) else inner
        context = click.Context(found, parent=context, info_name=name)

    # Unknown options, and options without their value, are refused here.
    if words != ["--version"]:
        found.make_parser(context).parse_args(list(words))


def _has_below(found, context, name):
    if isinstance(found, click.Group):
        return True
    return hasattr(found, "list_commands") and name in found.list_commands(context)


# Commands of the example that a reader writes, and of Spark, which has an environment of its own.
_OF_OTHERS = {"audit", "spark"}


def test_the_service_of_production_listens_on_one_address_for_each_option():
    (line,) = re.findall(r"^ExecStart=\S+/reput serve (.*)$", text_of("docs/production.md"), re.M)
    serve = ReputGroup("reput").get_command(click.Context(ReputGroup("reput")), "serve").load()
    given = serve.make_parser(click.Context(serve)).parse_args(shlex.split(line))[0]
    defaults = {each.name: each.default for each in serve.params if isinstance(each.default, str)}

    found = [each for each in (defaults | given).values() if re.fullmatch(r"[^/]+:\d+", str(each))]

    assert len(found) == len(set(found)) > 2
    assert given["namesrv"].split(":")[0] == given["listen"].split(":")[0]


def test_the_commands_of_consuming_print_what_it_says(tmp_path, monkeypatch):
    page = "docs/consuming.md"
    monkeypatch.chdir(tmp_path)
    source = "".join(block.text for block in blocks_of(page) if block.kind == "python")
    with contextlib.redirect_stdout(io.StringIO()):
        exec(compile(source, page, "exec"), {})
    shown = [
        each for block in blocks_of(page) if block.kind == "console" for each in commands_of(block)
    ]

    with commands() as run:
        outputs = [(command, run(*shlex.split(command)[1:]).out) for command, _ in shown]

    assert outputs == shown
    assert len(shown) > 2


def test_the_six_commands_for_a_brokers_directory_work(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with reput.open("STORE", plugins=["consumequeue", "index", "consumer"]) as store:
        for number in range(20):
            store.put(reput.Message("orders", b"Berlin %d" % number))
        list(store.consumer("billing", "orders", start="earliest", until="end"))
    first, repairing = (
        [command for command, _ in commands_of(block)]
        for block in blocks_of("docs/broker-directory.md")
    )

    def codes_of(lines):
        with commands() as run:
            return [run(*shlex.split(each, comments=True)[1:]).code for each in lines]

    healthy = codes_of(first)
    with open("STORE/commitlog/00000000000000000000", "r+b") as log:
        log.seek(log.read(4096).index(b"Berlin 7"))
        log.write(b"X")
    damaged = codes_of(repairing)

    assert healthy == [0] * 6
    assert damaged == [8, 8, 0, 1]


def test_getting_started_shows_the_demo_that_ends_well(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (command,) = [
        command
        for block in blocks_of("docs/getting-started.md")
        for command, _ in commands_of(block)
        if command.startswith("reput demo")
    ]

    with commands() as run:
        outcome = run(*shlex.split(command)[1:], "--count", "1000")

    assert outcome.code == 0
    assert "wrong" not in outcome.out


def test_nothing_is_said_to_be_on_an_index():
    """A line that installs names folders and files, never a name that an index would look up."""
    by_name = re.compile(r"pip install ([^\n`#]*)")

    found = [
        f"{page}: {words}"
        for page in pages()
        for words in by_name.findall(text_of(page))
        for word in shlex.split(words.strip().rstrip(").;,:"))
        if word.startswith("reput") and not (ROOT / "examples" / word).is_dir()
    ]

    assert found == [], "name the folder: see docs/installing.md"
