"""``reput clean``: removes the oldest files of a store's log, or says which would go."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from reput_tools.cli.kit import (
    STORE_KEYS,
    json_option,
    open_to_read,
    open_to_write,
    path_argument,
    read_duration,
    read_size,
    with_debug,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from reput import Store
    from reput_retention import ExpiryReport, RetentionConfig

_EXAMPLES = """\b
Examples:
  reput clean STORE --dry-run
  reput clean STORE --reserved 72h
  reput clean STORE --max-bytes 10GB --yes
"""
_SHOWN = {"age": "older than is kept", "size": "more than is kept", "space": "the disk is full"}
_JSON = {
    **STORE_KEYS,
    "is_dry_run": "whether nothing was removed because of `--dry-run`, or because nothing is to go",
    "min_physical_offset": "where the log begins",
    "files[].base_offset": "a file of the log: its first byte",
    "files[].size": "its bytes",
    "files[].last_timestamp": "when its last message was stored",
    "files[].reason": "`age`, `size` or `space`",
    "files[].action": "`goes`, `removed`, or `held` because it is still needed",
    "size": "bytes of the files to remove, or removed",
    "held_size": "bytes of the files that are held back",
    "holds[].physical_offset": "the log is needed from here on",
    "holds[].plugin": "the plugin that needs it; empty for the log itself",
    "holds[].reason": "why, for people",
    "untold[]": "plugins that remove their entries later",
}


@click.command(short_help="Remove the oldest log files.", epilog=_EXAMPLES)
@path_argument
@click.option(
    "--dry-run",
    is_flag=True,
    help="Only show which files would be removed; change nothing.",
)
@click.option(
    "--reserved",
    callback=read_duration,
    metavar="AGE",
    help="Keep messages that are younger than this (72h, 14d).",
)
@click.option(
    "--max-bytes",
    callback=read_size,
    metavar="SIZE",
    help="Keep the newest files, up to this total size (10GB).",
)
@click.option(
    "--unseen",
    type=click.Choice(["keep", "drop"]),
    help="Keep or drop messages that a stopped plugin has not seen.",
)
@click.option("-y", "--yes", is_flag=True, help="Do not ask before files are removed.")
@json_option("one document", _JSON)
@with_debug
def clean(
    path: str,
    dry_run: bool,
    reserved: int | None,
    max_bytes: int | None,
    unseen: str | None,
    yes: bool,
    as_json: bool,
) -> None:
    r"""Remove the oldest files of the log at PATH, and what plugins derived from them.

    The defaults of the options come from the store's configuration (section retention). The command
    removes only whole files. It keeps the last file, and files that a plugin has not seen or still
    needs; the output lists these files with the plugins. The command works on any store, also if
    the store does not use the plugin. It asks first; if nobody can answer, as in a script, it needs
    --yes. If another process writes the store, that process removes old files itself, and the
    command ends with code 4; --dry-run still works.
    """
    from reput_retention import expire_log
    from reput_tools.cli.kit import print_json

    given = {"reserved_ms": reserved, "max_bytes": max_bytes, "unseen": unseen}
    changes = {name: value for name, value in given.items() if value is not None}
    with open_to_read(path) as store:
        root, problems = store.root, list(store.problems)
        config = _config(store, changes, may_keep_all=dry_run and bool(problems))
        report = expire_log(store, dry_run=True, config=config)
    if not dry_run and report.plan.removals:
        _check_nobody_writes(root)
        if not yes:
            _ask(report, as_json=as_json)
        with open_to_write(path) as store:
            store.wait_dispatched()  # else messages not dispatched yet would hold files back
            report = expire_log(store, config=config)
    if as_json:
        print_json(_document(root, report) | {"problems": problems})
    else:
        _print(report)


def _config(store: Store, changes: dict[str, Any], *, may_keep_all: bool) -> RetentionConfig:
    """Return the rules to apply; a damaged store may have lost its own, a dry run needs none."""
    import attrs

    from reput_retention import RetentionConfig

    plugin: Any = store.plugin_objects.get("retention")
    kept = RetentionConfig() if plugin is None else plugin.config
    config: RetentionConfig = attrs.evolve(kept, **changes)
    if not (config.reserved_ms or config.max_bytes or config.disk_warn_ratio or may_keep_all):
        raise click.UsageError(
            "no option says which files to remove: give --reserved or --max-bytes, or configure "
            "the store (section retention)"
        )
    return config


def _check_nobody_writes(root: str) -> None:
    from reput_tools.cli.kit import ExitCode, Failure, is_written

    if is_written(root):
        text = (
            f"{root}: another process writes the store; it removes old files by itself when it is "
            "opened with a section retention. Nothing was removed (--dry-run works meanwhile)"
        )
        raise Failure(text, ExitCode.LOCKED)


def _ask(report: ExpiryReport, *, as_json: bool) -> None:
    from reput_tools.cli.kit import confirm, format_count, format_size

    if not as_json:
        _print(report)
    files = format_count(len(report.plan.removals), "file")
    confirm(f"Remove {files}, {format_size(report.plan.freed_size)}?")


# --------------------------------------------------------------------------- what is shown


def _document(root: str, report: ExpiryReport) -> dict[str, Any]:
    import attrs

    plan = report.plan
    going = report.plan.removals if report.is_dry_run else report.removed
    return {
        "path": root,
        "is_dry_run": report.is_dry_run,
        "min_physical_offset": report.min_physical_offset,
        "files": [
            {**attrs.asdict(each), "action": action}
            for action, files in [
                ("goes" if report.is_dry_run else "removed", going),
                ("held", plan.held),
            ]
            for each in files
        ],
        "size": sum(each.size for each in going),
        "held_size": plan.held_size,
        "holds": [attrs.asdict(hold) for hold in plan.holds],
        "untold": list(report.not_notified),
    }


def _print(report: ExpiryReport) -> None:
    from reput_tools.cli.kit import format_count, format_size, warn

    plan = report.plan
    going = plan.removals if report.is_dry_run else report.removed
    if going or plan.held:
        _print_files(report)
        click.echo()
    else:
        click.echo("Nothing is to go.")
    if going:
        verb = "would go" if report.is_dry_run else "removed"
        size = format_size(sum(each.size for each in going))
        end = going[-1].end_offset
        click.echo(f"{format_count(len(going), 'file')}, {size} {verb}; the log begins at {end}")
    if plan.held:
        size = format_size(plan.held_size)
        click.echo(f"{format_count(len(plan.held), 'file')}, {size} kept beyond that:")
        for line in _holding(report):
            click.echo(f"  {line}")
    for name in report.not_notified:
        warn(f"plugin {name!r} was not told yet; that is made up for when it runs")


def _holding(report: ExpiryReport) -> Iterator[str]:
    for hold in report.plan.holds:
        who = f"plugin {hold.plugin!r}: " if hold.plugin else ""
        yield f"{who}{hold.reason} {hold.physical_offset}"


def _print_files(report: ExpiryReport) -> None:
    from reput.files import file_name
    from reput_tools.cli.kit import Column, format_size, format_timestamp, print_table

    plan = report.plan
    columns = [
        Column("FILE"),
        Column("SIZE", right=True),
        Column("LAST STORED (UTC)", shrink=True),
        Column("WHY", shrink=True),
        Column("", shrink=True),
    ]
    going = plan.removals if report.is_dry_run else report.removed
    action = "goes" if report.is_dry_run else "removed"
    rows = [
        (
            file_name(each.base_offset),
            format_size(each.size),
            format_timestamp(each.last_timestamp).partition(".")[0],
            _SHOWN[each.reason],
            what,
        )
        for what, files in [(action, going), ("held", plan.held)]
        for each in files
    ]
    print_table(columns, rows)
