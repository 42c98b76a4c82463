"""Conditions over columns: the answers that single messages get, which are those of a model."""

from __future__ import annotations

import naive_model as model
import numpy as np
import pytest
from filter_batches import batches_of
from hypothesis import example, given, settings
from hypothesis import strategies as st
from plaindecoder import text_of

import reput_filter
from reput_filter.columns.propertycolumns import PropertyColumns
from reput_filter.columns.truthcodes import ERROR, FALSE, NULL, TRUE

NAMES = ["a", "b", "price", "colour"]
NUMBERS = [
    *("0", "5", "-5", "+5", "005", "6.5", "-0.0", "0.0", "1e2", "6d", ".5", "5.", " 7", "NaN"),
    *("Infinity", "-Infinity", "2147483647", "2147483648", "-2147483648", "9223372036854775807"),
    *("9223372036854775808", "0.1", "123456789012345678901234567890", "1.7976931348623157e308"),
]
WORDS = ["x", "xy", "yx", "xyx", "true", "TRUE", "False", "-", "+", ".", "it's", "标签", "标", "é"]
VALUES = st.sampled_from(NUMBERS + WORDS) | st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="\x01\x02"), min_size=1, max_size=12
)
ROWS = st.lists(st.dictionaries(st.sampled_from(NAMES), VALUES), min_size=1, max_size=12)
INTEGERS = st.integers(0, 3) | st.sampled_from([5, 2147483647, 2147483648, 9223372036854775807])
NUMERIC = INTEGERS.map(
    lambda n: ("literal", str(n), model.Int(n) if n < 1 << 31 else model.Long(n))
) | st.sampled_from([0.1, 0.5, 6.5, 100.0]).map(lambda n: ("literal", str(n), n))
TEXTUAL = st.sampled_from(WORDS + NUMBERS).map(lambda text: ("literal", model.quoted(text), text))
PROPERTY = st.sampled_from(NAMES).map(lambda name: ("property", name))
TRUTH = st.sampled_from([("literal", "TRUE", True), ("literal", "FALSE", False)])
TEXTS = st.lists(st.sampled_from(WORDS + NUMBERS), min_size=1, max_size=4) | st.lists(
    st.text(max_size=3), min_size=17, max_size=20
)


def comparisons(conditions):
    value = PROPERTY | NUMERIC
    return st.one_of(
        st.tuples(st.sampled_from(["=", "<>"]), value | TEXTUAL, value | TEXTUAL),
        st.tuples(st.sampled_from(["=", "<>"]), value | TEXTUAL, TRUTH | conditions),
        st.tuples(st.sampled_from(["=", "<>"]), conditions, PROPERTY),
        st.tuples(st.sampled_from([">", ">=", "<", "<="]), value, value),
        st.tuples(st.just("not between"), value, value, value),
        st.tuples(st.just("between"), value, PROPERTY, value),
        st.tuples(st.sampled_from(["in", "not in"]), st.sampled_from(NAMES), TEXTS),
        st.tuples(
            st.builds(
                lambda no, word: no + word,
                st.sampled_from(["", "not "]),
                st.sampled_from(["contains", "startswith", "endswith"]),
            ),
            st.sampled_from(NAMES),
            st.sampled_from(["", "x", "xy", "标", "1", "��"]) | st.text(max_size=2),
        ),
        st.tuples(st.sampled_from(["null", "not null"]), value | TEXTUAL | conditions),
    )


CONDITIONS = st.recursive(
    PROPERTY.map(lambda name: ("null", name)) | TRUTH,
    lambda inner: (
        comparisons(inner)
        | st.tuples(st.sampled_from(["and", "or"]), inner | PROPERTY, inner | PROPERTY)
        | st.tuples(st.just("not"), inner | PROPERTY)
    ),
    max_leaves=8,
)


def by_columns(expression, rows):
    codes = [
        expression.codes(PropertyColumns(len(batch), batch.text)).tolist()
        for batch in batches_of(rows)
    ]
    return [code for part in codes for code in part]


def by_rows(expression, rows):
    found = []
    for row in rows:
        try:
            found.append({False: FALSE, True: TRUE, None: NULL}[expression.evaluate(row)])
        except reput_filter.EvaluationError:
            found.append(ERROR)
    return found


def by_model(condition, rows):
    found = []
    for row in rows:
        try:
            found.append({False: FALSE, True: TRUE, None: NULL}[model.condition(condition, row)])
        except model.Thrown:
            found.append(ERROR)
    return found


@settings(max_examples=400, deadline=None)
@given(CONDITIONS, ROWS)
def test_rows_and_columns_agree_with_the_tables_of_the_specification(condition, rows):
    expression = reput_filter.compile(model.render(condition))

    one_by_one = by_rows(expression, rows)
    at_once = by_columns(expression, rows)

    assert at_once == one_by_one
    if all(value.isascii() for row in rows for value in row.values()):
        # The model knows ASCII digits and plain blanks only.
        plain = [not any(c < " " for value in row.values() for c in value) for row in rows]
        expected = by_model(condition, rows)
        assert [x for x, p in zip(one_by_one, plain, strict=True) if p] == [
            x for x, p in zip(expected, plain, strict=True) if p
        ]


LITERALS = [
    *("0", "-5", "5", "2147483647", "2147483648", "-2147483648", "9223372036854775807", "0.5"),
    *("-0.5", "100.0", "123456789012345680.0"),
]
EVERY_VALUE = [
    *NUMBERS,
    *WORDS,
    *(
        sign + "9" * count + point
        for sign in ("", "-")
        for count in range(14, 21)
        for point in ("", ".5")
    ),
    *("123456789012345678", "12345678901234567.8", "0.00000000000000012345", "-0.5", "100.00"),
    *("1 2", "0x10", "0x1p3", "٣", "1..5", "1.5.", "--5", "5-", "e5", "1e", "5e-1", "+.5"),
    "infinity",
]


@pytest.mark.parametrize("operator", ["=", "<>", ">", ">=", "<", "<="])
def test_every_form_of_number_is_compared_alike_by_rows_and_by_columns(operator):
    rows = [{"a": value} for value in EVERY_VALUE]
    pairs = [{"a": one, "b": other} for one in EVERY_VALUE for other in EVERY_VALUE]
    for literal in LITERALS:
        for text in (f"a {operator} {literal}", f"{literal} {operator} a"):
            expression = reput_filter.compile(text)
            assert by_columns(expression, rows) == by_rows(expression, rows), text

    expression = reput_filter.compile(f"a {operator} b")
    assert by_columns(expression, pairs) == by_rows(expression, pairs)


BYTES = st.binary(min_size=1, max_size=8).filter(lambda data: not set(data) & {1, 2})
BROKEN_ROWS = st.lists(
    st.dictionaries(
        st.sampled_from(NAMES),
        BYTES | st.sampled_from([b"\xff", b"\xfe", "\ufffd".encode(), b"x\xff", b"\xe6\xa0"]),
        min_size=1,
    ),
    min_size=1,
    max_size=12,
)


@settings(max_examples=150, deadline=None)
@given(
    st.sampled_from(
        [
            "a = b",
            "a <> '\ufffd'",
            "a IN ('\ufffd', 'x')",
            "a IN ('\ufffd'" + "".join(f", '{n}'" for n in range(20)) + ")",
            "a CONTAINS '\ufffd'",
            "a STARTSWITH 'x\ufffd'",
            "a ENDSWITH '\ufffd'",
            "a > 5 OR b > 5.5",
            "a = TRUE",
        ]
    ),
    BROKEN_ROWS,
)
@example("a = b", [{"a": b"\xff", "b": b"\xfe"}, {"a": "\ufffd".encode(), "b": b"\xff"}])
def test_bytes_that_are_no_text_are_compared_as_what_they_are_read_as(text, rows):
    expression = reput_filter.compile(text)
    decoded = [{name: text_of(value) for name, value in row.items()} for row in rows]

    assert by_columns(expression, rows) == by_rows(expression, decoded)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.dictionaries(st.just("TAGS"), VALUES), min_size=1, max_size=12), st.data())
def test_tags_of_a_batch_are_matched_as_one_by_one(rows, data):
    present = [row["TAGS"] for row in rows if row]
    wanted = data.draw(st.sets(st.sampled_from([*present, "paid", "AaAa"]), max_size=3))
    subscription = reput_filter.tags(*wanted)

    for batch in batches_of(rows):  # valid until the next one is taken
        found = subscription.matches_batch(batch)
        bit_maps = [None] * len(batch)
        may_match = subscription.may_match(batch.tags_code, bit_maps, batch.store_timestamp)

        assert found.tolist() == [subscription.matches(row) for row in rows]
        assert not (found & ~may_match).any()


def test_operands_behind_a_short_circuit_are_computed_for_the_rows_that_are_left():
    rows = [{"a": "1", "b": "no number"}] * 90 + [{"a": "2", "b": "7"}] * 10
    expression = reput_filter.compile("a = 2 AND b > 5")

    found = [np.count_nonzero(expression.matches_batch(batch)) for batch in batches_of(rows)]

    assert found == [10]
    assert by_columns(expression, rows) == by_rows(expression, rows)
