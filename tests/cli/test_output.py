from __future__ import annotations

import io

import pytest

from reput_tools.cli.kit import output
from reput_tools.cli.kit.output import (
    Column,
    format_count,
    format_rate,
    format_size,
    print_facts,
    print_table,
)

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


@pytest.mark.parametrize("width", [40, 80, 120])
def test_a_table_on_a_terminal_fits_its_width_and_loses_nothing(
    monkeypatch: pytest.MonkeyPatch, width: int
) -> None:
    from rich.console import Console

    screen = io.StringIO()
    console = Console(file=screen, width=width, force_terminal=True, color_system=None)
    monkeypatch.setattr(output, "console", lambda: console)
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)

    print_table(COLUMNS, [("[bold]not markup[/bold] " + "t" * 60, "60,000")])

    lines = screen.getvalue().splitlines()
    assert all(len(line) <= width for line in lines)
    assert "60,000" in screen.getvalue()
    assert "[bold]" in screen.getvalue()
    assert screen.getvalue().count("t") >= 60


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
