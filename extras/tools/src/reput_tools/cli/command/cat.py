"""``reput cat``: prints the messages of a topic."""

from __future__ import annotations

import dataclasses
import heapq
import sys
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Self

import click

from reput_tools.cli.kit.exitcodes import ExitCode
from reput_tools.cli.kit.failures import Failure, no_reader, warn
from reput_tools.cli.kit.jsonkeys import json_option
from reput_tools.cli.kit.options import path_argument, with_debug
from reput_tools.cli.kit.output import format_size, problem_lines
from reput_tools.cli.kit.progressbar import ProgressBar
from reput_tools.cli.kit.storeopening import open_to_read
from reput_tools.cli.kit.timestamps import Start, parse_start
from reput_tools.cli.messages import queuereader
from reput_tools.cli.messages.bodies import bodies, raw_option
from reput_tools.cli.messages.filteroptions import FilterOptions, conditions_of, with_filter
from reput_tools.cli.messages.linelayout import layout_of, layout_options
from reput_tools.cli.messages.messagekeys import (
    LOST_MESSAGE_KEYS,
    MESSAGE_KEYS,
    PROBLEM_KEYS,
)
from reput_tools.cli.messages.messageoutput import MessageOutput
from reput_tools.cli.messages.messagerender import renderer
from reput_tools.cli.messages.options import (
    body_option,
    count_option,
    format_option,
    no_newline_option,
    one_topic,
    queue_option,
    tag_option,
    topic_arguments,
    until_option,
    where_option,
)

if TYPE_CHECKING:
    from reput import Store
    from reput_tools.cli.messages.queuereader import Lost, Placed, QueueReader


def _start(context: click.Context, parameter: click.Parameter, value: str) -> Start:
    try:
        return parse_start(value, time.time_ns() // 1_000_000)
    except ValueError as error:
        raise click.BadParameter(str(error), context, parameter) from None


_EXAMPLES = """\b
Examples:
  reput cat STORE orders --last 5
  reput cat STORE orders --last 1 --pretty
  reput cat STORE orders --width 0
  reput cat STORE orders --queue 0 --from 1200 --format '%o %k %s'
  reput cat STORE orders --from -1h --follow
  reput cat STORE orders --where "region = 'eu' AND amount > 100"
  reput cat STORE orders --json | jq .properties
"""


@click.command(short_help="Print the messages of a topic.", epilog=_EXAMPLES)
@path_argument
@topic_arguments
@queue_option
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
@until_option
@tag_option
@where_option
@count_option()
@click.option("--last", metavar="N", type=click.IntRange(0), help="Only the last N messages.")
@click.option("-f", "--follow", is_flag=True, help="Wait for more messages until Ctrl-C.")
@format_option
@no_newline_option
@layout_options
@body_option
@raw_option
@click.option(
    "--scan", is_flag=True, help="Read the whole log instead of the queues; this needs no plugin."
)
@json_option(
    "one object a line, with every field",
    MESSAGE_KEYS,
    {
        "A message that the log has lost, in its place": LOST_MESSAGE_KEYS,
        "A problem of the store, before all messages": PROBLEM_KEYS,
    },
)
@with_debug
def cat(
    path: str,
    topic: str | None,
    topic_named: str | None,
    queue_id: int | None,
    start: Start,
    until: int | None,
    tag: str | None,
    where: str | None,
    count: int | None,
    last: int | None,
    follow: bool,
    template: str | None,
    no_newline: bool,
    pretty: bool,
    width: int | None,
    body: str,
    raw: bool,
    scan: bool,
    as_json: bool,
) -> None:
    r"""Print the messages of TOPIC in the store at PATH, in the order in which they were stored.

    The command changes nothing in the store, and another process may write it meanwhile. A terminal
    shows unprintable characters as escapes (\n, \x1b). Without --follow, the command ends where
    the queues ended when it started. With --follow, the topic and its queues need not exist yet. A
    broker writes the properties of a message last: while a broker is running, the command prints
    the newest message when the next one follows, or after a second.

    For a message that the log has lost, the command prints one line on stderr, or with --json an
    object with `"hole": true`, and continues; its exit code is then 1. --count and --last count the
    messages that --tag and --where select, and no lost ones. First the command lists the parts of
    the store that it cannot use, on stderr, or with --json as objects `{"problem": "..."}`.

    --scan is slower, but also shows messages that are not dispatched yet, and continues after
    damage and after missing log files, which the output names.
    """
    topic = one_topic(topic, topic_named)
    _check(no_newline, template, follow, scan, until, last, count)
    end = "" if no_newline else "\n"
    layout = layout_of(pretty=pretty, width=width)
    render = renderer(template, body, as_json, end, bodies(raw=raw), layout=layout)
    plugins = with_filter(path, () if scan else None, where)
    with open_to_read(path, plugins=plugins) as store:
        wanted = _Wanted(
            topic,
            queue_id,
            start,
            until,
            conditions_of(store, topic, tag, where, until),
            count,
            last,
            follow,
        )
        found = _scanned(store, wanted) if scan else _queued(store, wanted)
        if count is not None:
            found = _first(found, count)
        output = MessageOutput(render, as_json=as_json, flush=follow)
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


def _check(
    no_newline: bool,
    template: str | None,
    follow: bool,
    scan: bool,
    until: int | None,
    last: int | None,
    count: int | None,
) -> None:
    """Refuse options that contradict each other."""
    if no_newline and template is None:
        raise click.UsageError("--no-newline says how lines of --format end: give that, too")
    if follow and scan:
        raise click.UsageError("--follow reads queues and --scan reads the log: give one of them")
    if follow and until is not None:
        raise click.UsageError("--follow waits for what comes, and --until ends before: give one")
    if last is not None and count is not None:
        raise click.UsageError("--last counts from the end and --count from the start: give one")


@dataclasses.dataclass(frozen=True)
class _Wanted:
    """What the options select."""

    topic: str
    queue_id: int | None
    start: Start
    until: int | None
    conditions: FilterOptions
    count: int | None
    last: int | None
    follow: bool

    def matches(self, placed: Placed) -> bool:
        return not self.conditions or self.conditions.matches(placed.message)

    def meeting(self, found: Iterator[Placed | Lost]) -> Iterator[Placed | Lost]:
        """Yield messages that meet the conditions, and all losses: their content is not known."""
        if not self.conditions:
            return found
        return (
            each for each in found if not isinstance(each, queuereader.Placed) or self.matches(each)
        )


def _queued(store: Store, wanted: _Wanted) -> Iterator[Placed | Lost]:
    readers = _readers(store, wanted)
    _warn_of_lag(store)
    shown = not sys.stdout.isatty() and not wanted.follow
    if wanted.last is not None:
        ends = [reader.last(wanted.last, wanted.matches) for reader in readers]
        in_order = heapq.merge(*ends, key=lambda each: each.physical_offset)
        yield from queuereader.last_of(in_order, wanted.last)
    else:
        total = sum(reader.left for reader in readers)
        if wanted.count is not None and not wanted.conditions:
            total = min(total, wanted.count)
        with ProgressBar("reading", total, shown=shown) as progress:
            for placed in queuereader.merged(readers):
                progress.advance()
                yield from wanted.meeting(iter([placed]))
    if wanted.follow:
        with _Waiting(store, wanted.topic, readers) as waiting:

            def find_new(known: set[int]) -> list[QueueReader]:
                if not waiting.may_have_new_queues():
                    return []
                return _new(store, wanted.topic, wanted.queue_id, known)

            yield from wanted.meeting(queuereader.follow(readers, find_new, waiting.wait))


def _readers(store: Store, wanted: _Wanted) -> list[QueueReader]:
    from reput.errors import NoReaderError

    try:
        every = store.queues()
    except NoReaderError as error:
        text = f"{no_reader(error, store.root)}; or add --scan, which reads the whole log instead"
        raise Failure(text, ExitCode.UNAVAILABLE) from error
    if not every and store.log.max_physical_offset > store.log.min_physical_offset:
        warn("the log holds messages, but no queue does yet; --scan reads the log itself")
    try:
        queues = queuereader.choose_queues(every, store.root, wanted.topic, wanted.queue_id)
    except Failure as failure:
        if not wanted.follow:
            raise
        warn(f"{failure.message}; waiting for it")
        return []
    if wanted.start.kind == "offset":
        end = max(queue.max_queue_offset for queue in queues)
        if wanted.start.value > end:
            warn(f"--from {wanted.start.value} is after the last message; the queues end at {end}")
    return [queuereader.QueueReader(store, queue, wanted.start, wanted.until) for queue in queues]


def _new(store: Store, topic: str, queue_id: int | None, known: set[int]) -> list[QueueReader]:
    return [
        queuereader.QueueReader(store, queue, Start("earliest"))
        for queue in store.queues()
        if queue.topic == topic
        and queue.queue_id not in known
        and queue_id in (None, queue.queue_id)
    ]


_QUEUES_SECONDS = 1.0


class _Waiting:
    """Waits until queues of a topic may have more messages."""

    def __init__(self, store: Store, topic: str, readers: list[QueueReader]) -> None:
        from reput.files import FileWatch

        self._watch = FileWatch(store.root)
        self._topic, self._readers = topic, readers
        self._offsets: list[int] = []
        self._reported: set[Any] = {""}
        self._looked = 0.0
        self._add()

    def _add(self) -> None:
        self._watch.add("", "consumequeue", self._topic)  # new queues
        for each in self._readers:
            self._watch.add(each.queue_id, "consumequeue", self._topic, str(each.queue_id))

    def wait(self) -> bool:
        offsets = [reader.next_offset for reader in self._readers]
        if offsets != self._offsets and not self._reported:
            self._watch.found_more()
        self._offsets = offsets
        self._add()
        self._reported = self._watch.wait(self._watch.interval)
        return True

    def may_have_new_queues(self) -> bool:
        """Whether all queues should be listed, which takes longer than reading one."""
        now = time.monotonic()
        if "" not in self._reported and now - self._looked < _QUEUES_SECONDS:
            return False
        self._looked = now
        return True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._watch.close()


def _warn_of_lag(store: Store) -> None:
    """Warn if the queues do not hold all of the log, and no process is changing that."""
    from reput_tools.cli.plugins.plugindocs import hooks_of  # imports pluggy

    # A lag of other plugins does not matter: they are not read here.
    objects = store.plugin_objects
    readers = {name for name, each in objects.items() if "reput_read" in hooks_of(type(each))}
    behind = max(
        (plugin.lag_size for plugin in store.plugins() if plugin.name in readers), default=0
    )
    if behind and store.clean:
        warn(
            f"{format_size(behind)} of the log are not in the queues yet; "
            "opening the store for writing dispatches them, --scan reads the log itself"
        )


def _scanned(store: Store, wanted: _Wanted) -> Iterator[Placed | Lost]:
    from reput_tools.cli.messages.logscan import scanned

    with ProgressBar("reading", None, "bytes", shown=not sys.stdout.isatty()) as progress:
        found = scanned(
            store, wanted.topic, wanted.queue_id, wanted.start, wanted.until, progress.update
        )
        found = wanted.meeting(found)
        yield from found if wanted.last is None else queuereader.last_of(found, wanted.last)


def _first(found: Iterator[Placed | Lost], count: int) -> Iterator[Placed | Lost]:
    """Yield up to ``count`` messages, and the losses before them."""
    left = count
    while left and (each := next(found, None)) is not None:
        left -= isinstance(each, queuereader.Placed)
        yield each
