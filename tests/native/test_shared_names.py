"""What both engines must agree on by name: the format's numbers, and the members of classes."""

from __future__ import annotations

import numpy as np
import pytest

import reput_native
from reput.engine import REFERENCES
from reput.log.writer.appender import Appender
from reput.log.writer.flushleader import FlushLeader, FlushRequests
from reput.record import Encoder, MessageView, checksum, layout
from reput_server.grpc.transport.http2 import Http2Connection

LENT = {
    Appender: {"gap"},
    FlushLeader: set(),
    FlushRequests: set(),
    Http2Connection: set(),
    MessageView: {
        "__eq__",
        "__hash__",
        "__reduce__",
        "__repr__",
        "born_host",
        "compression",
        "keys",
        "msg_id",
        "record_matches",
        "store_host",
        "tags",
        "tags_code",
        "to_message",
        "transaction",
        "unique_key",
    },
}
CLASSES = pytest.mark.parametrize("native", LENT, ids=lambda each: each.__name__)


def test_the_numbers_and_texts_of_the_format_are_the_same():
    found = reput_native.layout()

    expected = {name: getattr(layout, name, getattr(checksum, name, None)) for name in found}
    texts = {name: text.encode() for name, text in expected.items() if name.endswith("_PREFIX")}
    assert found == expected | texts
    assert len(found) > 20


def test_every_class_that_is_compiled_is_compared_here():
    assert set(REFERENCES) == set(LENT)


@CLASSES
def test_the_engine_lends_these_members_and_no_others(native):
    """A member that is taken out of the compiled class would go on in Python, only slower."""
    reference = vars(REFERENCES[native])

    lent = {
        name
        for name, member in vars(native).items()
        if reference.get(name) is member and name != "__doc__"
    }

    assert lent == LENT[native]


@CLASSES
def test_a_compiled_class_has_the_public_members_of_its_reference(native):
    reference = REFERENCES[native]
    members = vars(reference) | dict.fromkeys(getattr(reference, "__slots__", ()))

    public = {name for name in members if not name.startswith("_")}

    assert public == {name for name in vars(native) if not name.startswith("_")}


APPENDER_CALLS = [
    lambda made: made.begin_file(None, 0),
    lambda made: made.begin_file(object(), -1),
    lambda made: made.publish(-1, b"word", b"", 0, {}),
    lambda made: made.publish(0, b"", b"", 0, {}),
    lambda made: made.publish(-(1 << 63), b"word", b"x" * 90, 0, {}),
    lambda made: made.publish(0, b"word", b"x" * 90, 0, {("T", 0): "no number"}),
    lambda made: made.publish(0, b"word", b"x" * 90, 0, {("T",): 1}),
    lambda made: made.publish(0, b"word", b"x" * 90, 0, {"T": 1}),
    lambda made: made.publish(0, b"word", np.zeros(90, np.uint8), 0, {}),
    lambda made: made.next_queue_offset(()),
    lambda made: made.next_queue_offset(("T", "0")),
    lambda made: made.start_queues({("T", 0): None}),
    lambda made: made.start_queues([]),
    lambda made: made.put_at_once(None, [], ()),
    lambda made: made.move_record_limit(1.5),
]


@pytest.mark.parametrize("call", APPENDER_CALLS, ids=range(len(APPENDER_CALLS)))
def test_wrong_arguments_of_an_appender_are_errors_or_taken_as_python_does(call):
    """A panic that nobody catches is no `Exception`, so no thread would survive it."""
    made, reference = (each(Encoder(), 0, -1, None) for each in (Appender, REFERENCES[Appender]))
    made.allow()
    reference.allow()

    try:
        call(made)
    except Exception:
        assert (made.end_offset, made.queue_offsets()) == (0, {})
    else:
        call(reference)
        assert made.end_offset == reference.end_offset
        assert made.queue_offsets() == reference.queue_offsets()
