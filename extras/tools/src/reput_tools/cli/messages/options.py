"""Options that commands about messages share: one name, one letter and one text for each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar

import click

from reput_tools.cli.kit.completion import complete_queue, complete_topic
from reput_tools.cli.kit.escape import BODY_FORMS
from reput_tools.cli.kit.options import not_empty, read_time

_Command = TypeVar("_Command", bound=Callable[..., Any])


def topic_arguments(command: _Command) -> _Command:
    """TOPIC, and ``--topic`` as other tools have it; see `one_topic`."""
    option = click.option(
        "-t",
        "--topic",
        "topic_named",
        metavar="TOPIC",
        callback=not_empty,
        shell_complete=complete_topic,
        help="The topic, if you do not give it as an argument.",
    )
    argument = click.argument("topic", required=False, shell_complete=complete_topic)
    return argument(option(command))


def one_topic(topic: str | None, named: str | None) -> str:
    """Return the topic of `topic_arguments`.

    Raises:
        click.UsageError: none was given, or two.
    """
    if topic is None and named is None:
        raise click.UsageError("Missing argument 'TOPIC'; `reput info PATH` lists the topics.")
    if topic is not None and named is not None:
        raise click.UsageError(f"two topics, {topic!r} and --topic {named!r}: give one")
    return topic or named or ""


def tags_of(text: str | None) -> frozenset[str] | None:
    """Return the tags of ``A || B``; None for all tags."""
    if text is None or text.strip() == "*":
        return None
    return frozenset(filter(None, (each.strip() for each in text.split("||"))))


def _checked_tags(
    context: click.Context, parameter: click.Parameter, value: str | None
) -> str | None:
    if tags_of(value) == frozenset():
        text = f"{value!r} names no tag, so that no message could have it; leave it out for all"
        raise click.BadParameter(text, context, parameter)
    return value


tag_option: Final = click.option(
    "--tag",
    metavar="TAGS",
    callback=_checked_tags,
    help="Only messages with this tag, or with one of: A || B.",
)
where_option: Final = click.option(
    "-w",
    "--where",
    metavar="SQL",
    callback=not_empty,
    help="Only messages whose properties meet this condition; needs the plugin filter.",
)
queue_option: Final = click.option(
    "-q",
    "--queue",
    "queue_id",
    metavar="ID",
    type=click.IntRange(0),
    shell_complete=complete_queue,
    help="Only this queue.",
)


def count_option(least: int = 0) -> Callable[[_Command], _Command]:
    """Add ``--count``."""
    return click.option(
        "-n",
        "--count",
        metavar="N",
        type=click.IntRange(least),
        help="Stop after N messages.",
    )


since_option: Final = click.option(
    "--since",
    metavar="TIME",
    callback=read_time,
    help="Only messages stored at this time or later: a time ago (-90s, -1h, -2d), a time "
    "(2026-01-31T12:00:00Z; UTC without a zone), @ and ms since the epoch.",
)
until_option: Final = click.option(
    "--until",
    metavar="TIME",
    callback=read_time,
    help="Only messages stored at this time or earlier.",
)
format_option: Final = click.option(
    "--format",
    "template",
    metavar="TEMPLATE",
    help="What to print of each message: %t topic, %q queue id, %o queue offset, "
    "%p physical offset, %s body, %S its size, %T tags, %k keys, %i message id, %u unique key, "
    "%h properties, %{NAME} one property, %d and %D store time, %b and %B born time, %%; "
    r"\n \t \0 \xHH as in C.",
)
no_newline_option: Final = click.option(
    "--no-newline", is_flag=True, help="With --format: add no line end to a message."
)
body_option: Final = click.option(
    "--body",
    type=click.Choice([*BODY_FORMS, "raw"]),
    default="text",
    show_default=True,
    help="How to show bodies; raw writes only their bytes and a line end.",
)
