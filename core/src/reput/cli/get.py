"""``reput get``: shows one message."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from reput.cli.escape import hex_dump, readable
from reput.cli.exitcodes import ExitCode
from reput.cli.failures import Failure
from reput.cli.opening import open_to_read
from reput.cli.options import json_option, path_argument, with_debug
from reput.cli.output import format_size, print_facts, print_heading, print_json
from reput.cli.rendering import BODY_FORMS, encoded_body, host_text, message_document
from reput.cli.times import format_timestamp

if TYPE_CHECKING:
    from reput.store import Store
    from reput.view import MessageView

__all__ = ["get"]

_PREVIEW_SIZE = 2_000  # bytes of the body that are shown unasked
_HEX_PREVIEW_SIZE = 256


_EXAMPLES = """\b
Examples:
  reput get STORE 7F00000100002A9F0000000000000000
  reput get STORE --offset 0
"""


@click.command(short_help="Show one message.", epilog=_EXAMPLES)
@path_argument
@click.argument("msgid", required=False)
@click.option(
    "-o", "--offset", metavar="N", type=click.IntRange(0), help="Physical offset instead of MSGID."
)
@click.option(
    "--body",
    type=click.Choice(["auto", *BODY_FORMS]),
    default="auto",
    show_default=True,
    help="How the body is shown: auto is its beginning, as text or as a hex dump; the others are "
    "all of it.",
)
@click.option("--raw", is_flag=True, help="Write the body's bytes and nothing else.")
@json_option("every field")
@with_debug
def get(
    path: str, msgid: str | None, offset: int | None, body: str, raw: bool, as_json: bool
) -> None:
    r"""Show the message MSGID of the store at PATH: every field, its properties and its body.

    MSGID is the offset message id that the store gave when the message was put: 32 hex digits, or
    56 where the store's address is IPv6.
    """
    if (msgid is None) == (offset is None):
        raise click.UsageError("give either MSGID or --offset")
    if raw and as_json:
        raise click.UsageError("--raw and --json exclude each other")
    with open_to_read(path, plugins=()) as store:
        message = _find(store, msgid, offset)
    if raw:
        stream = sys.stdout.buffer
        stream.write(message.body)
        stream.flush()
    elif as_json:
        print_json(message_document(message, body="text" if body == "auto" else body))
    else:
        _print(message, body)


def _find(store: Store, msgid: str | None, offset: int | None) -> MessageView:
    from reput.errors import OffsetOutOfRangeError

    if msgid is not None and not re.fullmatch(r"[0-9A-Fa-f]{32}|[0-9A-Fa-f]{56}", msgid):
        hint = f"; a physical offset is given as --offset {msgid}" if msgid.isdigit() else ""
        text = f"{msgid!r} is no offset message id, which has 32 or 56 hex digits{hint}"
        raise click.BadParameter(text, param_hint="MSGID")
    try:
        return store.get(msgid if msgid is not None else offset or 0)
    except OffsetOutOfRangeError as error:
        hint = ""
        if msgid is not None:
            hint = (
                "; if that id is the producer's own (UNIQ_KEY), only a search finds it: "
                f"reput cat {store.root} TOPIC --format '%u %i' | grep {msgid}"
            )
        raise Failure(f"{error}{hint}", ExitCode.NOT_FOUND) from error


def _print(message: MessageView, body: str) -> None:
    facts = [
        ("topic", message.topic),
        ("queue", f"{message.queue_id}, queue offset {message.queue_offset}"),
        ("physical offset", f"{message.physical_offset}, record of {message.size} bytes"),
        ("message id", message.msg_id),
        (
            "stored",
            f"{format_timestamp(message.store_timestamp)} by {host_text(message.store_host)}",
        ),
        ("born", f"{format_timestamp(message.born_timestamp)} at {host_text(message.born_host)}"),
        ("flag", str(message.flag)),
        ("system flag", _system_flag(message)),
        ("reconsumed", f"{message.reconsume_times} times"),
    ]
    if message.transaction:
        facts.append(("prepared at", str(message.prepared_transaction_offset)))
    facts.append(("checksum", f"{message.body_crc:08x}, {_checksum(message)}"))
    print_facts(facts, indent=0)
    if message.properties:
        print_heading("Properties")
        print_facts(sorted(message.properties.items()))
    _print_body(message, body)


def _system_flag(message: MessageView) -> str:
    document = message_document(message, body="none")
    words = [f"transaction {document['transaction']}"] if message.transaction else []
    if message.compression:
        words.append(f"body compressed with {message.compression}")
    return f"{message.sys_flag:#x}{' (' + ', '.join(words) + ')' if words else ''}"


def _checksum(message: MessageView) -> str:
    return "the body matches it" if message.body_matches() else "THE BODY DOES NOT MATCH IT"


def _print_body(message: MessageView, form: str) -> None:
    if form == "none":
        return
    body = message.body
    print_heading(f"Body, {format_size(len(body))}")
    for line in _body_lines(body, form):
        click.echo(line)


def _body_lines(body: bytes, form: str) -> Iterator[str]:
    if form == "hex":
        yield from hex_dump(body)
    elif form == "base64":
        yield encoded_body(body, form)[0]
    elif form == "text" or encoded_body(body, "text")[1] == "utf-8":
        shown = body if form == "text" else body[:_PREVIEW_SIZE]
        # Line by line: the ends of lines are wanted here, and nothing else that does not print.
        yield from map(readable, shown.split(b"\n"))
        if len(shown) < len(body):
            yield f"… {format_size(len(body) - len(shown))} more: --body text shows all of it"
    else:
        yield from hex_dump(body, _HEX_PREVIEW_SIZE)
        if len(body) > _HEX_PREVIEW_SIZE:
            rest = format_size(len(body) - _HEX_PREVIEW_SIZE)
            yield f"… {rest} more: --body hex shows all of it, --raw writes it"
