"""Frames made from a pattern are those that are made of commands."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from reput_client.remoting import AnswerFrames, Command, encode_frame

RESPONSE = 1
texts = st.text(st.characters(codec=None), max_size=20)
numbers = st.integers(-(2**63), 2**63 - 1)
names = st.lists(st.text(min_size=1, max_size=8), min_size=1, max_size=4, unique=True)


@given(names, st.data())
def test_a_frame_is_that_of_the_command(found, data):
    values = data.draw(st.lists(texts | numbers, min_size=len(found), max_size=len(found)))
    others = data.draw(st.dictionaries(st.text(max_size=5).map("other-{}".format), texts))
    others = {name: text for name, text in others.items() if "\0" not in text}
    code, opaque = data.draw(st.tuples(st.integers(0, 300), st.integers(-(2**31), 2**31 - 1)))
    fields = {**dict(zip(found, map(str, values), strict=True)), **others}
    remark = data.draw(st.none() | st.text(max_size=5).map("said {}".format))
    body = data.draw(st.lists(st.binary(max_size=9), max_size=3))

    frame = AnswerFrames.of(code, found, others, remark).frame(opaque, *values, body=body)

    command = Command(code, fields, b"".join(body), opaque, RESPONSE, remark)
    assert frame == encode_frame(command)
