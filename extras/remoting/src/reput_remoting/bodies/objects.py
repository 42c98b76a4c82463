"""`BodyObject`: reads typed members of an object in a body, and names the one that is wrong."""

from __future__ import annotations

from typing import Any, Final

import attrs

from reput_remoting.bodies.loosejson import parse_body
from reput_remoting.errors import BodyError

__all__ = ["BodyObject"]

_REQUIRED: Final[Any] = object()
_LONG_MAX: Final = (1 << 63) - 1


@attrs.frozen
class BodyObject:
    """An object of a body. Each method raises `BodyError` for a member of another type."""

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
        value = self._value(name, default, "a text")
        if value is default or isinstance(value, str):
            return value
        raise self._wrong(name, value, "a text")

    def integer(self, name: str, default: Any = _REQUIRED) -> Any:
        """Return an integer of 64 bits, which may stand in quotes; C++ writes some so."""
        value = self._value(name, default, "an integer")
        if value is default:
            return value
        found = _integer(value)
        if found is None:
            raise self._wrong(name, value, "an integer of 64 bits")
        return found

    def flag(self, name: str, *, default: bool = False) -> bool:
        """Return a boolean."""
        value = self._value(name, default, "true or false")
        if isinstance(value, bool):
            return value
        raise self._wrong(name, value, "true or false")

    def texts(self, name: str) -> list[str]:
        """Return a list of texts; an empty one if it is missing or null."""
        values = self._list(name)
        if all(isinstance(value, str) for value in values):
            return values
        raise self._wrong(name, values, "a list of texts")

    def integers(self, name: str) -> list[int]:
        """Return a list of integers of 64 bits, which may stand in quotes; Go writes them so.

        An empty list if it is missing or null.
        """
        values = self._list(name)
        found = [number for value in values if (number := _integer(value)) is not None]
        if len(found) == len(values):
            return found
        raise self._wrong(name, values, "a list of integers")

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

    def _value(self, name: str, default: Any, expected: str) -> Any:
        value = self.found.get(name)
        if value is not None:
            return value
        if default is _REQUIRED:
            raise BodyError(self.what, 0, f"the member {name!r} is missing; {expected} expected")
        return default

    def _wrong(self, name: str, value: object, expected: str) -> BodyError:
        return BodyError(self.what, 0, f"{name} is {str(value)[:40]!r}; {expected} expected")


def _integer(value: object) -> int | None:
    if isinstance(value, str) and value.removeprefix("-").isdecimal() and value.isascii():
        value = int(value[:21])
    if type(value) is int and -_LONG_MAX - 1 <= value <= _LONG_MAX:
        return value
    return None
