"""What peers say of themselves: language, version of the protocol.

Source: RocketMQ ``LanguageCode``, ``MQVersion``.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final


class Language(IntEnum):
    """The language of a peer; JSON headers carry the name, binary ones the number."""

    JAVA = 0
    CPP = 1
    DOTNET = 2
    PYTHON = 3
    DELPHI = 4
    ERLANG = 5
    RUBY = 6
    OTHER = 7
    HTTP = 8
    GO = 9
    PHP = 10
    OMS = 11
    RUST = 12
    NODE_JS = 13


_FIRST: Final = {4: 213, 5: 413}  # the number of 4.0.0, of 5.0.0
_PER_MINOR: Final = 20
_PER_PATCH: Final = 2
_TABLE_END: Final = 612


def version_number(major: int, minor: int, patch: int) -> int:
    """Return the number of a release, 4.1.0 or newer.

    Raises:
        ValueError: there is no such release.
    """
    if major not in _FIRST or not (0 <= minor < 10 and 0 <= patch < 10):
        raise ValueError(f"{major}.{minor}.{patch} is not a release with a number")
    return _FIRST[major] + _PER_MINOR * minor + _PER_PATCH * patch


def version_name(number: int) -> str:
    """Return a release's name as RocketMQ prints it; ``HIGHER_VERSION`` beyond its table."""
    if number >= _TABLE_END:
        return "HIGHER_VERSION"
    major = 5 if number >= _FIRST[5] - 1 else 4
    # A release is preceded by its snapshot.
    release, is_snapshot = number + 1 - number % 2, number % 2 == 0
    minor, patches = divmod(release - _FIRST[major], _PER_MINOR)
    if minor < 0:
        return f"V3 ({number})"
    return f"V{major}_{minor}_{patches // _PER_PATCH}{'_SNAPSHOT' if is_snapshot else ''}"


VERSION: Final = version_number(5, 3, 3)
"""The release whose protocol is spoken here."""
