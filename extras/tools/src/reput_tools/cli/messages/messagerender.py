"""Shows one message: as JSON for programs, or as a line that options describe."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

import click

from reput_tools.cli.kit.escape import body_text, encoded_body
from reput_tools.cli.kit.output import json_line
from reput_tools.cli.messages.bodies import COMPRESSION_BITS
from reput_tools.cli.messages.formattemplate import Template
from reput_tools.cli.messages.linelayout import head_of, laid_out

if TYPE_CHECKING:
    from reput.record import MessageView
    from reput_tools.cli.messages.bodies import BodyOf
    from reput_tools.cli.messages.linelayout import Layout
    from reput_tools.cli.messages.queuereader import Placed

Render = Callable[["Placed"], "Iterable[bytes]"]
"""Gives what to print of a message, in pieces."""

_TRANSACTIONS = {0x0: "none", 0x4: "prepared", 0x8: "commit", 0xC: "rollback"}


def renderer(
    template: str | None,
    body: str,
    as_json: bool,
    end: str,
    body_of: BodyOf,
    mark: Callable[[str], str] = str,
    *,
    layout: Layout | None = None,
) -> Render:
    """Return the function that prints each message as the options say.

    Args:
        template: of ``--format``; None for the usual line.
        body: form of bodies.
        as_json: whether each message is a JSON object.
        end: what ends a line of text.
        body_of: gives the body of a message.
        mark: marks what is looked for in the text of a body, for a terminal.
        layout: of ``--pretty`` and ``--width``; None for neither.

    Raises:
        click.UsageError: options exclude each other, or a template is invalid.
    """
    if layout is not None and (as_json or template is not None or body == "raw"):
        raise click.UsageError(
            "--pretty and --width lay out the usual lines: no --json, --format or --body raw with "
            "them"
        )
    if as_json:
        if template is not None or body == "raw":
            raise click.UsageError(
                "--json prints every field: no --format and no --body raw with it"
            )
        return lambda placed: (
            json_line(message_document(placed.message, placed.queue_offset, body, body_of)),
        )
    if body == "raw":
        if template is not None:
            raise click.UsageError("--body raw writes bodies and nothing else: no --format with it")
        if sys.stdout.isatty():
            raise click.UsageError(
                "--body raw writes bytes as they are, which a terminal would obey; "
                "send the output into a file or a pipe"
            )
        return lambda placed: (body_of(placed.message), b"\n")
    # A character that the terminal cannot show becomes an escape, never an error.
    encoding = sys.stdout.encoding or "utf-8"
    if layout is not None:
        lines = laid_out(layout, body_of)
        return lambda placed: (
            piece.encode(encoding, "backslashreplace")
            for piece in _joined(lines(placed, body), end)
        )
    line = _plain_line(body_of, mark) if template is None else _template_line(template, body_of)
    return lambda placed: ((line(placed, body) + end).encode(encoding, "backslashreplace"),)


def _joined(lines: Iterable[str], end: str) -> Iterator[str]:
    """Yield lines one by one, with ends between them and ``end`` after them."""
    separator = ""
    for line in lines:
        yield separator + line
        separator = "\n"
    yield end


def _template_line(template: str, body_of: BodyOf) -> Callable[[Placed, str], str]:
    try:
        compiled = Template(template, body_of)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--format") from None
    return lambda placed, body: compiled.render(placed.message, placed.queue_offset, body)


def _plain_line(body_of: BodyOf, mark: Callable[[str], str]) -> Callable[[Placed, str], str]:
    def line(placed: Placed, body: str) -> str:
        parts = head_of(placed)
        if body != "none":
            parts.append(mark(body_text(body_of(placed.message), body)))
        return "  ".join(filter(None, parts))

    return line


def message_document(
    message: MessageView,
    queue_offset: int | None = None,
    body: str = "text",
    body_of: BodyOf | None = None,
) -> dict[str, Any]:
    """Return every field of ``message``; the keys are stable (``docs/cli.md``).

    Args:
        message: the message.
        queue_offset: its place in the queue that was read; by default the record's.
        body: one of `reput_tools.cli.kit.escape.BODY_FORMS`; ``"text"`` falls back to base64 for
        what is
            not UTF-8.
        body_of: gives the body of the message; None for the body as stored. The member ``sys_flag``
            describes that body, so that `reput put` can store it again.
    """
    shown = message.body if body_of is None else body_of(message)
    is_unpacked = message.compression is not None and shown != message.body
    document = {
        "topic": message.topic,
        "queue_id": message.queue_id,
        "queue_offset": message.queue_offset if queue_offset is None else queue_offset,
        "physical_offset": message.physical_offset,
        "size": message.size,
        "msg_id": message.msg_id,
        "store_timestamp": message.store_timestamp,
        "born_timestamp": message.born_timestamp,
        "store_host": host_text(message.store_host),
        "born_host": host_text(message.born_host),
        "tags": message.tags,
        "keys": list(message.keys),
        "properties": message.properties,
        "flag": message.flag,
        "sys_flag": message.sys_flag & ~COMPRESSION_BITS if is_unpacked else message.sys_flag,
        "transaction": _TRANSACTIONS[message.transaction],
        "compression": message.compression,
        "reconsume_times": message.reconsume_times,
        "prepared_transaction_offset": message.prepared_transaction_offset,
        "body_size": len(shown),
        "body_crc": message.body_crc,
    }
    if body != "none":
        document["body"], document["body_encoding"] = encoded_body(shown, body)
    return document


def host_text(host: tuple[str, int]) -> str:
    """Return ``127.0.0.1:10911`` or ``[::1]:10911``."""
    address, port = host
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"
