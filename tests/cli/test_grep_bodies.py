"""``reput grep`` in bodies: texts, expressions, neighbours; held against a look at each message."""

from __future__ import annotations

import re
import zlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import reput
from reput_testing import SmallLog
from reput_tools.cli.kit.exitcodes import ExitCode
from reput_tools.cli.messages.bodysearch import BodySearch
from reput_tools.cli.messages.grepcontext import GrepContext

STORED = [
    ("orders", b'{"item": "chair", "left": 0}', None),
    ("orders", b'{"item": "Table", "left": 1234}', "paid"),
    ("refunds", b"a chair is out of stock", "paid"),
    ("orders", "Stra\u00dfe 12, k\u00e4se".encode(), None),
    ("refunds", b"\xff\xfe chair", None),
    ("orders", b"", None),
]


@pytest.fixture
def path(plain_store):
    return plain_store(
        *(reput.Message(topic, body, tags=tags) for topic, body, tags in STORED),
        reput.Message("orders", zlib.compress(b"a packed chair"), sys_flag=0x301),
        reput.Message("orders", b"chair", sys_flag=0x4),  # no consumer sees it
    )


def places(outcome):
    return [line["physical_offset"] for line in outcome.lines]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("chair",), [0, 2, 4, 6]),
        (("chair", "--raw"), [0, 2, 4]),
        (("chair", "orders"), [0, 6]),
        (("chair", "-t", "refunds"), [2, 4]),
        (("chair", "orders", "-t", "refunds"), [0, 2, 4, 6]),
        (("table",), []),
        (("table", "-i"), [1]),
        (("-E", r'left": \d{4}'), [1]),
        (("-E", "^a .*stock$"), [2]),
        (("-E", "chair|Table"), [0, 1, 2, 4, 6]),
        (("-F", "."), []),
        (("-E", "^$"), [5]),
        (("k\u00e4se",), [3]),
        (("K\u00c4SE", "-i"), [3]),
        (("-E", r"\w\u00dfe"), [3]),
        (("chair", "--tag", "paid"), [2]),
        (("chair", "-n", "2"), [0, 2]),
        (("-e", "chair", "orders"), [0, 6]),
    ],
)
def test_bodies_are_looked_into(run, path, arguments, expected) -> None:
    every = places(run("grep", path, "-E", ".*|^$", "--json"))

    outcome = run("grep", path, *arguments, "--json")

    assert [every.index(place) for place in places(outcome)] == expected
    assert outcome.code == (ExitCode.OK if expected else ExitCode.NOT_FOUND)


def test_a_packed_body_is_printed_unpacked_or_as_it_is(run, path) -> None:
    (found,) = run("grep", path, "packed", "--json").lines

    assert (found["body"], found["compression"], found["sys_flag"]) == ("a packed chair", "zlib", 0)
    assert "a packed chair" in run("grep", path, "packed").out


def test_totals_count_by_topic(run, path) -> None:
    text = run("grep", path, "chair", "--total")
    document = run("grep", path, "chair", "--total", "--json").json

    assert [line.split() for line in text.out.splitlines()[:3]] == [
        ["TOPIC", "MESSAGES"],
        ["orders", "2"],
        ["refunds", "2"],
    ]
    assert document["message_count"] == 4
    assert document["topics"][1] == {"topic": "refunds", "message_count": 2}


def test_a_wrong_expression_says_where_and_what_else_to_do(run, path) -> None:
    outcome = run("grep", path, "-E", "left[")

    assert outcome.code == ExitCode.USAGE
    assert "position 4" in outcome.err
    assert "without -E it is searched as text" in outcome.err


# ------------------------------------------------------------------ a needle against each message

WORDS = st.text("abK\u212a\u017fs\u00e4.", min_size=0, max_size=6)
BODIES = st.lists(WORDS.map(str.encode) | st.binary(max_size=8), min_size=1, max_size=12)


def batch_rows(bodies, needle):
    log = SmallLog(1 << 20)
    for body in bodies:
        log.append(reput.Message("T", body))
    found = []
    for batch in log.scan():
        rows = needle.rows(batch, batch.size > 0, unpacks=True)
        found += [
            needle.is_in(batch.message(row).body) if may else False for row, may in enumerate(rows)
        ]
    return found


@settings(max_examples=150)
@given(bodies=BODIES, text=WORDS.filter(bool), is_regex=st.booleans(), ignore_case=st.booleans())
def test_what_is_left_out_unseen_never_matches(bodies, text, is_regex, ignore_case) -> None:
    needle = BodySearch.of(text, is_regex=is_regex, ignore_case=ignore_case)

    assert batch_rows(bodies, needle) == [needle.is_in(body) for body in bodies]


@pytest.mark.parametrize(
    "pattern", ["(ab)+b", "a(?:b)K", "(?i:ab)", "a|b", "(?i)ab", "^ab$", "a{2}b"]
)
@settings(max_examples=60)
@given(bodies=BODIES)
def test_expressions_find_what_python_finds(pattern, bodies) -> None:
    needle = BodySearch.of(pattern, is_regex=True, ignore_case=False)

    expected = [
        re.search(pattern, body.decode("utf-8", "surrogateescape")) is not None for body in bodies
    ]
    assert batch_rows(bodies, needle) == expected


def test_a_hit_across_a_border_hides_none_behind_it() -> None:
    """The end of one record and the head of the next look like the pattern, too."""
    log = SmallLog(1 << 20)
    for body in (b"x", b"\0\0\0\0\0", b"y"):
        log.append(reput.Message("T", body))
    needle = BodySearch.of("\0" * 5, is_regex=False, ignore_case=False)

    (rows,) = [needle.rows(batch, batch.size > 0, unpacks=True) for batch in log.scan()]

    assert rows[1]


# ------------------------------------------------------------------ neighbours


def expected_with_neighbours(messages, count):
    """Each (queue, number, is match) that must be shown, one by one."""
    shown = set()
    for queue in {queue for queue, _ in messages}:
        matches = [match for each, match in messages if each == queue]
        for place, is_match in enumerate(matches):
            if is_match:
                for near in range(max(place - count, 0), min(place + count + 1, len(matches))):
                    shown.add((queue, near, matches[near]))
    return shown


@settings(max_examples=150)
@given(
    messages=st.lists(st.tuples(st.integers(0, 2), st.booleans()), min_size=1, max_size=40),
    count=st.integers(1, 4),
    per_file=st.integers(1, 12),
)
def test_neighbours_are_those_of_the_queue_whatever_batches_there_are(
    messages, count, per_file
) -> None:
    log = SmallLog(130 * per_file + 40)
    for queue_id, is_match in messages:
        log.append(reput.Message("T", b"yes" if is_match else b"no", queue_id=queue_id))
    neighbours, shown = GrepContext(count), []

    for batch in log.scan():
        matches = batch.body.sizes == 3
        for message, is_match in neighbours.of(batch, batch.size > 0, matches):
            shown.append((message.queue_id, message.queue_offset, is_match))

    assert len(shown) == len(set(shown))
    assert set(shown) == expected_with_neighbours(messages, count)
    for queue in range(3):
        offsets = [offset for each, offset, _ in shown if each == queue]
        assert offsets == sorted(offsets)


def test_neighbours_are_told_from_matches(run, plain_store) -> None:
    bodies = [b"0", b"1", b"hit", b"3", b"4", b"5", b"6", b"hit", b"8"]
    path = plain_store(*(reput.Message("orders", body) for body in bodies))

    text = run("grep", path, "hit", "-C", "1").out
    lines = run("grep", path, "hit", "-C", "1", "--json").lines

    assert [
        line if line == "--" else line[0] + line[-2:].strip() for line in text.splitlines()
    ] == [
        *(" 1", ">it", " 3", "--", " 6", ">it", " 8"),
    ]
    assert [line["is_match"] for line in lines] == [False, True, False] * 2
    assert [line["body"] for line in lines] == ["1", "hit", "3", "6", "hit", "8"]


def test_a_limit_counts_matches_and_shows_their_neighbours(run, plain_store) -> None:
    path = plain_store(*(reput.Message("orders", body) for body in [b"a", b"x", b"b", b"c", b"x"]))

    lines = run("grep", path, "x", "-C", "1", "-n", "1", "--json").lines

    assert [line["body"] for line in lines] == ["a", "x", "b", "c"]
