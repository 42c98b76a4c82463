"""``reput scrub``: reads a store at a bounded rate, and says what has changed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from reput_tools.cli.kit import (
    CheckedPath,
    ExitCode,
    below,
    json_option,
    path_argument,
    read_duration,
    read_size,
    with_debug,
)

if TYPE_CHECKING:
    from reput_integrity.findings import SumFinding
    from reput_integrity.scrub import Scrubber

_EXAMPLES = """\b
Examples:
  reput scrub STORE
  reput scrub STORE --rate 5MB --every 7d
  reput scrub STORE --rate 0 --restart --json
"""
_JSON = {
    **below(
        "finding",
        {
            "kind": "`record`: the bytes changed since the checksum was made; `missing`: the log "
            "does not have the bytes; `damage`: there is no valid record; `uncovered`: records "
            "have no checksum; `sums`: the file of checksums is damaged",
            "physical_offset": "the first record",
            "size": "bytes of the log",
            "path": "the damaged file",
            "position": "byte of this file",
            "expected": "the value expected",
            "found": "the value found",
            "origin": "`written`: the checksum was made when the record was written; `later`: from "
            "what was read then; `unknown`",
            "made": "when the checksum was made, if that was later; otherwise null",
            "topic": "topic of the record; null if unreadable, as are the next three",
            "queue_id": "its queue",
            "queue_offset": "its place in the queue",
            "key": "a key",
        },
    ),
}
_ROUND = below(
    "round",
    {
        "path": "the store's directory",
        "has_sums": "whether the store has checksums of whole records",
        "position": "where the next round begins",
        "began": "when this round began; null if it has ended",
        "read_size": "bytes that were read",
        "finding_count": "findings of this round",
        "last_began": "when the last round began",
        "last_ended": "when it ended",
        "rounds": "rounds that have ended",
    },
)


@click.command(
    short_help="Read a store slowly and compare it with its checksums.", epilog=_EXAMPLES
)
@path_argument
@click.option(
    "--rate",
    default="20MB",
    show_default=True,
    callback=read_size,
    help="Bytes of the log to read in a second, at most; 0 for as fast as possible.",
)
@click.option("--once", is_flag=True, help="End after the whole log (the default).")
@click.option(
    "--every",
    metavar="TIME",
    callback=read_duration,
    help="Repeat for ever, and start each round this long after the start of the last one, for "
    "example 7d.",
)
@click.option(
    "--restart",
    is_flag=True,
    help="Start at the beginning of the log, even if an earlier scrub was interrupted.",
)
@click.option(
    "--state",
    metavar="FILE",
    type=CheckedPath(dir_okay=False),
    help="File in which the command records its place. Default: reput/scrub in the store.",
)
@json_option(
    "one object a line for each finding and each round",
    forms={"A finding": _JSON, "The end of a round": _ROUND},
)
@with_debug
def scrub(
    path: str,
    rate: int,
    once: bool,
    every: int | None,
    restart: bool,
    state: str | None,
    as_json: bool,
) -> None:
    """Read the whole log at PATH, slowly, and report bytes that have changed.

    The command compares bodies with RocketMQ's checksums and, if the store uses the plugin
    "integrity", whole records with their sums. Another process may write the store meanwhile. The
    pages that the command reads do not stay in memory, and disks that support priorities serve
    other processes first. An interrupted scrub continues where it ended.

    The exit code is 1 if it finds damage, and 4 while another scrub of the store runs. A finding of
    the kind `uncovered` or `sums` is not damage of messages: only their checksums are missing. The
    command does not report known losses, which `reput losses` lists.
    """
    from reput.errors import StoreLockedError
    from reput_integrity.scrub import Scrubber
    from reput_tools.cli.kit import Failure, check_store, follows_links

    if once and every is not None:
        raise click.UsageError("--once and --every exclude each other; leave one out")
    check_store(path)
    _step_back()
    try:
        scrubber = Scrubber(path, rate, state=state or "", follow_links=follows_links())
    except StoreLockedError:
        text = f"{path}: another scrub of this store is running; let it end, or end it first"
        raise Failure(text, ExitCode.LOCKED) from None
    with scrubber:
        if restart:
            scrubber.restart()
        damaged = _rounds(scrubber, every, as_json=as_json)
    if damaged:
        raise click.exceptions.Exit(ExitCode.DAMAGED)


def _rounds(scrubber: Scrubber, every: int | None, *, as_json: bool) -> bool:
    """Run one round, or one after the other; return whether the last one has found damage."""
    import time

    from reput.files import system_clock
    from reput_tools.cli.kit import warn

    begin, end = scrubber.extent  # opens the store: an error here is the only output
    if not scrubber.remembers:
        warn(
            "the place is not remembered, as reput never wrote this store, or cannot write it; "
            "--state names a file"
        )
    if not scrubber.has_sums:
        warn(
            "the store has no sums of whole records, so only bodies are checked; "
            f"reput backfill {scrubber.root} integrity creates them"
        )
    while True:
        is_damaged = _round(scrubber, end - begin, as_json=as_json)
        if every is None:
            return is_damaged
        while (wait := scrubber.due(every) - system_clock()) > 0:
            time.sleep(min(wait / 1_000, 3_600))  # in between, the clock may be set


def _round(scrubber: Scrubber, size: int, *, as_json: bool) -> bool:
    from reput_tools.cli.kit import ProgressBar, format_count, format_duration, format_size

    is_damaged = any(each.is_damage for each in scrubber.state.findings)
    resumed = scrubber.state.position if scrubber.state.began is not None else 0

    def show(finding: SumFinding) -> None:
        nonlocal is_damaged
        is_damaged |= finding.is_damage
        _line({"finding": finding.to_json()}) if as_json else _tell(finding)

    with ProgressBar("scrubbing", size, "bytes") as bar:
        state = scrubber.run(found=show, progress=bar.update)
        seconds = bar.seconds
    if as_json:
        document = state.to_json()
        del document["findings"]
        _line({"round": document | {"path": scrubber.root, "has_sums": scrubber.has_sums}})
        return is_damaged
    where = f", begun at {resumed:,} where the last one ended" if resumed else ""
    read = f"{format_size(state.read_size)} read in {format_duration(seconds)}{where}"
    if not state.finding_count:
        click.echo(f"No damage found: {read}")
    else:
        click.echo(f"{format_count(state.finding_count, 'finding')}: {read}")
        click.echo(
            f"What to do: `reput verify {scrubber.root}` shows what is touched; restore the files "
            "named above from a copy, or let `reput repair` leave out what is lost"
        )
    return is_damaged


def _tell(finding: SumFinding) -> None:
    from reput_tools.cli.kit import escape_text, format_timestamp

    later = ""
    if finding.origin == "later" and finding.made is not None:
        later = f"; its sum was made later, {format_timestamp(finding.made)}"
    click.echo(escape_text(f"{finding}{later}"))


def _line(document: dict[str, Any]) -> None:
    from reput_tools.cli.kit import json_line

    click.echo(json_line(document), nl=False)


def _step_back() -> None:
    """Have the disk serve other processes first, where psutil is installed and knows how."""
    try:
        import psutil
    except ImportError:
        return
    try:
        psutil.Process().ionice(psutil.IOPRIO_CLASS_IDLE)
    except (AttributeError, psutil.Error, OSError):
        pass  # another system, or not allowed
