"""Java's properties: lines of ``name=value``.

Source: ``java.util.Properties.load``; RocketMQ ``MixAll.properties2String``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

_SIZE_MAX: Final = 1 << 20
_ESCAPE: Final = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_PLAIN: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_NAME: Final = re.compile(r"(?:\\.|[^=:\s\\])*")
_SEPARATOR: Final = re.compile(r"[ \t\f]*[=:]?[ \t\f]*")
_WRITTEN: Final = {ord("\\"): r"\\", ord("\n"): r"\n", ord("\r"): r"\r"}


def properties_text(settings: Mapping[str, object]) -> str:
    """Return the text of settings, one a line, sorted by name."""
    lines = [f"{name}={str(settings[name]).translate(_WRITTEN)}" for name in sorted(settings)]
    return "".join(f"{line}\n" for line in lines)


def parse_properties_text(data: bytes) -> dict[str, str]:
    """Return settings by name; the last value of a name counts.

    Raises:
        ValueError: these are not properties.
    """
    if len(data) > _SIZE_MAX:
        raise ValueError(f"properties of {len(data)} bytes; at most {_SIZE_MAX}")
    found = {}
    for line in _whole_lines(data.decode("utf-8")):
        name = _NAME.match(line)
        assert name is not None  # it may be empty
        separator = _SEPARATOR.match(line, name.end())
        assert separator is not None
        found[_unescaped(name.group())] = _unescaped(line[separator.end() :])
    return found


def _whole_lines(text: str) -> list[str]:
    """Return lines without comments and empty ones; a backslash at a line's end goes on."""
    found: list[str] = []
    begun = ""
    for each in re.split(r"\r\n|\r|\n", text):
        line = begun + each.lstrip(" \t\f")
        if not begun and (not line or line[0] in "#!"):
            continue
        slashes = len(line) - len(line.rstrip("\\"))
        if slashes % 2:
            begun = line[:-1]
            continue
        begun = ""
        found.append(line)
    return [*found, begun] if begun else found


def _unescaped(text: str) -> str:
    def plain(match: re.Match[str]) -> str:
        word = match.group(1)
        return chr(int(word[1:], 16)) if len(word) > 1 else _PLAIN.get(word, word)

    return _ESCAPE.sub(plain, text)
