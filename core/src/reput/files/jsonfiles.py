"""Reads small files of JSON into notes: attrs classes whose fields have checked types.

A field is an ``int``, ``float``, ``bool`` or ``str``, perhaps ``| None``. Names that the class does
not have are ignored: a later release may write more.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from typing import Any, Final, NoReturn, TypeVar

import attrs

Note = TypeVar("Note")
_INT_END: Final = 1 << 63
_KINDS: Final[Mapping[str, tuple[type, ...]]] = {
    "int": (int,),
    "float": (int, float),
    "bool": (bool,),
    "str": (str,),
    "None": (type(None),),
}
_SHOWN: Final = 40  # characters of a wrong value


def object_of(text: bytes | str) -> dict[str, Any]:
    """Return the JSON object in ``text``.

    Raises:
        ValueError: the text is another JSON value, or not valid JSON, with the position.
    """
    try:
        found = json.loads(text, parse_constant=_refuse)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    if not isinstance(found, dict):
        raise ValueError(f"a JSON object is expected, found {_shown(found)}")
    return found


def structure_of(kind: type[Note], facts: Mapping[str, Any]) -> Note:
    """Return the note of the class ``kind`` that a JSON object describes.

    Raises:
        ValueError: a field is missing, or has a value of another type, or an integer that 64 bits
            do not hold; with the field, found and expected.
    """
    values = {}
    for field, kinds in _fields_of(kind):  # type: ignore[arg-type]
        name = field.name
        if name in facts:
            value = values[name] = facts[name]
            if type(value) not in kinds:
                raise ValueError(f"{name}: {field.type} is expected, found {_shown(value)}")
            if type(value) is int and not -_INT_END <= value < _INT_END:
                raise ValueError(f"{name}: found an integer of {value.bit_length()} bits")
        elif field.default is attrs.NOTHING:
            raise ValueError(f"{name} is missing")
    return kind(**values)


@functools.cache
def _fields_of(kind: type) -> list[tuple[attrs.Attribute[Any], tuple[type, ...]]]:
    """Return the fields of a note's class, each with the types of its values."""
    found = []
    for field in attrs.fields(kind):
        kinds: tuple[type, ...] = ()
        for name in str(field.type).split(" | "):
            kinds += _KINDS[name]
        found.append((field, kinds))
    return found


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not a number of JSON")


def _shown(value: object) -> str:
    text = json.dumps(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
