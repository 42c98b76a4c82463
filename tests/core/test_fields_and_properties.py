"""Keys and tags are properties, too: a message has one value of each."""

from __future__ import annotations

import pytest

from reput.errors import MessageIllegalError
from reput.record.messages.message import Message, encode_property_text


@pytest.mark.parametrize(("field", "name"), [("keys", "KEYS"), ("tags", "TAGS")])
def test_a_field_and_a_property_that_differ_are_refused(field, name):
    message = Message("t", b"", properties={name: "other"}, **{field: "one"})

    with pytest.raises(MessageIllegalError, match=f"{field}.*differs from the property '{name}'"):
        encode_property_text(message)


@pytest.mark.parametrize(("field", "name"), [("keys", "KEYS"), ("tags", "TAGS")])
def test_a_field_and_a_property_that_agree_are_stored_once(field, name):
    message = Message("t", b"", properties={name: "one", "a": "b"}, **{field: "one"})

    assert encode_property_text(message) == f"{name}\x01one\x02a\x01b\x02".encode()


def test_a_property_stands_where_the_field_is_not_given():
    message = Message("t", b"", properties={"KEYS": "one"}, tags="tag")

    assert encode_property_text(message) == b"TAGS\x01tag\x02KEYS\x01one\x02"
