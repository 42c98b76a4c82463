"""A call with an argument of a wrong type names the argument, and what was found."""

from __future__ import annotations

import numpy as np
import pytest

import reput

CALLS = {
    "read topic": lambda store: store.read(5, 0, 0),
    "read queue_id": lambda store: store.read("t", "0", 0),
    "read queue_offset": lambda store: store.read("t", 0, "0"),
    "read max_count": lambda store: store.read("t", 0, 0, "1"),
    "read max_bytes": lambda store: store.read("t", 0, 0, 1, 1.5),
    "read filter": lambda store: store.read("t", 0, 0, filter=5),
    "filter expression": lambda store: store.filter(5),
    "filter kind": lambda store: store.filter("a", 5),
    "offset_by_time queue_id": lambda store: store.offset_by_time("t", "0", 0),
    "offset_by_time timestamp": lambda store: store.offset_by_time("t", 0, "now"),
    "query key": lambda store: store.query("t", 5),
    "query limit": lambda store: store.query("t", "k", limit="1"),
    "query begin": lambda store: store.query("t", "k", 1.5),
    "get where": lambda store: store.get(1.5),
    "get where None": lambda store: store.get(None),
    "scan start": lambda store: store.scan("0"),
    "scan end": lambda store: store.scan(0, 1.5),
    "suspend_plugin plugin": lambda store: store.suspend_plugin(5),
    "resume_plugin plugin": lambda store: store.resume_plugin(None),
    "remove_plugin plugin": lambda store: store.remove_plugin([]),
    "dead_letters plugin": lambda store: store.dead_letters(5),
}


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    path = tmp_path_factory.mktemp("arguments")
    with reput.open(path, plugins=[], config={"commitlog": {"file_size": 1 << 16}}) as opened:
        opened.put(reput.Message("t", b"one"))
        yield opened


@pytest.mark.parametrize("call", CALLS)
def test_an_argument_of_a_wrong_type_is_named(store, call):
    argument = call.split(" ")[1]

    with pytest.raises(TypeError, match=rf"^{argument}: .* expected, found "):
        CALLS[call](store)


def test_numbers_of_other_classes_are_numbers(store):
    assert store.get(np.int64(0)).body == b"one"
