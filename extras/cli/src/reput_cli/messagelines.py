"""One message as a line, in the form that a command's options ask for."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

import click

from reput_cli.escape import escape_text
from reput_cli.output import json_line, styled
from reput_cli.rendering import body_text, message_document
from reput_cli.template import Template
from reput_cli.times import format_timestamp

if TYPE_CHECKING:
    from reput_cli.reading import Placed

__all__ = ["Render", "renderer"]

Render = Callable[["Placed"], bytes]


def renderer(template: str | None, body: str, as_json: bool, end: str) -> Render:
    """How the options of a command have each message printed.

    Raises:
        click.UsageError: options that exclude each other, or a template that is none.
    """
    if as_json:
        if template is not None or body == "raw":
            raise click.UsageError(
                "--json prints every field: no --format and no --body raw with it"
            )
        return lambda placed: json_line(message_document(placed.message, placed.queue_offset, body))
    if body == "raw":
        if template is not None:
            raise click.UsageError("--body raw writes bodies and nothing else: no --format with it")
        if sys.stdout.isatty():
            raise click.UsageError(
                "--body raw writes bytes as they are, which a terminal would obey; "
                "send the output into a file or a pipe"
            )
        return lambda placed: placed.message.body + b"\n"
    line = _line if template is None else _template_line(template)
    # A terminal that cannot show a character gets its escape, never an error.
    encoding = sys.stdout.encoding or "utf-8"
    return lambda placed: (line(placed, body) + end).encode(encoding, "backslashreplace")


def _template_line(template: str) -> Callable[[Placed, str], str]:
    try:
        compiled = Template(template)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--format") from None
    return lambda placed, body: compiled.render(placed.message, placed.queue_offset, body)


def _line(placed: Placed, body: str) -> str:
    message = placed.message
    place = f"{message.topic}/{message.queue_id}@{placed.queue_offset}"
    parts = [
        styled(format_timestamp(message.store_timestamp), dim=True),
        styled(escape_text(place), fg="cyan"),
        styled(f"[{escape_text(message.tags)}]", fg="green") if message.tags else "",
        escape_text(" ".join(message.keys)),
        body_text(message.body, body),
    ]
    return "  ".join(filter(None, parts))
