"""``reput cat``: prints the messages of a topic."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from reput_cli.kit.escape import BODY_FORMS
from reput_cli.kit.exitcodes import ExitCode
from reput_cli.kit.failures import Failure, warn
from reput_cli.kit.opening import open_to_read
from reput_cli.kit.options import json_option, path_argument, with_debug
from reput_cli.kit.output import format_size, json_line, problem_lines
from reput_cli.kit.progressbar import ProgressBar
from reput_cli.kit.times import Start, parse_start
from reput_cli.messages import reading
from reput_cli.messages.conditions import (
    Conditions,
    conditions_of,
    tag_option,
    where_option,
    with_filter,
)
from reput_cli.messages.show import Render, renderer

if TYPE_CHECKING:
    from reput import Store
    from reput_cli.messages.reading import Lost, Placed, QueueReader

__all__ = ["cat"]

POLL_INTERVAL_S = 0.1
"""Interval at which ``--follow`` reads a store in which nothing happens."""


def _start(context: click.Context, parameter: click.Parameter, value: str) -> Start:
    try:
        return parse_start(value, time.time_ns() // 1_000_000)
    except ValueError as error:
        raise click.BadParameter(str(error), context, parameter) from None


_EXAMPLES = """\b
Examples:
  reput cat STORE orders --count 5
  reput cat STORE orders --queue 0 --from 1200 --format '%o %k %s'
  reput cat STORE orders --from -1h --follow
  reput cat STORE orders --where "region = 'eu' AND amount > 100"
  reput cat STORE orders --json | jq .properties
"""


@click.command(short_help="Print the messages of a topic.", epilog=_EXAMPLES)
@path_argument
@click.argument("topic")
@click.option(
    "-q", "--queue", "queue_id", metavar="ID", type=click.IntRange(0), help="Only this queue."
)
@click.option(
    "--from",
    "start",
    metavar="WHERE",
    callback=_start,
    default="earliest",
    show_default=True,
    help="Where to begin: earliest, latest, a queue offset, a time ago (-90s, -1h, -2d), "
    "a time (2026-01-31T12:00:00Z; UTC without a zone), @ and ms since the epoch.",
)
@tag_option
@where_option
@click.option(
    "-n", "--count", metavar="N", type=click.IntRange(0), help="Stop after so many messages."
)
@click.option("-f", "--follow", is_flag=True, help="Wait for more; Ctrl-C ends.")
@click.option(
    "--format",
    "template",
    metavar="TEMPLATE",
    help="What to print of each message: %t topic, %q queue id, %o queue offset, "
    "%p physical offset, %s body, %S its size, %T tags, %k keys, %i message id, %u unique key, "
    "%h properties, %{NAME} one property, %d and %D store time, %b and %B born time, %%; "
    r"\n \t \0 \xHH as in C.",
)
@click.option("--no-newline", is_flag=True, help="With --format: end no line by itself.")
@click.option(
    "--body",
    type=click.Choice([*BODY_FORMS, "raw"]),
    default="text",
    show_default=True,
    help="How bodies are shown; raw writes nothing but their bytes, and a line end.",
)
@click.option("--scan", is_flag=True, help="Read the whole log, not the queues; needs no plugin.")
@json_option("one JSON object a line, with every field,")
@with_debug
def cat(
    path: str,
    topic: str,
    queue_id: int | None,
    start: Start,
    tag: str | None,
    where: str | None,
    count: int | None,
    follow: bool,
    template: str | None,
    no_newline: bool,
    body: str,
    scan: bool,
    as_json: bool,
) -> None:
    r"""Print the messages of TOPIC in the store at PATH, in the order in which they were stored.

    Nothing in the store changes; another process may be writing it. On the terminal whatever
    would not print is shown as an escape (\n, \x1b). A message that the log has lost is one line on
    stderr, with --json an object with "hole": true; the command ends with code 1 then. What of the
    store cannot be used is told first, on stderr and with --json as objects {"problem": "..."}.
    """
    if no_newline and template is None:
        raise click.UsageError("--no-newline says how lines of --format end: give that, too")
    if follow and scan:
        raise click.UsageError("--follow reads queues and --scan reads the log: give one of them")
    render = renderer(template, body, as_json, "" if no_newline else "\n")
    plugins = with_filter(path, () if scan else None, where)
    with open_to_read(path, plugins=plugins) as store:
        conditions = conditions_of(store, topic, tag, where)
        if scan:
            found = _scanned(store, topic, queue_id, start)
        else:
            found = _queued(store, topic, queue_id, start, None if conditions else count, follow)
        if conditions:
            found = _meeting(conditions, found)
        if count is not None:
            found = _first(found, count)
        output = _Output(render, as_json=as_json, flush=follow)
        if as_json:
            sys.stdout.buffer.write(problem_lines(store.problems))
        try:
            output.write(found)
        except KeyboardInterrupt:
            if not follow:
                raise
            # The only way to end it.
    if output.lost_count:
        raise click.exceptions.Exit(ExitCode.DAMAGED)


def _queued(
    store: Store, topic: str, queue_id: int | None, start: Start, count: int | None, follow: bool
) -> Iterator[Placed | Lost]:
    readers = _readers(store, topic, queue_id, start, wait_for_topic=follow)
    _warn_of_lag(store)
    total = sum(reader.left for reader in readers)
    total = total if count is None else min(total, count)
    shown = not sys.stdout.isatty() and not follow
    with ProgressBar("reading", total, shown=shown) as progress:
        for placed in reading.merged(readers):
            progress.advance()
            yield placed
    if follow:
        yield from reading.follow(readers, lambda known: _new(store, topic, queue_id, known), _wait)


def _readers(
    store: Store, topic: str, queue_id: int | None, start: Start, *, wait_for_topic: bool
) -> list[QueueReader]:
    from reput.errors import NoReaderError

    try:
        every = store.queues()
    except NoReaderError as error:
        text = f"{error}; or add --scan, which reads the whole log instead"
        raise Failure(text, ExitCode.UNAVAILABLE) from error
    if not every and store.log.max_physical_offset > store.log.min_physical_offset:
        warn("the log holds messages, but no queue does yet; --scan reads the log itself")
    try:
        queues = reading.choose_queues(every, store.root, topic, queue_id)
    except Failure as failure:
        if not wait_for_topic:
            raise
        warn(f"{failure.message}; waiting for it")
        return []
    return [reading.QueueReader(store, queue, start) for queue in queues]


def _new(store: Store, topic: str, queue_id: int | None, known: set[int]) -> list[QueueReader]:
    return [
        reading.QueueReader(store, queue, Start("earliest"))
        for queue in store.queues()
        if queue.topic == topic
        and queue.queue_id not in known
        and queue_id in (None, queue.queue_id)
    ]


def _wait() -> bool:
    time.sleep(POLL_INTERVAL_S)
    return True


def _warn_of_lag(store: Store) -> None:
    """Warn if the queues do not hold all of the log, and no process is changing that."""
    # A lag of other plugins does not matter: they are not read here.
    readers = {step.name for step in store.plan() if "read" in step.hooks}
    behind = max(
        (plugin.lag_size for plugin in store.plugins() if plugin.name in readers), default=0
    )
    if behind and store.clean:
        warn(
            f"{format_size(behind)} of the log are not in the queues yet; "
            "opening the store for writing dispatches them, --scan reads the log itself"
        )


def _scanned(
    store: Store, topic: str, queue_id: int | None, start: Start
) -> Iterator[Placed | Lost]:
    from reput_cli.messages.scanning import scanned

    with ProgressBar("reading", None, "bytes", shown=not sys.stdout.isatty()) as progress:
        yield from scanned(store, topic, queue_id, start, progress.update)


def _meeting(conditions: Conditions, found: Iterator[Placed | Lost]) -> Iterator[Placed | Lost]:
    """Yield messages that meet the conditions, and all losses, as their content is not known."""
    for each in found:
        if not isinstance(each, reading.Placed) or conditions.matches(each.message):
            yield each


def _first(found: Iterator[Placed | Lost], count: int) -> Iterator[Placed | Lost]:
    """Yield up to ``count`` messages, and the losses before them."""
    left = count
    while left and (each := next(found, None)) is not None:
        left -= isinstance(each, reading.Placed)
        yield each


class _Output:
    """Writes messages to stdout; losses to stderr, or as JSON between the messages."""

    def __init__(self, render: Render, *, as_json: bool, flush: bool) -> None:
        self._render = render
        self._as_json = as_json
        self._flush = flush
        self.lost_count = 0

    def write(self, found: Iterator[Placed | Lost]) -> None:
        stream = sys.stdout.buffer
        for each in found:
            if isinstance(each, reading.Placed):
                stream.write(self._render(each))
            else:
                self._tell(each)
            if self._flush:
                stream.flush()
        stream.flush()

    def _tell(self, lost: Lost) -> None:
        self.lost_count += 1
        stream = sys.stdout.buffer
        if self._as_json:
            stream.write(json_line(lost.document()))
        else:
            stream.flush()  # the messages before this line are shown first
            warn(str(lost))
