"""Typed headers: a class with annotated attributes is read from texts by name, and written to them.

On the wire a field has its attribute's name in camel case, unless the class attribute
``wire_names`` gives another. `Int` is a number of 32 bits, `Long` one of 64.

Source: RocketMQ ``CommandCustomHeader``, ``RemotingCommand.decodeCommandCustomHeader``.
"""

from __future__ import annotations

import re
import types
import typing
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Final, NamedTuple, TypeVar

import attrs

from reput_client.remoting.errors import HeaderError

Int = Annotated[int, 32]
Long = Annotated[int, 64]

HeaderT = TypeVar("HeaderT")
_NUMBER: Final = re.compile(r"[+-]?[0-9]{1,19}")
_DIGITS_OF_ALL: Final = 9
"""So many digits are a number of 32 bits."""


def read_header(header_type: type[HeaderT], fields: Mapping[str, str]) -> HeaderT:
    """Return the object of ``header_type`` that ``fields`` hold; other fields are ignored.

    Raises:
        HeaderError: a field is missing, or its text is not a value of its type.
    """
    values = {}
    for field in _fields_of(header_type):
        text = fields.get(field.wire)
        if text is None:
            if field.is_required:
                raise HeaderError(header_type.__name__, field.wire, None, field.kind.name)
            continue
        try:
            values[field.attribute] = field.kind.read(text)
        except ValueError:
            raise HeaderError(header_type.__name__, field.wire, text, field.kind.name) from None
    return header_type(**values)


def write_header(header: object) -> dict[str, str]:
    """Return the texts of a header's fields by their names on the wire; None is left out."""
    texts = {}
    for field in _fields_of(type(header)):
        value = getattr(header, field.attribute)
        if value is not None:
            texts[field.wire] = field.kind.write(value)
    return texts


class _Kind(NamedTuple):
    name: str
    read: Callable[[str], Any]
    write: Callable[[Any], str]


class _Field(NamedTuple):
    attribute: str
    wire: str
    kind: _Kind
    is_required: bool


_known: Final[dict[type, tuple[_Field, ...]]] = {}


def _fields_of(header_type: type) -> tuple[_Field, ...]:
    found = _known.get(header_type)
    if found is None:
        found = _known[header_type] = _compiled(header_type)
    return found


def _compiled(header_type: type) -> tuple[_Field, ...]:
    names: Mapping[str, str] = getattr(header_type, "wire_names", {})
    hints = typing.get_type_hints(header_type, include_extras=True)
    return tuple(
        _Field(
            each.name,
            names.get(each.name) or _camel(each.name),
            _kind_of(hints[each.name]),
            each.default is attrs.NOTHING,
        )
        for each in attrs.fields(header_type)
    )


def _camel(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(word.capitalize() for word in others)


def _kind_of(hint: Any) -> _Kind:
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        (hint,) = (each for each in typing.get_args(hint) if each is not type(None))
    if typing.get_origin(hint) is Annotated:
        return _NUMBERS[hint.__metadata__[0]]
    return _PLAIN[hint]


def _number_of(bits: int) -> Callable[[str], int]:
    limit = 1 << (bits - 1)

    def read(text: str) -> int:
        if len(text) <= _DIGITS_OF_ALL and text.isascii() and text.isdigit():
            return int(text)  # most numbers, in a third of the time
        # `int` would take blanks, underscores and the digits of every script.
        if not _NUMBER.fullmatch(text) or not -limit <= (value := int(text)) < limit:
            raise ValueError(text)
        return value

    return read


def _same(text: str) -> str:
    return text


_NUMBERS: Final = {
    32: _Kind("an integer of 32 bits", _number_of(32), str),
    64: _Kind("an integer of 64 bits", _number_of(64), str),
}
_PLAIN: Final = {
    str: _Kind("a text", _same, _same),
    # As Java reads them: whatever is not true is false.
    bool: _Kind("true or false", lambda text: text.lower() == "true", lambda it: str(it).lower()),
    float: _Kind("a number", float, repr),
}
