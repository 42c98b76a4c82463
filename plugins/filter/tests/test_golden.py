"""What Apache RocketMQ's own filter module said, row for row; and what the newest release says."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

import reput_filter
from reput.record import java_string_hash
from reput_filter.consumerfilters.bloomfilter import BloomFilter, murmur3_64

VECTORS = Path(__file__).parents[3] / "tests" / "golden" / "rocketmq-4.8.0" / "vectors.jsonl.gz"


def rows(kind):
    with gzip.open(VECTORS, "rt", encoding="utf-8") as lines:
        return [row for row in map(json.loads, lines) if row["kind"] == kind]


def answer(expression, properties):
    """Value, type, error and match, in the words of the recorded rows."""
    try:
        compiled = reput_filter.compile(expression)
    except reput_filter.ExpressionError:
        return {"error": "MQFilterException"}
    value = error = None
    try:
        value = compiled.evaluate(properties)
    except reput_filter.EvaluationError as raised:
        error = raised.java_name
    return {
        "value": value,
        "value_type": None if value is None else "Boolean",
        "evaluate_error": error,
        "matches": compiled.matches(properties),
    }


def test_every_recorded_expression_is_answered_as_java_answered_it():
    recorded = rows("sql")

    differ = []
    for row in recorded:
        expected = {name: row[name] for name in row.keys() - {"kind", "expression", "properties"}}
        found = answer(row["expression"], row.get("properties", {}))
        if found != expected:
            differ.append((row, found))

    assert differ == []
    assert len(recorded) > 1000


def test_java_hashes_are_those_recorded():
    assert [row for row in rows("java_hash") if java_string_hash(row["text"]) != row["hash"]] == []


def test_bloom_filters_have_the_recorded_sizes():
    for row in rows("bloom"):
        found = BloomFilter.of(row["f"], row["n"])

        assert (found.hash_count, found.bit_count) == (row["k"], row["m"])


def test_bits_of_consumers_are_those_recorded():
    for row in rows("bloom_hash"):
        bloom = BloomFilter.of(row["f"], row["n"])

        positions = bloom.positions(row["text"])

        assert list(positions) == row["positions"]
        assert bloom.bits(positions).hex() == row["bits"]


@pytest.mark.parametrize(
    ("member", "hash_", "positions", "bits"),
    [
        ("CID_abc#TopicTest", 0x69F37BB54D7BC883, (103, 61, 29), "0000002000000020000000008000"),
        ("group1#topic1", 0x4EE808F694462DE2, (71, 62, 59), "0000000000000048800000000000"),
        ("", 0, (0, 0, 0), "0100000000000000000000000000"),
        ("消费组#主题", 0x87836D7B1FB4E7CF, (101, 21, 111), "0000200000000000000000002080"),
        ("\ud800#x", 0x46E9DC009EEF2E3E, (1, 14, 30), "0240004000000000000000000000"),
    ],
)
def test_members_have_the_bits_of_the_specification(member, hash_, positions, bits):
    bloom = BloomFilter.of(20, 32)

    assert murmur3_64(member.encode("utf-8", "replace")) == hash_
    assert bloom.positions(member) == positions
    assert bloom.bits(positions).hex() == bits


ERROR, REFUSED = "evaluation fails", "not compiled"


@pytest.mark.parametrize(
    ("expression", "properties", "expected"),
    [
        ("a > 5", {"a": "6"}, True),
        ("a > 5", {"a": "6.5"}, ERROR),
        ("a > 5", {"a": "abc"}, ERROR),
        ("a > 5", {"a": " 6"}, ERROR),
        ("a > 5", {"a": "+6"}, True),
        ("a > 5", {"a": "4000000000"}, ERROR),
        ("a > 5.5", {"a": "6d"}, True),
        ("a > b", {"a": "6", "b": "5"}, True),
        ("a > b", {"a": "x", "b": "5"}, ERROR),
        ("a < b", {"a": "1e2", "b": "NaN"}, True),
        ("a = 5", {"a": "5"}, True),
        ("a = 5", {"a": "5.0"}, ERROR),
        ("a = '5'", {"a": "5"}, True),
        ("a = 5.0", {"a": "5"}, True),
        ("a = b", {"a": "1", "b": "1.0"}, False),
        ("a = b", {"a": "x"}, False),
        ("a = b", {"b": "x"}, None),
        ("a = b", {}, True),
        ("a <> 5", {}, None),
        ("a IS NULL", {}, True),
        ("a IS NULL", {"a": ""}, False),
        ("a IS NULL IS NULL", {}, False),
        ("a", {"a": "true"}, False),
        ("a = TRUE", {"a": "TRUE"}, True),
        ("a = TRUE", {"a": "yes"}, False),
        ("a = FALSE", {"a": "yes"}, True),
        ("TRUE = a", {"a": "true"}, ERROR),
        ("NULL", {}, None),
        ("5", {}, REFUSED),
        ("'x'", {}, REFUSED),
        ("NOT a = 5", {}, None),
        ("NOT a IS NULL", {}, True),
        ("NOT (a > 5)", {"a": "3"}, True),
        ("a BETWEEN 5 AND 1", {}, REFUSED),
        ("a BETWEEN '1' AND '5'", {}, REFUSED),
        ("a NOT BETWEEN 5 AND 1", {"a": "6"}, True),
        ("a BETWEEN b AND 5", {"a": "3", "b": "1"}, True),
        ("a NOT IN ('x','y')", {}, None),
        ("a IN ()", {}, REFUSED),
        ("a IN (1,2)", {}, REFUSED),
        ("'a' IN ('a')", {}, REFUSED),
        ("a NOT CONTAINS 'b'", {"a": "xyz"}, True),
        ("a NOT CONTAINS 'b'", {}, False),
        ("a CONTAINS ''", {"a": "abc"}, False),
        ("a CONTAINS b", {}, REFUSED),
        ("a STARTSWITH 'ab'", {"a": "abc"}, True),
        ("a ENDSWITH 'bc'", {"a": "abc"}, True),
        ("a NOT ENDSWITH 'bc'", {"a": "abc"}, False),
        ("a LIKE 'b%'", {"a": "abc"}, False),
        ("a = 012", {"a": "12"}, False),
        ("a = 012", {"a": "0"}, True),
        ("a = 0.0", {}, REFUSED),
        ("a > 1e400", {}, REFUSED),
        ("a = 9223372036854775808", {}, REFUSED),
        ("a = -0.5", {"a": "-0.5"}, True),
        ("a > - -1", {"a": "0"}, False),
        ("a--b=1", {"a": "1"}, False),
        ("a = 1 b = 2", {"a": "1"}, True),
        ("a = 1)", {"a": "1"}, True),
        ("a=1 # x", {}, REFUSED),
        ("a != 5", {}, REFUSED),
        ("a == 5", {}, REFUSED),
        ("A.b = 1", {}, REFUSED),
        ("1 = 1.0", {}, True),
        ("'1' = 1", {}, True),
        ("1 = '1'", {}, True),
        ("TRUE = 1", {}, REFUSED),
        ("a=1 AND b=2", {"b": "2"}, None),
        ("a=1 AND b=3", {"b": "2"}, False),
        ("b > 5 AND a > 5", {"b": "1", "a": "x"}, False),
        ("a > 5 OR b > 5", {"a": "x", "b": "6"}, ERROR),
        ("-a > -5", {"a": "3"}, None),
        ("a -- a comment\n = 1", {"a": "1"}, True),
        ("a /* a * comment ** */ = 1", {"a": "1"}, True),
        ("a = 017.5", {"a": "17.5"}, True),
        ("a = 0x1p4", {"a": "0"}, True),
        ("a > 1.5", {"a": "0x1p4"}, True),
        ("a > 0", {"a": "٣"}, True),
        ("a > 0.5", {"a": "٣"}, ERROR),
        ("a = ''''", {"a": "'"}, True),
        ("a In ('x') aNd NoT (b iS nUlL)", {"a": "x", "b": ""}, True),
    ],
)
def test_the_newest_release_says(expression, properties, expected):
    found = answer(expression, properties)

    if expected is REFUSED:
        assert found == {"error": "MQFilterException"}
    elif expected is ERROR:
        assert found["evaluate_error"] is not None
        assert not found["matches"]
    else:
        assert (found["value"], found["evaluate_error"]) == (expected, None)
        assert found["matches"] is (expected is True)
