"""Indents JSON without reading it into values: strings and numbers stay as they are written."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, Final, NoReturn

_STEP: Final = "  "
_DEPTH_MAX: Final = 32
"""Deeper values are indented as far as these, as the indents would outgrow the text."""
_TOKEN: Final = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*+"|[\[\]{},:]|[^\s\[\]{},:"]+')


def json_text(data: bytes) -> str | None:
    """Return the text of a JSON object or array; None for what is not one.

    Also None if it is nested too deep for the parser.
    """
    try:
        text = data.decode(json.detect_encoding(data))
        document: Any = json.loads(
            text, parse_int=_no_value, parse_float=_no_value, parse_constant=_refuse
        )
    except (ValueError, RecursionError):
        return None
    return text if isinstance(document, dict | list) else None


def _no_value(_: str) -> None:
    """Return no value, as converting a number of many digits takes long."""


def _refuse(name: str) -> NoReturn:
    raise ValueError(f"{name} is not valid JSON")


def indented(text: str) -> Iterator[str]:
    """Yield the lines of a valid JSON text with indents, one line for each value.

    Members of the same name, digits of numbers and escapes in strings stay.
    """
    depth, line, before = 0, "", ""
    for found in _TOKEN.finditer(text):
        token = found[0]
        is_end = token in {"]", "}"}
        depth -= is_end
        if before == "," or is_end != (before in {"[", "{"}):  # but not in [] and {}
            yield line
            line = _STEP * min(depth, _DEPTH_MAX)
        line += f"{token} " if token == ":" else token
        depth += token in {"[", "{"}
        before = token
    yield line
