"""Columns that no plugin has to see stay columns; none that one has to see passes it by."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from openstores import plugin

import reput
from reput.plugin.putinterest import PutInterest
from reput.record.text.properties import encode_properties, parse_properties

SMALL = {"commitlog": {"file_size": 65_536}}
NAMES = st.sampled_from(["DELAY", "ELAY", "DELAYED", "region", "KEYS"])
VALUES = st.sampled_from(["1", "DELAY", "x"])
ROWS = st.lists(st.dictionaries(NAMES, VALUES, max_size=2), min_size=1, max_size=4)
TOPICS = st.sampled_from(["orders", "prices", "prices2"])


def texts_of(rows):
    return [encode_properties(row).encode() for row in rows]


def pair_of(texts):
    """Texts as Arrow has them."""
    return np.cumsum([0, *map(len, texts)]), b"".join(texts)


@given(rows=ROWS, form=st.sampled_from(["mappings", "texts", "pair"]), data=st.data())
def test_whatever_is_of_interest_is_noticed_in_every_form_of_columns(rows, form, data):
    topics = data.draw(st.lists(TOPICS, min_size=len(rows), max_size=len(rows)))
    interest = PutInterest(frozenset({"DELAY"}), frozenset({"prices"}))
    properties = {"mappings": rows, "texts": texts_of(rows), "pair": pair_of(texts_of(rows))}[form]
    columns = reput.Columns(topic=topics, body=[b"x"] * len(rows), properties=properties)

    covered = interest.covers(columns)

    assert covered == ("prices" in topics or any("DELAY" in row for row in rows)) or (
        covered and form == "pair"  # neighbours may look like a name: that costs time only
    )


@pytest.mark.parametrize(
    ("properties", "covered"),
    [
        (None, False),
        ({"region": "eu"}, False),
        ({"region": "eu", "DELAY": ["1", "2"]}, True),
        (b"region\x01DELAY\x02", False),
        (b"DELAY\x013\x02", True),
        ([None, None], False),
    ],
)
def test_single_values_and_named_columns_count_for_every_row(properties, covered):
    columns = reput.Columns(topic="T", body=[b"a", b"b"], properties=properties)

    assert PutInterest(frozenset({"DELAY"})).covers(columns) == covered
    assert not PutInterest(topics=frozenset({"U"})).covers(columns)
    assert PutInterest(topics=frozenset({"T"})).covers(columns)


def test_keys_and_tags_are_properties_too():
    columns = reput.Columns(topic="T", body=[b"a"], keys="k")

    assert PutInterest(frozenset({"KEYS"})).covers(columns)


def test_topics_of_a_pair_are_found():
    columns = reput.Columns(topic=pair_of([b"orders", b"prices"]), body=[b"a", b"b"])

    assert PutInterest(topics=frozenset({"prices"})).covers(columns)
    assert not PutInterest(topics=frozenset({"audit"})).covers(columns)


# --------------------------------------------------------------------------- in a store


def _properties_of(message):
    given = message.properties or {}
    return parse_properties(given) if isinstance(given, bytes) else dict(given)


def watching(name, interest):
    seen = []

    def look(self, messages):
        seen.append([_properties_of(each) for each in messages])

    return seen, plugin(name, reput_put=look, put_interest=interest)


def test_a_plugin_is_shown_what_it_wants_and_nothing_else(tmp_path):
    seen, watcher = watching("watcher", PutInterest(frozenset({"DELAY"}), frozenset({"late"})))
    other = reput.Message("T", b"c", tags="t", keys="DELAY", properties={"x": "1"})
    with reput.open(tmp_path, plugins=[watcher], config=SMALL) as store:
        store.put_many(reput.Columns(topic="T", body=[b"a"], properties=[b"x\x011\x02"]))
        store.put_many([other, reput.Message("T", b"d")])
        store.put(other)
        nothing = list(seen)
        store.put_many(reput.Columns(topic="T", body=[b"b"], properties=[b"DELAY\x011\x02"]))
        store.put_many([other, reput.Message("T", b"e", properties={"DELAY": "2"})])
        store.put(reput.Message("T", b"f", properties=b"DELAY\x013\x02"))
        store.put(reput.Message("late", b"g"))

    assert nothing == []
    assert [rows[-1].get("DELAY") for rows in seen] == ["1", "2", "3", None]


class _Secret(str):
    """A text that says of itself that it equals nothing."""

    __slots__ = ()

    def __eq__(self, other):
        return False

    def __hash__(self):
        return 0


@pytest.mark.parametrize(
    "message",
    [
        reput.Message("T", b"a", properties={_Secret("DELAY"): "1"}),
        reput.Message(_Secret("late"), b"a"),
    ],
)
def test_values_of_a_class_of_their_own_hide_nothing(tmp_path, message):
    seen, watcher = watching("watcher", PutInterest(frozenset({"DELAY"}), frozenset({"late"})))
    with reput.open(tmp_path, plugins=[watcher], config=SMALL) as store:
        store.put(message)

    assert len(seen) == 1


@pytest.mark.parametrize("interest", [None, "nonsense", property(lambda self: 1 / 0)])
def test_who_does_not_say_is_shown_everything(tmp_path, interest):
    seen, watcher = watching("watcher", interest)
    with reput.open(tmp_path, plugins=[watcher], config=SMALL) as store:
        store.put_many(reput.Columns(topic="T", body=[b"a"]))

    assert seen == [[{}]]


def test_one_that_wants_to_see_is_enough_for_all(tmp_path):
    first, one = watching("one", PutInterest(frozenset({"DELAY"})))
    second, two = watching("two", None)
    with reput.open(tmp_path, plugins=[one, two], config=SMALL) as store:
        store.put_many(reput.Columns(topic="T", body=[b"a"]))

    assert len(first) == len(second) == 1
