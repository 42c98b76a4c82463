"""`BodyObject`: reads typed members of an object in a body, and names the one that is wrong."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import attrs

from reput_client.remoting.bodies.loosejson import parse_body
from reput_client.remoting.errors import BodyError
from reput_tools.brokerfiles import (
    flag_of,
    integer_of,
    member_of,
    name_of,
    text_of,
)

_REQUIRED: Final[Any] = object()


@attrs.frozen
class BodyObject:
    """An object of a body.

    Each method takes a member as RocketMQ does, in any type that can be converted, and raises
    `BodyError` for one that cannot be.
    """

    what: str
    """What the body is to be, for messages."""
    found: dict[Any, Any]

    @classmethod
    def of(cls, body: bytes, what: str) -> BodyObject:
        """Return the object that a body is.

        Raises:
            BodyError: it is none.
        """
        found = parse_body(body, what)
        if not isinstance(found, dict):
            raise BodyError(what, 0, f"an object expected, {type(found).__name__} found")
        return cls(what, found)

    def text(self, name: str, default: Any = _REQUIRED) -> Any:
        """Return a text; ``default`` if it is missing or null."""
        return self._read(name, default, "a text", text_of)

    def integer(self, name: str, default: Any = _REQUIRED, *, bits: int = 64) -> Any:
        """Return an integer, which may stand in quotes; C++ writes some so."""
        return self._read(
            name, default, f"an integer of {bits} bits", lambda value: integer_of(value, bits)
        )

    def flag(self, name: str, *, default: bool = False) -> bool:
        """Return a boolean; ``default`` if it is missing or null."""
        found: bool = self._read(name, default, "true or false", flag_of)
        return found

    def name(self, name: str, names: Sequence[str], default: str) -> str:
        """Return the name of an enum's constant, which C++ writes as its place.

        ``default`` if it is missing, null or another name.
        """
        expected = f"one of {', '.join(names)}"
        found: str = self._read(name, default, expected, lambda value: name_of(value, names))
        return found

    def texts(self, name: str) -> list[str]:
        """Return a list of texts without null; an empty one if it is missing or null."""
        return [found for value in self._list(name) if (found := text_of(value)) is not None]

    def integers(self, name: str, *, bits: int = 64) -> list[int]:
        """Return a list of integers, which may stand in quotes; Go writes them so.

        An empty list if it is missing or null; null in it is ignored.
        """
        values = self._list(name)
        try:
            found = [integer_of(value, bits) for value in values]
        except ValueError:
            raise self._wrong(name, values, f"a list of integers of {bits} bits") from None
        return [each for each in found if each is not None]

    def objects(self, name: str) -> list[BodyObject]:
        """Return a list of objects; an empty one if it is missing or null."""
        return [self._object(name, value) for value in self._list(name)]

    def member(self, name: str) -> BodyObject:
        """Return an object; one without members if it is missing or null."""
        return self._object(name, self._value(name, {}, "an object"))

    def table(self, name: str) -> dict[Any, BodyObject]:
        """Return objects by their keys; an empty table if it is missing or null."""
        return {key: self._object(name, value) for key, value in self.member(name).found.items()}

    def _list(self, name: str) -> list[Any]:
        value = self._value(name, [], "a list")
        if isinstance(value, list):
            return value
        raise self._wrong(name, value, "a list")

    def _object(self, name: str, value: object) -> BodyObject:
        if isinstance(value, dict):
            return BodyObject(self.what, value)
        raise self._wrong(name, value, "an object")

    def _read(
        self, name: str, default: Any, expected: str, read: Callable[[object], object]
    ) -> Any:
        value = self._value(name, default, expected)
        if value is default:
            return value
        try:
            found = read(value)
        except ValueError:
            raise self._wrong(name, value, expected) from None
        return self._given(name, default, expected) if found is None else found

    def _value(self, name: str, default: Any, expected: str) -> Any:
        value = member_of(self.found, name)
        return self._given(name, default, expected) if value is None else value

    def _given(self, name: str, default: Any, expected: str) -> Any:
        if default is _REQUIRED:
            raise BodyError(self.what, 0, f"the member {name!r} is missing; {expected} expected")
        return default

    def _wrong(self, name: str, value: object, expected: str) -> BodyError:
        return BodyError(self.what, 0, f"{name} is {str(value)[:40]!r}; {expected} expected")
