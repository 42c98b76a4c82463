"""Ways to write a whole body that are not JSON, and that a reader of JSON may take all the same."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final

WAYS: Final[Mapping[str, Callable[[str], bytes | str]]] = {
    "as JSON": lambda text: text,
    "spaces and lines": lambda text: text.replace(",", " ,\r\n\t"),
    "bare names": lambda text: re.sub(r'"(\w+)":', r"\1:", text),
    "single quotes": lambda text: text.replace('"', "'"),
    "a comma behind the last member": lambda text: text[:-1] + ",}",
    "a comma behind the last entry": lambda text: text.replace("}]", "},]"),
    "two commas between members": lambda text: text.replace(", ", ",, "),
    "a comma in front of the first member": lambda text: "{," + text[1:],
    "a comment in front": lambda text: "/* a */" + text,
    "a comment in the middle": lambda text: text.replace(":", ": /* a */", 1),
    "a comment to the end of the line": lambda text: "// a\n" + text,
    "a byte order mark": lambda text: "\ufeff" + text,
    "text behind it": lambda text: text + " x",
    "an object behind it": lambda text: text + "{}",
    "a bracket behind it": lambda text: text + "}",
    "without its end": lambda text: text[:-1],
    "nothing": lambda text: "",
    "blanks": lambda text: "  ",
    "null": lambda text: "null",
    "a list": lambda text: f"[{text}]",
    "a text": lambda text: '"x"',
    "a number": lambda text: "1",
    "an empty object": lambda text: "{}",
    "a tab in a text": lambda text: text.replace('"*"', '"*\t"'),
    "an escape of two digits": lambda text: text.replace('"*"', r'"\x2a"'),
    "an escaped quote": lambda text: text.replace('"*"', r'"\'"'),
    "a number with L": lambda text: text.replace(": 5", ": 5L"),
    "a number with a plus": lambda text: text.replace(": 5", ": +5"),
    "a number with zeros in front": lambda text: text.replace(": 5", ": 005"),
    "NaN": lambda text: text.replace(": 5", ": NaN"),
    "a member twice": lambda text: text.replace('"unitMode"', '"unitMode": true, "unitMode"'),
    "a byte that is not UTF-8": lambda text: text.encode().replace(b'"client"', b'"client\xff"'),
    "names in lower case": lambda text: re.sub(r'"(\w+)":', lambda m: m[0].lower(), text),
    "names in upper case": lambda text: re.sub(r'"(\w+)":', lambda m: m[0].upper(), text),
    "names with underscores": lambda text: re.sub(
        r'"(\w+)":', lambda m: re.sub(r"([a-z])([A-Z])", r"\1_\2", m[0]).lower(), text
    ),
    "names with hyphens": lambda text: re.sub(
        r'"(\w+)":', lambda m: re.sub(r"([a-z])([A-Z])", r"\1-\2", m[0]).lower(), text
    ),
}
"""By what is odd."""
