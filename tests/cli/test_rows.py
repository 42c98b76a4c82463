"""Rows of a query are printed as they come, whatever their values are."""

from __future__ import annotations

import datetime as dt
import itertools
import json
import tracemalloc
from decimal import Decimal

import pytest

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
