"""Schemas that cannot be, and what an author's function must return."""

from __future__ import annotations

import re

import attrs
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import reput
from reput.record import TextColumn
from reput_table import Schema, TablePlugin
from reput_table.distincttexts import distinct_texts
from reput_table.pendingrows import Parting
from reput_table.rowcolumns import grouped_rows, plain_rows

KEYED = Schema(
    key={"topic": str, "minute": int}, sums=["n"], least={"low": int}, greatest={"high": float}
)
PLAIN = Schema(columns={"name": str, "size": int})


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ({}, "columns, or a key"),
        ({"columns": {"a": int}, "key": {"b": int}}, "columns, or a key"),
        ({"columns": {"a": int}, "sums": ["n"]}, "need a key"),
        ({"columns": {"a b": int}}, "'a b' is not a name"),
        ({"columns": {"_part": int}}, "'_part' is not a name"),
        ({"columns": {'a"; DROP': int}}, "is not a name"),
        ({"columns": {"a": int, "A": int}}, "named twice"),
        ({"columns": {"a": list}}, "a is of <class 'list'>"),
        ({"key": {"a": int}, "least": {"b": str}}, "b is not a number"),
        ({"columns": {"a": int}, "indexes": [["b"]]}, "an index names b; known: a"),
    ],
)
def test_a_schema_that_cannot_be_is_refused(arguments, reason):
    with pytest.raises(ValueError, match=re.escape(reason)):
        Schema(**arguments)


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ({"columns": ["a"]}, "such as columns={\"size\": int}; found ['a']"),
        ({"key": "topic"}, 'such as key={"size": int}'),
        ({"key": {"a": str}, "least": ["low"]}, 'such as least={"size": int}'),
        ({"key": {"a": str}, "greatest": ["high"]}, 'such as greatest={"size": int}'),
        ({"key": {"a": str}, "sums": "messages"}, 'such as sums=["messages"]'),
        ({"key": {"a": str}, "sums": [int]}, 'such as sums=["messages"]'),
        ({"columns": {"a": int}, "indexes": ["a"]}, 'such as indexes=[["topic", "minute"]]'),
        ({"columns": {"a": int}, "indexes": 1}, 'such as indexes=[["topic", "minute"]]'),
    ],
)
def test_an_argument_of_a_wrong_kind_is_refused_with_an_example(arguments, reason):
    with pytest.raises(TypeError, match=re.escape(reason)):
        Schema(**arguments)


@pytest.mark.parametrize(
    ("given_columns", "kind", "reason"),
    [
        ({"name": ["a"]}, ValueError, "returned the columns name; expected: name, size"),
        ({"name": ["a"], "size": [1, 2]}, ValueError, "several lengths"),
        ({"name": [1], "size": [1]}, TypeError, "column name: values of str expected, not int"),
        ({"name": ["a"], "size": ["1"]}, TypeError, "column size: values of int expected, not str"),
        ({"name": ["a"], "size": np.array([1.5])}, TypeError, "column size"),
        ({"name": ["a"], "size": np.array([2**63], np.uint64)}, TypeError, "does not fit"),
        ({"name": (1, 2, 3), "size": [1]}, TypeError, "a tuple is a column of codes"),
        ([("a", 1)], TypeError, "rows() returned list"),
    ],
)
def test_rows_that_do_not_fit_are_refused(given_columns, kind, reason):
    with pytest.raises(kind, match=re.escape(reason)):
        plain_rows(PLAIN, given_columns, 1)


@pytest.mark.parametrize("column", ["n", "low", "high", "minute"])
def test_a_number_that_is_missing_has_no_sum_and_no_order(column):
    columns = {"topic": ["a"], "minute": [1], "n": [1], "low": [1], "high": [1.0]}

    with pytest.raises(TypeError, match=f"column {column}"):
        list(grouped_rows(KEYED, {**columns, column: [None]}, 1))


NUMBERS = st.integers(-(2**40), 2**40) | st.integers(0, 3)
ROWS = st.lists(st.tuples(st.text("ab\0é", max_size=3), NUMBERS, NUMBERS), max_size=60)


@given(ROWS)
def test_rows_are_put_together_by_key_as_in_a_dictionary(rows):
    expected: dict[tuple[str, int], tuple[int, int, float]] = {}
    for topic, minute, number in rows:
        n, low, high = expected.get((topic, minute), (0, number, float(number)))
        expected[topic, minute] = n + number, min(low, number), max(high, float(number))
    topics, minutes, numbers = (
        (list(each) for each in zip(*rows, strict=True)) if rows else ([], [], [])
    )
    columns = {
        "topic": topics,
        "minute": np.array(minutes, np.int64),
        "n": np.array(numbers, np.int64),
    }
    columns |= {"low": columns["n"], "high": columns["n"]}

    found = list(grouped_rows(KEYED, columns, len(rows)))

    assert dict(found) == expected
    assert len(found) == len(expected)


@given(
    st.lists(st.none() | st.binary(max_size=6) | st.binary(min_size=30, max_size=60), max_size=80)
)
def test_the_different_texts_of_a_column_are_found(values):
    window = np.frombuffer(b"".join(each or b"" for each in values) + bytes(8), np.uint8)
    sizes = np.array([-1 if each is None else len(each) for each in values], np.int64)
    starts = np.concatenate([[0], np.cumsum(np.maximum(sizes, 0))])[:-1].astype(np.int64)

    codes, texts = distinct_texts(TextColumn(window, starts, sizes))

    assert [texts[code] for code in codes.tolist()] == values
    assert len(set(texts)) == len(texts)


@pytest.mark.parametrize("offset", [0, 1, 299, 300, 999, 1000, 1299, 1999, 2000])
def test_no_part_crosses_the_end_of_a_file(offset):
    parting = Parting(file_size=1000, part_size=300)

    part = parting.part_of(offset)

    assert part <= offset < part + 300
    assert part // 1000 == offset // 1000
    assert part % 1000 % 300 == 0


def test_a_plugin_without_rows_says_what_is_missing():
    class Empty(TablePlugin):
        schema = PLAIN

    with pytest.raises(NotImplementedError, match="Empty must say which rows"):
        Empty().rows(None)


@attrs.frozen(kw_only=True)
class NamedConfig:
    """Options."""

    label: str = "a"
    """What every row says."""


@attrs.define(eq=False)
class Labelled(TablePlugin):
    """A table that depends on an option, as an attrs class."""

    name = "labelled"
    config_type = NamedConfig
    schema = Schema(columns={"label": str})
    config: NamedConfig = attrs.field(factory=NamedConfig)

    def rows(self, batch):
        return {"label": self.config.label}


def test_a_table_is_made_anew_when_an_option_or_the_version_changes(tmp_path, monkeypatch):
    def labels(label):
        with reput.open(tmp_path, plugins=[Labelled(NamedConfig(label=label))]) as store:
            store.wait_dispatched()
            return store.plugin("labelled").query("SELECT label FROM labelled")

    with reput.open(tmp_path, plugins=[Labelled()]) as store:
        store.put(reput.Message("t", b""))

    assert labels("b") == [("b",)]
    monkeypatch.setattr(Labelled, "rows", lambda self, batch: {"label": "new"})
    assert labels("b") == [("b",)]
    monkeypatch.setattr(Labelled, "version", 2)
    with (
        reput.open(tmp_path, "r", plugins=[Labelled(NamedConfig(label="b"))]) as store,
        pytest.raises(reput.ReputError, match="made by another version"),
    ):
        store.plugin("labelled").query("SELECT label FROM labelled")
    assert labels("b") == [("new",)]
