"""``reput demo``: opens a RocketMQ store, appends, dispatches and reads back."""

from __future__ import annotations

import importlib.util
import os
import shlex
import tempfile
import time
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from reput.installhints import install_command
from reput_tools.cli.kit.exitcodes import ExitCode
from reput_tools.cli.kit.failures import Failure
from reput_tools.cli.kit.jsonkeys import json_option
from reput_tools.cli.kit.options import STORE_PATH, with_debug
from reput_tools.cli.kit.output import (
    Column,
    format_count,
    format_rate,
    format_size,
    print_heading,
    print_json,
    print_table,
    styled,
)
from reput_tools.cli.kit.programname import program
from reput_tools.cli.kit.progressbar import ProgressBar
from reput_tools.cli.kit.storeopening import open_to_write
from reput_tools.cli.kit.timestamps import format_duration

if TYPE_CHECKING:
    from reput import Store
    from reput_tools.cli.command.demo.orders import QueueSum
    from reput_tools.cli.command.demo.readback import Check

    Queue = tuple[str, int]

_CHUNK = 5_000  # messages that are put at a time
_GROUP = 100_000  # messages that are in memory at a time


class _Step(NamedTuple):
    """One line of the table of rates."""

    name: str
    seconds: float
    message_count: int = 0
    size: int = 0


_EXAMPLES = """\b
Examples:
  reput demo
  reput demo --directory demo-store --count 1000
"""
_JSON = {
    "directory": "the directory of the store, which stays",
    "right": "whether all comparisons succeeded",
    "steps[].step": "the work",
    "steps[].seconds": "how long it took",
    "steps[].message_count": "number of messages",
    "steps[].size": "bytes",
    "checks[].check": "the comparison",
    "checks[].expected": "expected number",
    "checks[].found": "found number",
    "checks[].right": "whether they are equal",
}


@click.command(
    short_help="Open a RocketMQ store, fill it, dispatch its messages and read them back.",
    epilog=_EXAMPLES,
)
@click.option(
    "-d",
    "--directory",
    metavar="DIR",
    type=STORE_PATH,
    help="Work in this new or empty directory. Default: a new temporary directory.",
)
@click.option(
    "-n",
    "--count",
    metavar="N",
    type=click.IntRange(1),
    default=100_000,
    show_default=True,
    help="Messages to append.",
)
@json_option("one document with steps, rates and checks", _JSON)
@with_debug
def demo(directory: str | None, count: int, as_json: bool) -> None:
    r"""Try everything on a copy of a store that Apache RocketMQ wrote.

    The command unpacks the store, shows its content, appends messages, dispatches them to the
    consume queues and reads everything back through the queues. It compares the result with Java's
    answers and with the appended messages, and prints the rates. The directory stays. The exit code
    is 1 if a comparison fails.
    """
    from reput_tools.cli.command.demo.readback import check
    from reput_tools.cli.kit import demostore

    _require_a_reader()
    root = _directory(directory)
    say = _silent if as_json else click.echo
    say(f"A copy of a store that {demostore.ORIGIN} wrote, in {styled(root, bold=True)}")
    started = time.perf_counter()
    unpacked = demostore.unpack(root)
    steps = [_Step("unpack", time.perf_counter() - started, size=unpacked)]
    started = time.perf_counter()
    with open_to_write(root) as store:
        steps.append(_Step("open", time.perf_counter() - started))
        if not as_json:
            _print_content(store)
        say(f"\nAppending {format_count(count, 'message')}, then reading everything back.")
        sums = _append(store, count, steps)
        checks, read = check(store, demostore.java_queues(), sums)
        steps.append(_Step("read back", *read))
        msg_id = store.get(store.log.min_physical_offset).msg_id
    right = all(each.right for each in checks)
    if as_json:
        print_json(_document(root, steps, checks, right=right))
    else:
        _print_steps(steps)
        _print_checks(checks)
        _print_next(root, msg_id)
    if not right:
        raise click.exceptions.Exit(ExitCode.DAMAGED)


def _require_a_reader() -> None:
    from reput.plugin import installed

    if not installed():
        text = (
            "the demo reads by topic and queue, which is a plugin's work; "
            f"install it with: {install_command('consumequeue')}"
        )
        raise Failure(text, ExitCode.UNAVAILABLE)


def _directory(given: str | None) -> str:
    if given is None:
        return tempfile.mkdtemp(prefix="reput-demo-")
    if os.path.exists(given) and (not os.path.isdir(given) or os.listdir(given)):
        text = f"{given} holds something; name a new or an empty directory"
        raise click.BadParameter(text, param_hint="--directory")
    os.makedirs(given, exist_ok=True)
    return os.path.abspath(given)


def _append(store: Store, count: int, steps: list[_Step]) -> dict[Queue, QueueSum]:
    """Put the messages and wait for their dispatch; return sums of what was put, by queue."""
    from reput_tools.cli.command.demo import orders as demoorders

    sums: dict[Queue, QueueSum] = {}
    first = store.log.max_physical_offset
    putting = readable = 0.0
    with ProgressBar("making and appending", count) as progress:
        # Orders are made before the clock starts: only the store is measured.
        for chunks in demoorders.orders(count, _CHUNK, _GROUP):
            started = time.perf_counter()
            for messages in chunks:
                store.put_many(messages)
                progress.advance(len(messages))
            putting += time.perf_counter() - started
            store.wait_dispatched()
            readable += time.perf_counter() - started
            for messages in chunks:
                demoorders.add_to_sums(sums, messages)
    size = store.log.max_physical_offset - first
    steps.append(_Step("append", putting, count, size))
    steps.append(_Step("append to readable", readable, count, size))
    return sums


def _silent(text: str) -> None:
    """Print nothing: the output is for a program."""


# --------------------------------------------------------------------------- printing


def _document(root: str, steps: list[_Step], checks: list[Check], *, right: bool) -> dict[str, Any]:
    return {
        "directory": root,
        "right": right,
        "steps": [
            {
                "step": step.name,
                "seconds": round(step.seconds, 6),
                "message_count": step.message_count,
                "size": step.size,
            }
            for step in steps
        ],
        "checks": [
            {
                "check": each.what,
                "expected": each.expected,
                "found": each.found,
                "right": each.right,
            }
            for each in checks
        ],
    }


def _print_content(store: Store) -> None:
    from reput_tools.cli.messages.topicfacts import print_topics, topics_of

    log = store.log
    size = format_size(log.max_physical_offset - log.min_physical_offset)
    files = f"{format_count(log.file_count, 'file')} of {format_size(log.file_size)}"
    print_heading(f"What it holds: {size} of log in {files}")
    print_topics(topics_of(store.queues()), show_queues=False)


def _print_steps(steps: list[_Step]) -> None:
    print_heading("Rates")
    columns = [
        Column("STEP"),
        Column("TIME", right=True),
        Column("MESSAGES", right=True),
        Column("SIZE", right=True),
        Column("RATE", right=True),
    ]
    rows = [
        (
            step.name,
            format_duration(step.seconds),
            format_count(step.message_count) if step.message_count else "-",
            format_size(step.size) if step.size else "-",
            format_rate(step.message_count, step.seconds),
        )
        for step in steps
    ]
    print_table(columns, rows)


def _print_checks(checks: list[Check]) -> None:
    print_heading("Checks")
    for each in checks:
        mark = styled("right", fg="green") if each.right else styled("WRONG", fg="red", bold=True)
        found = format_count(each.found)
        if not each.right:
            found += f" of {format_count(each.expected)}"
        click.echo(f"  {mark}  {found} {each.what}")


def _why_browse() -> str:
    if importlib.util.find_spec("reput_web") is None:
        return f"in a browser, after: {install_command('web')}"
    return "in a browser, at http://127.0.0.1:8787/"


def _print_next(root: str, msg_id: str) -> None:
    print_heading("What to try next")
    reput = program()
    place = shlex.quote(root)
    for command, why in (
        (f"browse {place}", _why_browse()),
        (f"info {place}", "log, plugins, topics"),
        (f"cat {place} orders --count 3", "the oldest orders; try --json, too"),
        (f"get {place} {msg_id}", "one message, every field"),
        (
            f"cat {place} payments --from latest --follow",
            "waits for messages; meanwhile, elsewhere:",
        ),
        (f"put {place} payments --tag hello", "each line that you type becomes one"),
        ("plugins", "the installed plugins, with their options"),
    ):
        click.echo(f"  {styled('# ' + why, dim=True)}\n  {reput} {command}")
    click.echo(f"  {styled('# when you have seen enough', dim=True)}\n  rm -r {place}")
