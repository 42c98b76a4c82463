"""Text from a store made safe for a terminal.

Topics, properties and bodies hold whatever a producer sent. A terminal obeys control characters:
they can hide text, rename its window, on some terminals even type. So people are shown each control
character, and each character that turns the direction of text, as a visible escape.
"""

from __future__ import annotations

import base64
import re

BODY_FORMS = ("text", "hex", "base64", "none")
"""Forms in which a body can be shown."""


_NAMED = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}
# Joiners only hold emoji and Indic letters together.
_HARMLESS = frozenset("\u200c\u200d")
_SUSPECT = re.compile(r"[^ -~]")


def escape_text(text: str) -> str:
    r"""Return one line, with escapes for what does not print: ``\n``, ``\x1b``, ``\u202e``."""
    if text.isprintable():
        return text
    return _SUSPECT.sub(_escaped, text)


def readable(data: bytes) -> str:
    r"""Return `escape_text` of UTF-8 bytes; invalid bytes become ``\xff``."""
    return escape_text(data.decode("utf-8", "backslashreplace"))


def json_safe(document: str) -> str:
    r"""Return the JSON document with ``\uXXXX`` for what does not print; line ends stay."""
    if document.isprintable():
        return document
    return _SUSPECT.sub(_json_escaped, document)


def hex_dump(data: bytes, limit: int | None = None) -> list[str]:
    """Return lines of 16 bytes: position, hex, ASCII.

    Args:
        data: what to show.
        limit: show at most this many bytes.
    """
    shown = data if limit is None else data[:limit]
    lines = []
    for position in range(0, len(shown), 16):
        row = shown[position : position + 16]
        digits = f"{row[:8].hex(' '):23}  {row[8:].hex(' '):23}"
        text = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in row)
        lines.append(f"{position:08x}  {digits}  {text}")
    return lines


def encoded_body(body: bytes, form: str) -> tuple[str, str]:
    """Return a body as text and the name of its encoding: ``utf-8``, ``base64`` or ``hex``."""
    if form == "hex":
        return body.hex(), "hex"
    if form == "text":
        try:
            return body.decode(), "utf-8"
        except UnicodeDecodeError:
            pass
    return base64.b64encode(body).decode(), "base64"


def body_text(body: bytes, form: str) -> str:
    """Return a body for people: one line, with nothing in it that a terminal would obey."""
    if form == "text":
        return readable(body)
    return "" if form == "none" else encoded_body(body, form)[0]


def _escaped(found: re.Match[str]) -> str:
    character = found[0]
    if character.isprintable() or character in _HARMLESS:
        return character
    if character in _NAMED:
        return _NAMED[character]
    code = ord(character)
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _json_escaped(found: re.Match[str]) -> str:
    character = found[0]
    # Strings in JSON contain no line ends: these are the document's.
    if character.isprintable() or character in _HARMLESS or character == "\n":
        return character
    units = character.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at : at + 2].hex()}" for at in range(0, len(units), 2))
