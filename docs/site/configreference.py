"""The options of a store as a page: ``python docs/site/configreference.py`` prints it.

The site has it where a page says ``<!-- options -->``. Names, defaults and values are those of the
classes, and the texts are the docstrings below their fields, so a new option is described once. The
page has the sections of the core, and those of the plugins that are installed.
"""

from __future__ import annotations

import inspect
import json
import sys
from collections.abc import Iterator
from typing import Any, NamedTuple

import attrs
from markdowntext import code, inline, table

import reput
from reput.plugin import installed
from reput_tools.cli.plugins.plugindocs import options_of

MARK = "<!-- options -->"
_TITLES = ("option", "default", "values", "meaning", "when to change it")


class Section(NamedTuple):
    """A section of a store's configuration."""

    name: str
    config_type: type
    distribution: str


def sections() -> Iterator[Section]:
    """Yield the sections of the core, then those of the installed plugins by name."""
    yield Section("commitlog", reput.CommitLogConfig, "reput")
    yield Section("dispatch", reput.DispatchConfig, "reput")
    for found in installed():
        config_type = found.load().config_type
        if attrs.has(config_type):
            yield Section(found.name, config_type, found.distribution)


def reference() -> str:
    """Return the page below its title: a heading, a class and a table for each section."""
    return "\n".join(map(_text_of, sections()))


def _text_of(section: Section) -> str:
    package = section.config_type.__module__.partition(".")[0]
    home = code(f"{package}.{section.config_type.__name__}")
    about = [f"Class {home}, of the distribution {code(section.distribution)}."]
    paragraphs = inspect.cleandoc(section.config_type.__doc__ or "").split("\n\n")[1:]
    about += [inline(" ".join(each.split())) for each in paragraphs]
    options = options_of(section.config_type)
    rows = [
        (
            code(each.name),
            _default(each.default),
            inline(each.values),
            inline(each.description),
            inline(each.when),
        )
        for each in options
    ]
    text = "\n\n".join([f"## `[{section.name}]`", *about]) + "\n"
    return f"{text}\n{table(_TITLES, rows)}" if rows else text


def _default(value: Any) -> str:
    """Return a default as TOML has it."""
    if value is None:
        return "none"
    if isinstance(value, int) and not isinstance(value, bool):
        return code(f"{value:_}")
    return code(json.dumps(list(value) if isinstance(value, tuple) else value, ensure_ascii=False))


if __name__ == "__main__":
    sys.stdout.write(reference())
