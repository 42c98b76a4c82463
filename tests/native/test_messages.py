"""A message made by the compiled class says what one made by Python's says, of any bytes."""

from __future__ import annotations

import copy
import pickle

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from reput.engine import REFERENCES
from reput.errors import CorruptFileError
from reput.record import Encoder, MessageView, message_at
from reput_testing.logs import fuzzing, strategies

ENCODERS = (Encoder(), Encoder(record_crc=True), Encoder(store_host=bytes(range(20))))
PYTHON = REFERENCES[MessageView]
PUBLIC = sorted(name for name in vars(PYTHON) if not name.startswith("_"))
MANY = settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))


def everything(view):
    """What each public member gives or raises, and what the class does beside them."""
    found = {name: outcome(lambda name=name: called(getattr(view, name))) for name in PUBLIC}
    return found | {"repr": outcome(lambda: repr(view)), "hash": hash(view)}


def called(member):
    return member() if callable(member) else member


def outcome(ask):
    try:
        answer = ask()
    except Exception as error:
        return type(error), str(error)
    return type(answer), answer


@MANY
@given(strategies.messages(), st.sampled_from(ENCODERS), st.integers(0, 1 << 50), st.data())
def test_members_are_alike_and_so_are_errors(message, encoder, offset, data):
    try:
        record = encoder.encode(message, 3, offset, 1_700_000_000_000)
    except ValueError:  # a text that looks like a checksum
        return
    for mutation in data.draw(st.lists(fuzzing.mutations(len(record), [record]), max_size=3)):
        record = mutation.apply(record)
    asked = data.draw(st.sampled_from([(record,), (record, offset), (record, 7)]))

    expected = outcome(lambda: everything(PYTHON(*asked)))

    assert outcome(lambda: everything(MessageView(*asked))) == expected


@given(st.binary(max_size=200))
def test_bytes_that_are_no_record(data):
    with pytest.raises(CorruptFileError) as expected:
        PYTHON(data, 5)

    with pytest.raises(CorruptFileError) as found:
        MessageView(data, 5)

    assert str(found.value) == str(expected.value)


def sample(offset=4096):
    message = strategies.Message("orders", b"body", tags="TagA", keys=["a", "b"])
    return MessageView(ENCODERS[0].encode(message, 9, offset, 1_700_000_000_000), offset)


def test_a_message_equals_one_of_the_same_bytes_at_the_same_place():
    one = sample()

    assert one == sample()
    assert hash(one) == hash(sample())
    assert one != MessageView(one.record, 0)
    assert one != one.record
    assert {one: 1}[sample()] == 1


def test_a_message_is_copied_and_sent_to_other_processes():
    one = sample()

    for other in (copy.copy(one), copy.deepcopy(one), pickle.loads(pickle.dumps(one))):
        assert other == one
        assert other.properties == {"TAGS": "TagA", "KEYS": "a b"}


def test_properties_are_parsed_once():
    one = sample()

    assert one.properties is one.properties


def test_the_record_may_be_given_in_another_kind_of_bytes():
    one = sample()

    assert MessageView(bytearray(one.record), 4096) == one
    assert message_at(one.record, 4096) == one
    assert message_at(one.record, 0) is None


def test_the_compiled_class_stands_in_the_place_of_the_other():
    assert isinstance(sample(), MessageView)
    assert MessageView is not PYTHON
    assert MessageView.__doc__ == PYTHON.__doc__
    assert [name for name in PUBLIC if not hasattr(MessageView, name)] == []
