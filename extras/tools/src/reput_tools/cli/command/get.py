"""``reput get``: shows one message."""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from reput_tools.cli.kit.completion import complete_topic
from reput_tools.cli.kit.escape import BODY_FORMS, encoded_body, hex_dump, readable
from reput_tools.cli.kit.exitcodes import ExitCode
from reput_tools.cli.kit.failures import Failure, warn
from reput_tools.cli.kit.jsonkeys import STORE_KEYS, json_option
from reput_tools.cli.kit.knowntopics import known_topics, no_topic
from reput_tools.cli.kit.options import not_empty, path_argument, with_debug
from reput_tools.cli.kit.output import format_size, print_facts, print_heading, print_json
from reput_tools.cli.kit.storeopening import open_to_read
from reput_tools.cli.kit.timestamps import format_timestamp
from reput_tools.cli.messages.bodies import bodies
from reput_tools.cli.messages.messagekeys import LOSS_KEYS, MESSAGE_KEYS
from reput_tools.cli.messages.messagerender import host_text, message_document

if TYPE_CHECKING:
    from reput import Store
    from reput.log import Loss
    from reput.record import MessageView
    from reput_tools.cli.messages.bodies import BodyOf

_PREVIEW_SIZE = 2_000  # bytes of the body that are shown unasked
_HEX_PREVIEW_SIZE = 256
_PROBLEMS = {"problems[]": f"{STORE_KEYS['problems[]']}; missing if the store has no problem"}


_EXAMPLES = """\b
Examples:
  reput get STORE 7F00000100002A9F0000000000000000
  reput get STORE --offset 0
  reput get STORE order-42 --topic orders
"""


@click.command(short_help="Show one message.", epilog=_EXAMPLES)
@path_argument
@click.argument("msgid", metavar="[MSGID|KEY]", required=False, callback=not_empty)
@click.option(
    "-o", "--offset", metavar="N", type=click.IntRange(0), help="Physical offset instead of MSGID."
)
@click.option(
    "-t",
    "--topic",
    metavar="TOPIC",
    callback=not_empty,
    shell_complete=complete_topic,
    help="Topic in which to search for KEY. Default: all topics.",
)
@click.option(
    "--body",
    type=click.Choice(["auto", *BODY_FORMS, "raw"]),
    default="auto",
    show_default=True,
    help="How to show the body: auto shows its beginning as text or as a hex dump; the others "
    "show all of it, and raw writes only its bytes.",
)
@click.option(
    "--raw",
    is_flag=True,
    help="Show the body as stored, even if a producer compressed it; without --body and --json, "
    "only its bytes.",
)
@json_option(
    "every field",
    MESSAGE_KEYS | _PROBLEMS,
    {
        "A message that the log has lost": {
            "hole": "true; a message has no such member",
            "physical_offset": "the place that was asked for",
            **LOSS_KEYS,
            **_PROBLEMS,
        }
    },
)
@with_debug
def get(
    path: str,
    msgid: str | None,
    offset: int | None,
    topic: str | None,
    body: str,
    raw: bool,
    as_json: bool,
) -> None:
    r"""Show one message of the store at PATH: every field, its properties and its body.

    MSGID is the offset message id that the store assigned when the message was put: 32 hex digits,
    or 56 if the store's address is IPv6. If the log has lost the message, the command says so and
    ends with code 1. Any other text is a KEY: the producer's own id (UNIQ_KEY), or one of a
    message's keys. The command shows the newest message with this key; if there are several, a line
    on stderr shows the command that lists them. With --topic it uses the plugin `index`, otherwise
    it reads the log.
    """
    if (msgid is None) == (offset is None):
        raise click.UsageError("give either MSGID, KEY or --offset")
    if body == "raw" and as_json:
        raise click.UsageError("--body raw and --json exclude each other")
    only_bytes = body == "raw" or (raw and body == "auto" and not as_json)
    if offset is not None and topic is not None:
        raise click.UsageError("--offset names one place of the log: no --topic with it")
    place = _place(msgid, offset)
    message: MessageView | str = ""
    problems: dict[str, None] = {}  # in order of discovery, each once
    if place is not None and topic is None:
        with open_to_read(path, plugins=()) as store:
            problems |= dict.fromkeys(store.problems)
            loss = _loss_at(store, place)
            if loss is not None:
                _show_loss(store.root, place, loss, list(problems), as_json=as_json)
                raise click.exceptions.Exit(ExitCode.DAMAGED)
            message = _find(store, place)
    if isinstance(message, str):
        if msgid is None:
            raise Failure(message, ExitCode.NOT_FOUND)
        # The producer's own id has as many digits.
        message = _newest_with_key(path, topic, msgid, message, problems)
    _hint_at_batch(path, message)
    body_of = bodies(raw=raw)
    if only_bytes:
        stream = sys.stdout.buffer
        stream.write(body_of(message))
        stream.flush()
    elif as_json:
        form = "text" if body == "auto" else body
        document = message_document(message, body=form, body_of=body_of)
        print_json(document | ({"problems": list(problems)} if problems else {}))
    else:
        _print(message, body, body_of)


def _hint_at_batch(path: str, message: MessageView) -> None:
    """Say how the messages of an inner batch are shown, which is one record."""
    from reput.record import unwrapped

    count = len(unwrapped(message))
    if count > 1:
        name, queue_id, first = shlex.quote(message.topic), message.queue_id, message.queue_offset
        warn(
            f"this record is a batch of {count} messages: `reput cat {shlex.quote(path)} {name} "
            f"--queue {queue_id} --from {first} --count {count}` shows them"
        )


def _place(msgid: str | None, offset: int | None) -> int | None:
    """Return the physical offset asked for; None if a key is asked for."""
    from reput.record import parse_message_id

    if msgid is None:
        return offset or 0
    if not re.fullmatch(r"[0-9A-Fa-f]{32}|[0-9A-Fa-f]{56}", msgid):
        return None
    return parse_message_id(msgid)[1]


def _loss_at(store: Store, place: int) -> Loss | None:
    """Return the loss that took what was at a physical offset; None if a message is there."""
    from reput.log import CUT, FILLED

    for loss in store.losses():
        if not loss.start_offset <= place < loss.end_offset:
            continue
        if loss.action == FILLED:
            return loss
        # A cut range may have been written again, and a skipped range may be readable in part.
        if store.log.read_message(place) is None:
            inside = loss.action != CUT or place >= store.log.max_physical_offset
            return loss if inside else None
    return None


def _show_loss(root: str, place: int, loss: Loss, problems: list[str], *, as_json: bool) -> None:
    from reput_tools.cli.messages.lossoutput import loss_document, lost_queue

    if as_json:
        document = {"hole": True, "physical_offset": place, **loss_document(root, loss)}
        print_json(document | ({"problems": problems} if problems else {}))
        return
    queue = lost_queue(loss)
    first = "" if queue == "-" else f", the first of {queue}"
    warn(
        f"physical offset {place} is lost: {loss.reason}, {loss.size} bytes from "
        f"{loss.start_offset} on{first}; `reput losses {root}` has more"
    )


def _find(store: Store, place: int) -> MessageView | str:
    """Return the message at a place, or a text that says why it does not exist."""
    from reput.errors import OffsetOutOfRangeError

    try:
        return store.get(place)
    except OffsetOutOfRangeError as error:
        return str(error)


def _newest_with_key(
    path: str, topic: str | None, key: str, missing: str, problems: dict[str, None]
) -> MessageView:
    from reput_tools.cli.messages.messagesearch import messages_by_key

    newest, count = None, 0
    with open_to_read(path, plugins=() if topic is None else None) as store:
        problems |= dict.fromkeys(store.problems)
        for message in messages_by_key(store, topic, key):
            newest, count = message, count + 1
        where = "" if topic is None else f" in topic {topic!r}"
        topics = set() if topic is None or newest is not None else known_topics(store)
        if topics and topic is not None and topic not in topics:
            raise no_topic(store.root, topic, topics)
        if newest is None:
            missing = f"{missing}; and " if missing else f"{store.root}: "
            hint = f"; a physical offset is given as --offset {key}" if key.isdigit() else ""
            text = f"{missing}no message has the key {key!r}{where}{hint}"
            raise Failure(text, ExitCode.NOT_FOUND)
        if count > 1:
            warn(
                f"{count} messages have the key {key!r}{where}, this is the newest; "
                f"`{_grep(store.root, topic, key)}` lists them"
            )
    return newest


def _grep(root: str, topic: str | None, key: str) -> str:
    """Return the command that lists all messages with a key."""
    where = () if topic is None else ("-t", topic)
    return shlex.join(("reput", "grep", root, *where, "--key", key))


def _print(message: MessageView, body: str, body_of: BodyOf) -> None:
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
    if body != "none":
        _print_body(message, body, body_of(message))


def _system_flag(message: MessageView) -> str:
    document = message_document(message, body="none")
    words = [f"transaction {document['transaction']}"] if message.transaction else []
    if message.compression:
        words.append(f"body compressed with {message.compression}")
    return f"{message.sys_flag:#x}{' (' + ', '.join(words) + ')' if words else ''}"


def _checksum(message: MessageView) -> str:
    return "the body matches it" if message.body_matches() else "THE BODY DOES NOT MATCH IT"


def _print_body(message: MessageView, form: str, body: bytes) -> None:
    how = ""
    if message.compression:
        stored = message.body
        how = ", as stored" if body == stored else f", stored as {format_size(len(stored))}"
        how += f" of {message.compression}"
    print_heading(f"Body, {format_size(len(body))}{how}")
    for line in _body_lines(body, form):
        click.echo(line)


def _body_lines(body: bytes, form: str) -> Iterator[str]:
    if form == "hex":
        yield from hex_dump(body)
    elif form == "base64":
        yield encoded_body(body, form)[0]
    elif form == "text" or encoded_body(body, "text")[1] == "utf-8":
        shown = body if form == "text" else body[:_PREVIEW_SIZE]
        # Line by line: line ends are kept, and all else that does not print is escaped.
        yield from map(readable, shown.split(b"\n"))
        if len(shown) < len(body):
            yield f"… {format_size(len(body) - len(shown))} more: --body text shows all of it"
    else:
        yield from hex_dump(body, _HEX_PREVIEW_SIZE)
        if len(body) > _HEX_PREVIEW_SIZE:
            rest = format_size(len(body) - _HEX_PREVIEW_SIZE)
            yield f"… {rest} more: --body hex shows all of it, --body raw writes it"
