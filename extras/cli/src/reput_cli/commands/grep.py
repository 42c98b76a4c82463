"""``reput grep``: prints the messages of a topic that are looked for."""

from __future__ import annotations

import sys
import time

import click

from reput_cli.kit.escape import BODY_FORMS
from reput_cli.kit.exitcodes import ExitCode
from reput_cli.kit.failures import warn
from reput_cli.kit.opening import open_to_read
from reput_cli.kit.options import json_option, not_empty, path_argument, with_debug
from reput_cli.kit.output import problem_lines
from reput_cli.kit.times import parse_start
from reput_cli.messages.conditions import conditions_of, tag_option, where_option, with_filter
from reput_cli.messages.reading import Placed
from reput_cli.messages.show import renderer

__all__ = ["grep"]

_LATEST = (1 << 63) - 1


def _moment(context: click.Context, parameter: click.Parameter, value: str | None) -> int | None:
    if value is None:
        return None
    try:
        start = parse_start(value, time.time_ns() // 1_000_000)
    except ValueError:
        start = None
    if start is None or start.kind != "time":
        raise click.BadParameter(
            f"{value!r} is none of: a time ago (-90s, -1h, -2d), a time (2026-01-31T12:00:00Z), "
            "@ and ms since the epoch",
            context,
            parameter,
        )
    return start.value


_EXAMPLES = """\b
Examples:
  reput grep STORE orders --key order-42
  reput grep STORE orders --tag 'paid || shipped' --since -1h
  reput grep STORE orders --where "region = 'eu' AND amount > 100" --json
"""


@click.command(short_help="Find messages by key, tag, property and time.", epilog=_EXAMPLES)
@path_argument
@click.argument("topic")
@click.option(
    "-k",
    "--key",
    callback=not_empty,
    help="Only messages with this key: their unique key, or one of their keys.",
)
@tag_option
@where_option
@click.option(
    "--since",
    metavar="TIME",
    callback=_moment,
    help="Only messages stored then or later: a time ago (-90s, -1h, -2d), a time "
    "(2026-01-31T12:00:00Z; UTC without a zone), @ and ms since the epoch.",
)
@click.option(
    "--until", metavar="TIME", callback=_moment, help="Only those stored then or earlier."
)
@click.option(
    "-n", "--count", metavar="N", type=click.IntRange(1), help="Stop after so many messages."
)
@click.option(
    "--format", "template", metavar="TEMPLATE", help="What to print of each; as for `reput cat`."
)
@click.option(
    "--body",
    type=click.Choice([*BODY_FORMS, "raw"]),
    default="text",
    show_default=True,
    help="How bodies are shown; raw writes nothing but their bytes, and a line end.",
)
@json_option("one JSON object a line, with every field,")
@with_debug
def grep(
    path: str,
    topic: str,
    key: str | None,
    tag: str | None,
    where: str | None,
    since: int | None,
    until: int | None,
    count: int | None,
    template: str | None,
    body: str,
    as_json: bool,
) -> None:
    """Print the messages of TOPIC in the store at PATH that meet all conditions.

    They come in the order in which they were stored. A key is looked up in the store's index
    (plugin `index`), everything else reads the log; nothing in the store changes. Ends with code 3
    where no message is found.
    """
    from reput_cli.messages.search import Wanted, by_key, by_reading

    render = renderer(template, body, as_json, "\n")
    with open_to_read(path, plugins=with_filter(path, None, where)) as store:
        conditions = conditions_of(store, topic, tag, where)
        wanted = Wanted(topic, key, conditions, since or 0, _LATEST if until is None else until)
        search = by_key if key is not None else by_reading
        stream, found = sys.stdout.buffer, 0
        if as_json:
            stream.write(problem_lines(store.problems))
        for message in search(store, wanted):
            stream.write(render(Placed(message.queue_offset, message)))
            found += 1
            if found == count:
                break
        stream.flush()
        if wanted.is_damaged:
            raise click.exceptions.Exit(ExitCode.DAMAGED)
    if not found:
        warn(f"no message of topic {topic!r} meets the conditions")
        raise click.exceptions.Exit(ExitCode.NOT_FOUND)
