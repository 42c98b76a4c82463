"""A small file of JSON is read into values of the right types, or says what is wrong with it."""

from __future__ import annotations

import attrs
import pytest

from reput.files.jsonfiles import object_of, structure_of


@attrs.frozen
class Example:
    place: int
    text: str | None = None
    share: float = 0.5
    is_done: bool = False


def read(text):
    return structure_of(Example, object_of(text))


def test_a_note_is_read_and_names_of_a_later_release_are_ignored():
    found = read(b'{"place": -9223372036854775808, "text": null, "share": 1, "later": [1]}')

    assert found == Example(-(1 << 63), None, 1)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b"", "Expecting value"),
        (b"\xff", "utf-8"),
        (b"[1]", r"object is expected, found \[1\]"),
        (b"[" * 100_000, "nested too deeply"),
        (b"{}", "place is missing"),
        (b'{"place": "1"}', 'place: int is expected, found "1"'),
        (b'{"place": true}', "place: int is expected, found true"),
        (b'{"place": 1.5}', "place: int"),
        (b'{"place": 9223372036854775808}', "integer of 64 bits"),
        (b'{"place": 1, "text": 2}', r"text: str \| None is expected"),
        (b'{"place": 1, "is_done": 1}', "is_done: bool"),
        (b'{"place": 1, "share": NaN}', "NaN is not"),
    ],
)
def test_what_is_no_such_note_is_named(text, said):
    with pytest.raises(ValueError, match=said):
        read(text)
