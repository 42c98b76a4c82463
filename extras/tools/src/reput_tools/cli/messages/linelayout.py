"""Lays out the line of a message: cut to a width, or with its body as indented JSON below it."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

import click

from reput_tools.cli.kit.escape import body_text, escape_text, json_safe
from reput_tools.cli.kit.output import styled
from reput_tools.cli.kit.timestamps import format_timestamp
from reput_tools.cli.messages.jsonindent import indented, json_text

if TYPE_CHECKING:
    from reput_tools.cli.messages.bodies import BodyOf
    from reput_tools.cli.messages.queuereader import Placed

_INDENT: Final = "  "
_TERMINAL: Final = 0
_WIDTH_MIN: Final = 20

_Command = TypeVar("_Command", bound=Callable[..., Any])


class Layout(NamedTuple):
    """What ``--pretty`` and ``--width`` ask for."""

    is_pretty: bool
    width: int | None
    """Columns to which lines are cut; None for whole lines."""


def layout_options(command: _Command) -> _Command:
    """Add ``--pretty`` and ``--width``."""
    command = click.option(
        "--width",
        metavar="N",
        type=click.IntRange(min=0),
        help="Cut lines to N columns; 0 for the width of the terminal.",
    )(command)
    return click.option(
        "--pretty",
        is_flag=True,
        help="Print each body below its message, JSON with indents.",
    )(command)


def layout_of(*, pretty: bool, width: int | None) -> Layout | None:
    """Return the layout that options ask for; None without such options."""
    if width == _TERMINAL:
        width = shutil.get_terminal_size().columns
    if width is not None and width < _WIDTH_MIN:
        raise click.BadParameter(f"{_WIDTH_MIN} or more expected", param_hint="--width")
    return Layout(pretty, width) if pretty or width is not None else None


def head_of(placed: Placed) -> list[str]:
    """Return time, place, tags and keys of a message, as far as it has them."""
    return [styled(text, **style) for text, style in _head(placed)]


def _head(placed: Placed) -> list[tuple[str, dict[str, Any]]]:
    """Return the same without styles, and the style of each."""
    message = placed.message
    place = f"{message.topic}/{message.queue_id}@{placed.queue_offset}"
    texts: list[tuple[str, dict[str, Any]]] = [
        (format_timestamp(message.store_timestamp), {"dim": True}),
        (escape_text(place), {"fg": "cyan"}),
        (f"[{escape_text(message.tags)}]" if message.tags else "", {"fg": "green"}),
        (escape_text(" ".join(message.keys)), {}),
    ]
    return [(text, style) for text, style in texts if text]


def laid_out(layout: Layout, body_of: BodyOf) -> Callable[[Placed, str], Iterator[str]]:
    """Return the function that gives the lines of a message as ``layout`` says."""

    def shown(placed: Placed, body: str) -> Iterator[str]:
        from reput_tools.cli.kit.terminaltable import width_of

        head = [(styled(text, **style), width_of(text)) for text, style in _head(placed)]
        data = b"" if body == "none" else body_of(placed.message)
        if not layout.is_pretty:
            text = body_text(data, body) if body != "none" else ""
            yield _line([*head, (text, width_of(text))] if text else head, layout.width)
            return
        yield _line(head, layout.width)
        if body != "none":
            for each in _pretty(data, body):
                yield _line([(_INDENT + each, 0)], layout.width)

    return shown


def _line(parts: list[tuple[str, int]], width: int | None) -> str:
    """Return parts of a line, of which the last is cut if they are too wide."""
    from reput_tools.cli.kit.terminaltable import cut, width_of

    whole = "  ".join(text for text, _ in parts)
    if width is None:
        return whole
    before = sum(size + 2 for _, size in parts[:-1])
    text, size = parts[-1]
    size = size or width_of(text)
    if before + size <= width:
        return whole
    left = width - before
    if left < 1:  # the head alone is too wide: without styles, whose ends would be cut off
        return cut(click.unstyle(whole), width)
    return "  ".join([*(each for each, _ in parts[:-1]), cut(click.unstyle(text), left)])


def _pretty(data: bytes, body: str) -> Iterator[str]:
    """Yield the lines of a body: of JSON with indents, of another text as it is."""
    text = json_text(data) if body == "text" else None
    if text is not None:
        yield from map(json_safe, indented(text))
    elif shown := body_text(data, body):
        yield shown
