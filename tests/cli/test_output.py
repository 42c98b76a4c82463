from __future__ import annotations

import io
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from reput_tools.cli.kit import output
from reput_tools.cli.kit.output import (
    Column,
    format_count,
    format_rate,
    format_size,
    name_column,
    print_facts,
    print_table,
)

ROOT = Path(__file__).parents[2]
COLUMNS = [Column("TOPIC", shrink=True), Column("MESSAGES", right=True)]


def test_a_table_into_a_pipe_is_plain_columns(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(COLUMNS, [("orders", "60,000"), ("a", "1")])

    assert capsys.readouterr().out == ("TOPIC   MESSAGES\norders    60,000\na              1\n")


def test_a_table_into_a_pipe_is_never_cut_or_broken(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(COLUMNS, [("t" * 300, "1")])

    assert "t" * 300 + "         1" in capsys.readouterr().out


def test_a_table_escapes_what_a_terminal_would_obey(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(COLUMNS, [("\x1b]0;owned\x07", "1")])

    assert "\\x1b]0;owned\\x07" in capsys.readouterr().out


@pytest.fixture
def on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[str]]:
    """Return a function that prints a table on a terminal, and returns its lines."""
    from rich.console import Console

    def printed(width: int, columns: list[Column], rows: list[tuple[str, ...]]) -> list[str]:
        screen = io.StringIO()
        console = Console(file=screen, width=width, force_terminal=True, color_system=None)
        monkeypatch.setattr(output, "console", lambda: console)
        monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
        print_table(columns, rows)
        return [line.rstrip() for line in screen.getvalue().splitlines()]

    return printed


@pytest.mark.parametrize("width", [40, 80, 120])
def test_a_table_on_a_terminal_fits_its_width_and_loses_nothing(
    on_a_terminal: Callable[..., list[str]], width: int
) -> None:
    lines = on_a_terminal(width, COLUMNS, [("[bold]not markup[/bold] " + "t" * 60, "60,000")])

    text = "".join(lines)
    assert all(len(line) <= width for line in lines)
    assert "60,000" in text
    assert "[bold]" in text
    assert text.count("t") >= 60


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("orders", ["orders"]),
        ("a" * 60 + "b" * 67, ["aaaaaaaaaa…bbbbbbbbb"]),
        ("订单" * 20, ["订单订单订…订单订单"]),
        ("first " + "k" * 40, ["first", "kkkkkkkkkk…kkkkkkkkk"]),
    ],
)
def test_names_are_cut_in_the_middle_and_break_between_words(
    on_a_terminal: Callable[..., list[str]], name: str, shown: list[str]
) -> None:
    columns = [name_column("NAME"), Column("MESSAGES", right=True)]

    _, *lines = on_a_terminal(30, columns, [(name, "60,000")])

    assert [line.removesuffix("60,000").rstrip() for line in lines] == shown


def test_a_narrow_terminal_cuts_names_and_nothing_else(
    on_a_terminal: Callable[..., list[str]],
) -> None:
    columns = [
        Column("PLUGIN"),
        name_column("TOPIC"),
        Column("FILE", shrink=True),
        *(Column(title, right=True) for title in ("MIN OFFSET", "MAX OFFSET", "MESSAGES")),
    ]
    names = ("consumequeue", "orders-of-customers", "queue/orders/3/000012")

    lines = on_a_terminal(40, columns, [(*names, "1234567", "2345678901", "60,000")])

    assert lines == [
        "PLUGIN        TOPIC     FILE      MIN OFFSET  MAX OFFSET  MESSAGES",
        "consumequeue  orde…ers  queue/or     1234567  2345678901    60,000",
        "                        ders/3/0",
        "                        00012",
    ]


def test_commands_cut_only_names_that_no_next_command_needs() -> None:
    sources = [path.read_text() for path in ROOT.glob("*/*/src/**/*.py")]
    titles = {title for text in sources for title in re.findall(r'name_column\("(.+?)"\)', text)}

    assert titles == {"TOPIC", "TOPICS", "GROUP", "MEMBER", "READS"}


@pytest.mark.parametrize(
    ("size", "text"),
    [(0, "0 B"), (1023, "1023 B"), (1024, "1.0 KiB"), (16 << 20, "16.0 MiB"), (3 << 50, "3.0 PiB")],
)
def test_sizes_have_the_unit_that_suits_them(size: int, text: str) -> None:
    assert format_size(size) == text


def test_counts_agree_with_their_noun() -> None:
    assert format_count(1, "message") == "1 message"
    assert format_count(60_000, "message") == "60,000 messages"
    assert format_count(60_000) == "60,000"


def test_a_rate_that_was_not_measured_is_a_dash() -> None:
    assert format_rate(120_000, 2) == "60,000 messages/s"
    assert format_rate(0, 2) == "-"
    assert format_rate(5, 0) == "-"


def test_facts_go_on_below_themselves_on_a_narrow_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "50")
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)

    print_facts([("name", "word " * 15 + "x" * 60), ("a", "b")])

    assert capsys.readouterr().out.splitlines() == [
        "  name  " + "word " * 7 + "word",
        "        " + "word " * 6 + "word",
        "        " + "x" * 60,
        "  a     b",
    ]


def test_facts_into_a_pipe_keep_to_their_lines(capsys: pytest.CaptureFixture[str]) -> None:
    print_facts([("name", "word " * 100)])

    assert capsys.readouterr().out.count("\n") == 1
