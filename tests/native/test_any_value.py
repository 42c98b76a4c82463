"""Any value in any field gives the same with both engines: its bytes, or an error and its text."""

from __future__ import annotations

import os
import re
from collections import namedtuple
from enum import Enum, IntEnum

import numpy as np
import pytest
from bothengines import python_engine
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from putanswers import lived

import reput

PLACE = re.compile(r" at 0x[0-9a-f]+")
SOAK = os.environ.get("REPUT_SOAK") == "1"

MESSAGE_FIELDS = (
    "topic",
    "body",
    "queue_id",
    "tags",
    "keys",
    "properties",
    "flag",
    "sys_flag",
    "born_timestamp",
    "born_host",
    "reconsume_times",
    "prepared_transaction_offset",
)
OPTIONS = ("max_message_size", "record_crc", "store_address", "max_light_queues")
COLUMN_FIELDS = tuple(name for name in MESSAGE_FIELDS if name != "born_host")


class Number(int):
    """A number of a caller's own class."""


class Index:
    """No number, but taken for one."""

    def __index__(self):
        return 3

    def __repr__(self):
        return "Index()"


class Raises:
    """Answers nothing."""

    def _raise(self, *_):
        raise LookupError("asked")

    __index__ = __iter__ = __len__ = __getitem__ = __bytes__ = __eq__ = __bool__ = _raise
    __hash__ = None

    def __repr__(self):
        return "Raises()"


class Bytes(bytes):
    """Bytes of a caller's own class."""


class Text(str):
    """A text of a caller's own class, which lies about itself."""

    __slots__ = ()

    def __str__(self):
        return "something else"

    def encode(self, *_):
        return b"something else"


class Mine(reput.Message):
    """A message of a caller's own class."""


class Words(list):
    """A list of a caller's own class."""


class Level(IntEnum):
    ONE = 1


class Name(Enum):
    A = "a"


Pair = namedtuple("Pair", "address port")

VALUES = """
None; True; False; 0; 1; -1; 3; 1023; 1024; 2**15; 2**16; 2**31 - 1; 2**31; -2**31; -2**31 - 1
2**32; 2**62; 2**63 - 1; 2**63; -2**63; -2**63 - 1; 2**64 - 1; 2**64; 2**70; -2**70; 10**30
Number(2); Number(2**63); Index(); Level.ONE; Name.A; Raises(); object; Ellipsis; NotImplemented
0.0; 1.0; 1.5; -0.0; float("nan"); float("inf"); 1j; Decimal(1); Fraction(1, 2); Fraction(3)
np.int8(1); np.int32(3); np.int64(-1); np.uint64(2**64 - 1); np.float64(1); np.bool_(True)
np.str_("np"); np.bytes_(b"np"); np.array(3); np.array([1, 2]); np.array([1, 2], np.int32)
np.array([1, 2], ">i8"); np.array([1.5]); np.array(["a", "b"]); np.array([b"a", None], object)
np.arange(4).reshape(2, 2); np.arange(8)[::2]; np.zeros(0, np.int64); np.array([2**63], "u8")
np.array([0, 1, 2], np.int32); np.ma.array([1, 2]); np.datetime64(1, "ms"); np.void(b"ab"); ""
" "; "a"; "a b"; "a\\x01b"; "a\\x02"; "\\0"; "标签"; "\\ud800"; Text("own"); "x" * 600; "1"
"T" * 127; "T" * 128; "%RETRY%" + "g" * 250; "a/b"; "INNER_NUM"; "KEYS"; "y" * 33_000; "é" * 300
b""; b"a"; b"a\\x01b\\x02"; b"a\\x01b"; b"KEYS\\x01k\\x02"; Bytes(b"a\\x01b\\x02"); b"z" * 32_768
b"\\xff\\xfe"; b"x" * 20_000; b"INNER_NUM\\x012\\x02"; b"a\\x01b\\x02__CRC32#\\x011234567890\\x02"
bytearray(b"a\\x01b\\x02"); bytearray(); memoryview(b"a\\x01b\\x02"); memoryview(bytearray(b"ab"))
memoryview(b"abcd")[::2]; memoryview(np.arange(3)); array.array("q", [1, 2]); array.array("B"); ()
[]; {}; set(); frozenset(); ("a",); ["a"]; ["a", "b"]; ("a", "b"); {"a"}; [None]; [None, None]
[1, 2]; [1]; [2**63, 0]; ["a", 1]; [b"a", b"b"]; [bytearray(b"a"), b"b"]; [[], []]; [{}, None]
Words(["a", "b"]); UserList(["a", "b"]); deque(["a", "b"]); range(2); iter(["a", "b"])
dict.fromkeys; {"a": "b"}; {"a": None}; {"a": 1}; {1: "a"}; {"a": b"b"}; {"KEYS": "k"}; {"": "a"}
{"a": ""}; {"INNER_NUM": "2"}; {"WAIT": "false"}; {"INNER_MULTI_DISPATCH": "%LMQ%a"}
{"a": ["b", "c"]}; {"DELAY": "3"}; {"__CRC32#": "1"}; {"a\\x01": "b"}; {"a": "b\\x02"}
{"\\ud800": "a"}; {"a": "\\ud800"}; {Text("a"): Text("b")}; OrderedDict(a="b"); UserDict(a="b")
[{"a": "b"}, {"a": "c"}]; [("a", "b")]; ({"a": "b"}, b"a\\x01b\\x02")
{"INNER_MULTI_DISPATCH": "%LMQ%a", "INNER_MULTI_QUEUE_OFFSET": "9" * 23}; ("10.0.0.1", 80)
["10.0.0.1", 80]; Pair("10.0.0.1", 80); ("::1", 5); ("10.0.0.1", 65_536); ("h", 1)
("10.0.0.1", True); ("10.0.0.1", "80"); ("10.0.0.1", 2**70); (b"10.0.0.1", 80); (1, 2)
(None, None); (np.array([0, 1, 2], np.int32), b"ab"); (np.array([0, 1, 2]), b"ab")
(np.array([0, 1, 2]), "ab"); (np.array([0, 1, 2]), bytearray(b"ab"))
(np.array([0, 1, 2]), memoryview(b"ab")); (np.array([0, 1, 9]), b"ab")
(np.array([2, 1, 0]), b"ab"); (np.array([-1, 1, 2]), b"ab"); (np.array([0, 1, 2], ">i4"), b"ab")
(np.array([0, 1, 2], np.uint8), b"ab"); ([0, 1, 2], b"ab")
(np.array([0, 1, 2]), np.frombuffer(b"ab", np.uint8)); (np.array([0, 1, 2]), np.arange(2))
(np.array([0, 1, 2]), np.zeros((2, 2), np.uint8)); (np.array([0, 1, 2]), Bytes(b"ab"))
(np.array([0]), b""); (np.zeros(0, np.int64), b""); (np.array([0, 1, 2]), b"ab", None)
("255.255.255.255", 65_535); ("10.0.0.01", 80); ("10.0.0.1", -1); ("no address", 5)
("10.0.0.1",); (Text("10.0.0.3"), 7); "a|b%c-d_e"; "%RETRY%" + "g" * 200; "主题"; b"y" * 30_000
b"z" * 32_767; b"ends in zero\\0"; b"x\\x01" + bytes(600) + b"\\x02"; {"INNER_X": "1"}
{"n\\x02": "1"}; 12; 0x30; 0x100; {"INNER_MULTI_DISPATCH": "%LMQ%a,%LMQ%b"}; {"a": "1234567890"}
[b"x" * 50, memoryview(b"y")]; (np.array([0, 1, 2], np.uint32), b"ab"); [True, np.int32(3)]
(np.array([0, 9, 4], np.int32), b"short")
(np.array([0, 6, 12]), b"a\\x01b\\x02  " * 2); (np.array([0, 1, 2]), b"\\xff\\xfe")
"""
ANY = tuple(
    eval(f"lambda: {text}") for text in VALUES.replace("\n", ";").split(";") if text.strip()
)
"""Each creates a new value: what one call takes from an iterator, the next would miss."""

usual = {
    "topic": st.sampled_from(["orders", "payments"]),
    "body": st.binary(max_size=80),
    "queue_id": st.integers(0, 3),
    "tags": st.sampled_from([None, "a", "标"]),
    "keys": st.sampled_from([None, "k", "k l"]),
    "properties": st.sampled_from([None, {"a": "b"}, b"c\x01d\x02"]),
}
anything = st.sampled_from(range(len(ANY)))


def fields_of(names, usual):
    """Some usual fields, and one to three of any value, as numbers of `ANY`."""
    chosen = st.lists(st.sampled_from(names), min_size=1, max_size=3, unique=True)
    strange = chosen.flatmap(lambda found: st.fixed_dictionaries(dict.fromkeys(found, anything)))
    return st.tuples(st.fixed_dictionaries(usual), strange)


pair_of_bodies = st.just((np.array([0, 1, 2], np.int32), b"ab"))
usual_columns = {
    "topic": st.sampled_from(["orders", ["orders", "payments"]]),
    "body": st.one_of(st.just([b"a", b"b"]), pair_of_bodies),
}
message_tasks = st.tuples(
    st.sampled_from(["message"] * 9 + ["mine"]), fields_of(MESSAGE_FIELDS, usual)
)
column_tasks = st.tuples(st.just("columns"), fields_of(COLUMN_FIELDS, usual_columns))
many_tasks = st.tuples(st.just("many"), st.lists(fields_of(MESSAGE_FIELDS, usual), max_size=3))
other_tasks = st.tuples(st.sampled_from(["put", "put_many", "among"]), anything)
tasks = st.one_of(message_tasks, message_tasks, many_tasks, column_tasks, column_tasks, other_tasks)


def fields(pair):
    given, strange = pair
    return given | {name: ANY[number]() for name, number in strange.items()}


def do(store, task):
    """Put what a task describes."""
    kind, found = task
    if kind in ("message", "mine"):
        return store.put((reput.Message if kind == "message" else Mine)(**fields(found)))
    if kind == "many":
        return store.put_many([reput.Message(**fields(each)) for each in found])
    if kind == "columns":
        return store.put_many(reput.Columns(**fields(found)))
    if kind == "among":
        return store.put_many([reput.Message("orders", b"x"), ANY[found]()])
    return getattr(store, kind)(ANY[found]())


def both(root, tasks, options):
    with python_engine():
        expected = lived(root / "python", tasks, options, do)
    found = lived(root / "native", tasks, options, do)
    return [(without_places(answers), *rest) for answers, *rest in (found, expected)]


def without_places(answers):
    """The same without where objects are in memory, which errors name."""
    return [
        (each[0], PLACE.sub("", each[1])) if isinstance(each, tuple) else each for each in answers
    ]


@given(
    st.lists(tasks, min_size=5, max_size=20),
    st.sampled_from([{}, {}, {}, {"record_crc": True}, {"max_light_queues": 20_000}]),
)
@settings(max_examples=400 if SOAK else 60, deadline=None, suppress_health_check=list(HealthCheck))
def test_any_value_of_any_field_is_stored_or_refused_the_same(tmp_path_factory, tasks, options):
    found, expected = both(tmp_path_factory.mktemp("any"), tasks, options)

    for task, ours, reference in zip(tasks, found[0], expected[0], strict=True):
        assert ours == reference, task
    assert found[1:] == expected[1:]


@pytest.mark.parametrize("part", range(8))
def test_each_value_of_each_field_is_stored_or_refused_the_same(tmp_path, part):
    usual_message = {"topic": "orders", "body": b"x"}
    usual_rows = {"topic": "orders", "body": [b"a", b"b"]}
    numbers = range(part, len(ANY), 8)
    each = [
        task
        for number in numbers
        for task in (
            *[("message", (usual_message, {name: number})) for name in MESSAGE_FIELDS],
            *[("many", [(usual_message, {name: number})]) for name in MESSAGE_FIELDS],
            *[("columns", (usual_rows, {name: number})) for name in COLUMN_FIELDS],
            *[(kind, number) for kind in ("put", "put_many", "among")],
        )
    ]

    found, expected = both(tmp_path, each, {})

    assert [
        (task, ours, reference)
        for task, ours, reference in zip(each, found[0], expected[0], strict=True)
        if ours != reference
    ] == []
    assert found[1:] == expected[1:]


def test_values_of_an_option_are_taken_or_refused_the_same(tmp_path):
    each = [("message", ({"topic": "orders", "body": b"x" * 200}, {}))] * 2

    def life(root, name, number):
        return answer(lambda: lived(root / f"{name}-{number}", each, {name: ANY[number]()}, do))

    chosen = [(name, number) for name in OPTIONS for number in range(0, len(ANY), 1 if SOAK else 7)]
    with python_engine():
        expected = [life(tmp_path / "python", *option) for option in chosen]
    found = [life(tmp_path / "native", *option) for option in chosen]

    assert [pair for pair in zip(chosen, found, expected, strict=True) if pair[1] != pair[2]] == []


def answer(work):
    try:
        return work()
    except Exception as error:
        return type(error), PLACE.sub("", str(error))
