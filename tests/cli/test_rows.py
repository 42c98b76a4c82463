"""Rows of a query are printed as they come, whatever their values are."""

from __future__ import annotations

import datetime as dt
import itertools
import json
import tracemalloc
from decimal import Decimal

import pytest
from rich.cells import cell_len

from reput_tools.cli.kit import print_rows
from reput_tools.cli.kit.queryvalues import json_of, text_of

NOON = dt.datetime(2026, 1, 2, 12, tzinfo=dt.UTC)


@pytest.mark.parametrize(
    ("value", "text", "document"),
    [
        ("a", "a", "a"),
        (True, "true", True),
        (7, "7", 7),
        (0.5, "0.5", 0.5),
        (float("nan"), "nan", "nan"),
        (Decimal("1.50"), "1.50", 1.5),
        (Decimal(10) ** 30, "1" + "0" * 30, 10**30),
        (Decimal("0.1234567890123456789"), "0.1234567890123456789", "0.1234567890123456789"),
        (b"\xff", "/w==", "/w=="),
        (NOON.replace(tzinfo=None), *["2026-01-02 12:00:00"] * 2),
        (NOON.replace(microsecond=6_000), *["2026-01-02 12:00:00.006+00:00"] * 2),
        (NOON, *["2026-01-02 12:00:00+00:00"] * 2),
        (dt.date(2026, 1, 2), "2026-01-02", "2026-01-02"),
        ([1, None], "[1, null]", [1, None]),
        ({"a": [b"x"], 1: None}, '{"a": ["eA=="], "1": null}', {"a": ["eA=="], "1": None}),
    ],
)
def test_a_value_is_text_and_json(value, text, document):
    assert text_of(value) == text
    assert json_of(value) == document
    json.dumps(json_of(value), allow_nan=False)


def test_a_table_has_aligned_columns_and_says_what_is_null(capsys):
    count = print_rows(["name", "n"], [("a", 1), ("long\x1b", None), (None, 100)], "table")

    assert count == 3
    assert capsys.readouterr().out.splitlines() == [
        "name         n",
        "a            1",
        "long\\x1b  NULL",
        "NULL       100",
    ]


def test_equal_names_get_numbers(capsys):
    print_rows(["a", "a", "a_1", "a"], [(1, 2, 3, 4)], "jsonl")

    assert json.loads(capsys.readouterr().out) == {"a": 1, "a_1": 2, "a_1_1": 3, "a_2": 4}


@pytest.mark.parametrize("form", ["table", "csv", "jsonl"])
def test_many_rows_are_all_printed_and_never_held(capsys, form):
    rows = ((number, "x" * 100) for number in itertools.count())
    tracemalloc.start()
    try:
        count = print_rows(["n", "text"], itertools.islice(rows, 5_000), form)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    lines = capsys.readouterr().out.splitlines()

    assert count == 5_000
    assert len(lines) == 5_000 + (form != "jsonl")
    assert "4999" in lines[-1]
    assert peak < 8 << 20


def test_csv_quotes_what_a_reader_would_split(capsys):
    print_rows(["a", "b"], [("x,y", 'q"'), (None, "line\nend")], "csv")

    assert capsys.readouterr().out == 'a,b\n"x,y","q"""\n,"line\nend"\n'


NAMES = [f"column{number}" for number in range(21)]


@pytest.fixture
def terminal(monkeypatch):
    def set_up(width):
        monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
        monkeypatch.setenv("NO_COLOR", "1")
        monkeypatch.setenv("COLUMNS", str(width))

    return set_up


@pytest.mark.parametrize("width", [20, 80, 120, 400])
def test_a_table_never_is_wider_than_the_terminal(terminal, capsys, width):
    terminal(width)
    rows = [[f"{row}-{column} " + "中x" * column * 3 for column in range(21)] for row in range(3)]

    assert print_rows(NAMES, rows, None) == 3

    lines = capsys.readouterr().out.splitlines()
    shown = lines[0].count("col")
    assert max(map(cell_len, lines[:4])) <= width
    assert lines[1].startswith("0-0")
    if width >= 80:  # the first and the last are there, others are left out in the middle
        assert "0-20" in lines[1]
    if shown < 21:
        assert f"3 rows, 21 columns, {shown} shown" in lines.pop()
    assert len(lines) == 4
    assert (shown == 21) == (width == 400)


def test_a_cell_is_cut_only_as_much_as_it_must_be(terminal, capsys):
    terminal(40)
    rows = [("orders", 5, "x" * 50, "y" * 11), ("a", 12_345, "\n", None)]

    print_rows(["topic", "n", "body", "tags"], itertools.chain(rows, [rows[1]] * 1_000), "table")

    lines = capsys.readouterr().out.splitlines()
    assert lines[:3] == [
        "topic       n  body          tags",
        "orders      5  xxxxxxxxxxx…  yyyyyyyyyyy",
        "a       12345  \\n            NULL",
    ]
    assert len(lines) == 1_003  # all columns are shown, so no line says otherwise


def test_a_line_for_each_value(capsys):
    rows = [("orders", b"\xff"), (None, b"a\n")]

    assert print_rows(["topic", "n"], rows, "line") == 2

    assert capsys.readouterr().out.splitlines() == [
        *("topic = orders", "    n = /w=="),
        *("", "topic = NULL", "    n = YQo="),
    ]
