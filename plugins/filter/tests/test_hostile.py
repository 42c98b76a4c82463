"""Expressions that mean harm: too deep, too long, or made to be slow; and strict compiling."""

from __future__ import annotations

import pickle
import re
import time

import numpy as np
import pytest
from filter_batches import batches_of
from hypothesis import given, settings
from hypothesis import strategies as st

import reput_filter
from reput_filter import ExpressionError

SIZE = 65_536
SECONDS = 3.0  # of processor time: a hundred times what each takes; what is quadratic takes minutes

TOO_DEEP = {
    "parentheses": "(" * 20_000,
    "NOT": "NOT " * 16_000 + "a",
    "minus": "- " * 30_000 + "1",
    "plus": "+" * 60_000 + "1",
    "comparisons": "a" + " = 1" * 16_000,
    "IS NULL": "a" + " IS NULL" * 8_000,
    "negated parentheses": "NOT (" * 13_000,
}
LONG_BUT_FLAT = {
    "AND": " AND ".join(["a = 1"] * 6_500),
    "OR": " OR ".join(["a = 1"] * 7_000),
    "IN": "a IN (" + ",".join(f"'{number}'" for number in range(7_000)) + ")",
    "blanks": " " * 65_000 + "a = 1",
    "comment": "/*" + "*" * 65_000 + "*/ a = 1",
    "line comments": "--\n" * 21_000 + "a = 1",
    "text": "a = '" + "x" * 65_000 + "'",
    "quotes": "a = '" + "''" * 32_000 + "'",
    "name": "a" * 65_000 + " = 1",
    "CONTAINS": "a CONTAINS '" + "a" * 30_000 + "'",
}
MALFORMED = {
    "open comment": "/*" * 32_000,
    "open text": "'" + "''" * 32_000,
    "open IN": "a IN (" + "'x'," * 16_000,
    "line of minus signs": "a = 1 OR --1 = " * 4_000,
    "digits": "a = " + "9" * 65_000,
    "exponent": "a > 1e" + "9" * 60_000,
}


def refused(text):
    with pytest.raises(ExpressionError) as error:
        reput_filter.compile(text)
    return error.value


@pytest.mark.parametrize("name", TOO_DEEP)
def test_deep_nesting_is_refused_at_its_place(name):
    start = time.thread_time()

    error = refused(TOO_DEEP[name])

    assert re.fullmatch("nested more than (64|128) deep", error.reason)
    assert 0 < error.column < 2000
    assert time.thread_time() - start < SECONDS


@pytest.mark.parametrize("name", LONG_BUT_FLAT)
def test_long_expressions_compile_and_run_in_time_that_grows_with_them(name):
    rows = [{"a": "1"}, {"a": "x" * 3000}, {}] * 10
    start = time.thread_time()

    expression = reput_filter.compile(LONG_BUT_FLAT[name])

    one_by_one = [expression.matches(row) for row in rows]
    at_once = [found for batch in batches_of(rows) for found in expression.matches_batch(batch)]
    assert at_once == one_by_one
    assert pickle.loads(pickle.dumps(expression)) == expression
    assert time.thread_time() - start < SECONDS * 5


@pytest.mark.parametrize("name", MALFORMED)
def test_malformed_expressions_are_refused_soon(name):
    start = time.thread_time()

    refused(MALFORMED[name])

    assert time.thread_time() - start < SECONDS


def test_megabytes_are_refused_unread():
    error = refused("a = 1 OR " * 1_000_000)

    assert error.column == SIZE
    assert len(str(error)) < 1_000


def test_values_that_are_long_do_not_make_a_condition_slow():
    digits = "1" * 30_000
    rows = [{"a": digits + "x"}, {"a": digits}, {"a": "a" * 30_000}, {"a": " " * 30_000 + "1"}]
    start = time.thread_time()

    for text in ("a > 5", "a > 5.5", "a CONTAINS 'aaaaaaaaaaaab'", "a = TRUE", "a > b OR a < 1e3"):
        expression = reput_filter.compile(text)
        expected = [expression.matches(row) for row in rows]
        assert [
            found for batch in batches_of(rows) for found in expression.matches_batch(batch)
        ] == expected

    assert time.thread_time() - start < SECONDS


@settings(max_examples=300, deadline=None)
@given(
    st.text(max_size=60)
    | st.lists(
        st.sampled_from(
            [
                *("a", "b", "1", "1.5", "0", "'x'", "(", ")", ",", "=", "<>", ">", "<=", "+"),
                *("-", "NOT", "AND", "OR", "BETWEEN", "IN", "IS", "NULL", "TRUE", "CONTAINS"),
                *("--", "/*", "*/", "'"),
            ]
        ),
        max_size=20,
    ).map(" ".join)
)
def test_any_text_compiles_or_is_refused_at_a_column(text):
    for strict in (False, True):
        refusal = None
        try:
            expression = reput_filter.compile(text, strict=strict)
        except ExpressionError as error:
            refusal = error
        if refusal is None:
            assert expression.matches({"a": "1", "b": "x"}) in (True, False)
        else:
            assert 0 <= refusal.column <= len(text)
            assert str(refusal)


# --------------------------------------------------------------------------- strict


@pytest.mark.parametrize(
    ("text", "column", "reason"),
    [
        ("a = 1 b = 2", 6, "nothing can follow"),
        ("a = 1)", 5, "no parenthesis"),
        ("a LIKE 'x%'", 2, "no LIKE"),
        ("a = 012", 5, "leading zeros"),
        ("a > 10f", 6, "no such suffix"),
        ("a - b = 1", 2, "no arithmetic"),
        ("a = 1 --comment", 6, "line end"),
        ("NOT a = 5", 0, "NOT binds tighter"),
        ("NOT (a = 1) = FALSE", 0, "NOT binds tighter"),
        ("a AND b = 1", 0, "write a = TRUE"),
        ("b = 1 AND a", 10, "write a = TRUE"),
        ("NOT a CONTAINS 'x'", 0, "NOT binds tighter"),
        ("a = 1 OR NULL", 9, "NULL is a condition"),
        ("NULL", 0, "NULL is a condition"),
        ("NOT NULL", 4, "NULL is a condition"),
        ("a NOT BETWEEN 5 AND 1", 20, "below"),
        ("-a > 5", 0, "negated"),
        ("-'5' = a", 0, "negated"),
        ("a = -TRUE", 4, "negated"),
        ("a = - - -'5'", 8, "negated"),
        ("TRUE = a", 5, "from the right only"),
        ("(a > 1) = 'x'", 8, "compared with a value"),
        ("5 = TRUE", 2, "compared with a condition"),
        ("a CONTAINS ''", 2, "empty text"),
        ("5 CONTAINS 'x'", 2, "only a property"),
    ],
)
def test_strict_compiling_points_at_what_hardly_anybody_means(text, column, reason):
    reput_filter.compile(text)  # as RocketMQ does

    with pytest.raises(ExpressionError, match=reason) as error:
        reput_filter.compile(text, strict=True)

    assert error.value.column == column
    assert str(error.value).splitlines()[-1] == " " * (4 + column) + "^"


@pytest.mark.parametrize(
    "text",
    [
        "a > 5",
        "NOT (a = 5)",
        "(NOT (a > 1)) = TRUE",
        "a = TRUE AND b <> -5 AND c BETWEEN -1.5 AND 3",
        "a IN ('x') OR NOT (b CONTAINS 'y') OR c IS NULL",
        "- -1 = a",
        "- - -1.5 = a",
        "a NOT BETWEEN 1 AND 5 AND a NOT CONTAINS 'x'",
        "1 = 1 -- always\n",
    ],
)
def test_strict_compiling_takes_what_does_what_it_says(text):
    assert reput_filter.compile(text, strict=True).strict


@pytest.mark.parametrize(
    ("text", "column", "reason"),
    [
        ("a = ", 4, "ends here"),
        ("a != 1", 2, "write <>"),
        ("a == 1", 3, "write ="),
        ('a = "x"', 4, "single quotes"),
        ("a = 'x", 4, "not closed"),
        ("a /* = 1", 2, "not closed"),
        ("a IS 5", 5, "NULL expected"),
        ("a IN (5)", 6, "a text"),
        ("'x' IN ('x')", 0, "only a property"),
        ("NOT a > 5", 0, "write NOT ("),
        ("NOT a BETWEEN 1 AND 5", 0, "write NOT ("),
        ("NOT a IN ('x')", 0, "write NOT ("),
        ("(NOT a) IN ('x')", 0, "only a property"),
        ("a = NULL", 4, "IS NULL"),
        ("a BETWEEN 5 AND 1", 16, "below"),
        ("a > 'x'", 4, "a number expected"),
        ("a = 99999999999999999999", 4, "64 bits"),
        ("a = 0.0", 4, "zero"),
        ("a > 1e999", 4, "too large"),
        ("5", 0, "a condition expected"),
        ("(a = 1", 6, "')' expected"),
        ("标签 = 'x'", 0, "begins nothing"),
        ("", 0, "expected"),
    ],
)
def test_what_is_refused_is_refused_with_column_and_reason(text, column, reason):
    error = refused(text)

    assert error.column == column
    assert reason in str(error).replace("\n", " ")


# --------------------------------------------------------------------------- objects


def test_filters_pickle_and_compare_by_what_they_say():
    for made in (
        reput_filter.compile("a > 5 AND b IS NULL"),
        reput_filter.compile("a > 5", strict=True),
        reput_filter.compile("A || B", "TAG"),
        reput_filter.tags(),
    ):
        again = pickle.loads(pickle.dumps(made))
        assert again == made
        assert hash(again) == hash(made)
        assert len(pickle.dumps(made)) < 500

    assert reput_filter.compile("a > 5") != reput_filter.compile("a > 5", strict=True)
    assert reput_filter.compile("a > 5 AND b = c").properties == {"a", "b", "c"}


@pytest.mark.parametrize(
    ("text", "tags", "everything"),
    [
        (None, set(), True),
        ("", set(), True),
        ("*", set(), True),
        ("A", {"A"}, False),
        ("A || B || ", {"A", "B"}, False),
        ("A||B||A", {"A", "B"}, False),
        ("  ", set(), False),
        (" || ", set(), False),
    ],
)
def test_subscriptions_are_read_as_rocketmq_reads_them(text, tags, everything):
    for kind in (None, "", "TAG"):
        subscription = reput_filter.compile(text, kind)

        assert (subscription.tags, subscription.everything) == (tags, everything)


def test_a_subscription_of_separators_only_is_an_error():
    with pytest.raises(ExpressionError, match="no tag"):
        reput_filter.compile("||", "TAG")


def test_no_other_kind_is_known():
    with pytest.raises(ValueError, match="SQL92"):
        reput_filter.compile("a = 1", "XPATH")


def test_tags_codes_count_by_their_low_32_bits():
    wanted = reput_filter.tags("TagA")
    codes = np.array([2598919, 2598919 | 1 << 40, 2598920], np.int64)

    may_match = wanted.may_match(codes, [None] * 3, np.zeros(3, np.int64))

    assert may_match.tolist() == [True, True, False]
