"""Many messages encode to the bytes of single ones, and are refused for the same reasons."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import reput
from reput.errors import MessageIllegalError
from reput.record.encoding.batchencoder import prepare_columns, prepare_messages
from reput.record.encoding.encoder import Encoder

STORED = 1_700_000_000_000
ENCODER = Encoder()

topics = st.sampled_from(["A", "orders", "%RETRY%" + "g" * 130])
words = st.sampled_from(["k", "k1 k2", "键", "", "a\x01b", "a\x02b", "x" * 40])
values = st.one_of(words, st.none())
rows = st.tuples(
    topics,
    st.binary(max_size=20),
    st.one_of(st.none(), words),
    st.one_of(st.none(), words),
    st.one_of(
        st.none(),
        st.fixed_dictionaries({"UNIQ_KEY": values, "WAIT": st.just("true")}),
        st.dictionaries(st.sampled_from(["p", "q", "TAGS", "INNER_X"]), values),
    ),
)
same_shape = st.tuples(
    st.sampled_from(["A", "B"]),
    st.binary(max_size=20),
    st.sampled_from(["k", "key-7"]),
    st.sampled_from(["TagA", "T"]),
    st.fixed_dictionaries({"UNIQ_KEY": st.text("0123", min_size=1), "WAIT": st.just("true")}),
)


def _one_by_one(messages):
    data, offset = [], 0
    for message in messages:
        record = ENCODER.encode(message, 0, offset, STORED)
        data.append(record)
        offset += len(record)
    return b"".join(data)


def _together(prepared):
    ends = prepared.size.cumsum()
    none = np.zeros(len(prepared), np.int64)
    return prepared.encode(slice(0, len(prepared)), none, ends - prepared.size, STORED)


def _outcome(make):
    try:
        return make()
    except reput.ReputError as error:
        return type(error)


@settings(max_examples=300)
@given(
    st.one_of(st.lists(rows, min_size=1, max_size=6), st.lists(same_shape, min_size=1, max_size=6))
)
def test_any_messages_encode_together_as_they_do_one_by_one(given_rows):
    messages = [
        reput.Message(topic, body, number % 3, tags, keys, properties, flag=number)
        for number, (topic, body, keys, tags, properties) in enumerate(given_rows)
    ]
    expected = _outcome(lambda: _one_by_one(messages))

    def together():
        prepared = prepare_messages(messages, ENCODER)
        return _one_by_one(messages) if prepared is None else _together(prepared)

    assert _outcome(together) == expected


@settings(max_examples=200)
@given(
    st.one_of(st.lists(rows, min_size=1, max_size=6), st.lists(same_shape, min_size=1, max_size=6))
)
def test_any_columns_encode_as_their_rows_do(given_rows):
    names = ("topic", "body", "keys", "tags", "properties")
    columns = reput.Columns(
        **dict(zip(names, map(list, zip(*given_rows, strict=True)), strict=True))
    )
    expected = _outcome(lambda: _one_by_one(columns.to_messages()))

    def together():
        prepared = prepare_columns(columns, ENCODER)
        return _one_by_one(columns.to_messages()) if prepared is None else _together(prepared)

    assert _outcome(together) == expected


def test_properties_can_be_columns_by_name():
    by_name = {"UNIQ_KEY": ["u0", "u1", "u2"], "WAIT": "true"}
    columns = reput.Columns(
        topic="T", body=[b"0", b"1", b"2"], keys=["a", "b", "c"], properties=by_name
    )
    messages = [
        reput.Message(
            "T", b"%d" % n, keys="abc"[n], properties={"UNIQ_KEY": f"u{n}", "WAIT": "true"}
        )
        for n in range(3)
    ]

    assert _together(prepare_columns(columns, ENCODER)) == _one_by_one(messages)
    assert _one_by_one(columns.to_messages()) == _one_by_one(messages)


@settings(max_examples=100)
@given(
    st.lists(st.tuples(st.one_of(st.none(), words), st.one_of(st.none(), words)), max_size=3),
    st.dictionaries(st.sampled_from(["p", "KEYS", "TAGS", "é"]), words, max_size=2),
    st.lists(words, min_size=3, max_size=3),
)
def test_properties_by_name_encode_as_those_of_rows_do(rows, single, several):
    columns = reput.Columns(
        topic="T",
        body=[b"0"] * len(rows),
        keys=[keys for keys, _ in rows],
        tags=[tags for _, tags in rows],
        properties={**single, "q": several[: len(rows)]},
    )
    expected = _outcome(lambda: _one_by_one(columns.to_messages()))

    assert _outcome(lambda: _together(prepare_columns(columns, ENCODER))) == expected


def _pair(texts):
    data = [text.encode() if isinstance(text, str) else text for text in texts]
    return np.concatenate([[0], np.cumsum([len(text) for text in data])]), b"".join(data)


def test_every_column_of_text_can_be_offsets_and_data():
    plain = reput.Columns(
        topic=["A", "B", "A"],
        body=[b"0", b"", b"22"],
        keys=["k0", "k1", "k2"],
        tags=["t", "标签", "u"],
    )
    pairs = reput.Columns(
        topic=_pair(plain.topic),
        body=_pair(plain.body),
        keys=_pair(plain.keys),
        tags=_pair(plain.tags),
    )
    encoded = reput.Columns(
        topic=_pair(plain.topic),
        body=_pair(plain.body),
        properties=_pair(
            [f"KEYS\x01{k}\x02TAGS\x01{t}\x02" for k, t in zip(plain.keys, plain.tags, strict=True)]
        ),
    )

    expected = _one_by_one(plain.to_messages())
    assert _together(prepare_columns(pairs, ENCODER)) == expected
    assert _together(prepare_columns(encoded, ENCODER)) == expected
    assert _one_by_one(pairs.to_messages()) == expected


def test_a_pair_that_is_no_text_is_refused_by_name():
    columns = reput.Columns(topic="T", body=[b"0"], keys=(np.array([0, 1]), b"\xff"))

    with pytest.raises(MessageIllegalError, match="keys: not UTF-8"):
        prepare_columns(columns, ENCODER)
