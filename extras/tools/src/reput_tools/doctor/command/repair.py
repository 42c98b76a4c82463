"""``reput repair``: makes a valid store of a damaged one."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import click

from reput_tools.cli.kit import (
    CheckedPath,
    below,
    follows_links,
    jobs_option,
    json_option,
    path_argument,
    read_size,
    with_debug,
)
from reput_tools.doctor.command.convert import CONVERTED

if TYPE_CHECKING:
    from collections.abc import Sequence

    from reput_tools.doctor.repair.lostandfound import Doubt
    from reput_tools.doctor.repair.repairplan import RepairPlan
    from reput_tools.doctor.repair.repairrun import Repaired
    from reput_tools.offline import Difference

_EXAMPLES = """\b
Examples:
  reput repair STORE REPAIRED --dry-run
  reput repair STORE REPAIRED
  reput repair STORE --in-place --backup /backups/store
  reput repair STORE --undo --backup /backups/store
"""
_LOST = {
    "start_offset": "where a lost part of the log begins",
    "end_offset": "where it ends",
    "size": "bytes",
    "reason": "the kind of damage, a short name",
    "detail": "the values found and expected, for people",
    "topic": "topic of the message; null if not known, as are the next two",
    "queue_id": "its queue",
    "queue_offset": "its place in the queue",
    "keys[]": "its keys, as far as known",
    "key_hashes[]": "hashes of its keys, if only the key index has them",
    "store_timestamp": "when it was stored, from the key index; null if not known",
    "time_before": "store time of the message before it",
    "message_count": "messages that are lost; null if not known",
    "action": "`filled` or `cut`",
}
_PLAN = {
    "path": "the store's directory",
    "is_needed": "whether the store needs a repair",
    "was_closed": "whether its last writer has closed it",
    "log.start_offset": "where the log begins",
    "log.end_offset": "where it ends",
    "log.file_size": "bytes of one file",
    "log.message_count": "its messages",
    "lost_message_count": "messages that are lost; null if not known",
    **below("lost[]", _LOST),
    "gone[]": "messages after the end of the log, to which a queue refers: `topic`, `queue_id`, "
    "`queue_offset`, `queue_end_offset`",
    "head": "the missing beginning of the log: `start_offset`, `end_offset`; null if it is there",
    "mended[].physical_offset": "a record in which one field is repaired",
    "mended[].size": "bytes of the record",
    "mended[].field": "the field",
    "mended[].position": "byte of the record",
    "mended[].old": "its bytes before, in hex",
    "mended[].new": "its bytes after, in hex",
    "mended[].reason": "how the value is known",
    "files[].file": "a file that is changed, left out or taken from elsewhere",
    "files[].kind": "a stable name such as `log-file.renamed`",
    "files[].text": "the problem, and what the repair does about it",
    "not_covered": "the bytes that no checksum covers, as a sentence",
    "plugins[]": "plugins whose files are rebuilt",
    "plugins_missing": "an object with the plugins that cannot be used, and why",
}
_DOUBTS = (
    "places where old files of plugins contradict the log: `plugin`, `path`, `position`, `found`, "
    "`expected`, and `messages`, the first of the messages that this touches"
)
_DONE = {
    "is_repaired": "whether a store was built",
    "target": "directory of the repaired store",
    "backup": "directory of the backup; null for a copy",
    "differences[]": "derived files that differ from those of the damaged store: `path`, "
    "`position`, `reason`",
    "doubts[]": _DOUBTS,
    "was_compared": "whether the old derived files were compared",
    "rebuilt[].plugin": "a plugin whose files were rebuilt",
    "rebuilt[].message_count": "messages",
    "rebuilt[].seconds": "how long it took",
    "left[]": "files that were not copied: `file`, `kind`, `text`",
}
_FORMS = {
    "With `--dry-run`": _PLAN
    | {
        "needed_size": "bytes of disk that the repair needs",
        "differences[]": "derived files that are rebuilt because they do not follow from the log:"
        " `path`, `position`, `reason`; empty if the repair rebuilds all of them",
        "doubts[]": _DOUBTS,
    },
    "If DLedger keeps the log": CONVERTED,
    "With `--undo`": {
        "path": "the store's directory",
        "size": "bytes that were restored",
        "change_count": "parts of the log that differed and were restored",
        "parts[]": "files and directories beside the log that were restored",
    },
}


@click.command(short_help="Build a valid store from a damaged one.", epilog=_EXAMPLES)
@path_argument
@click.argument("new_directory", required=False, type=CheckedPath(file_okay=False))
@click.option("--dry-run", is_flag=True, help="Only show what the repair would do.")
@click.option(
    "--in-place",
    is_flag=True,
    help="Repair the store in its own directory; --backup keeps the bytes that change.",
)
@click.option(
    "--undo", "undoes", is_flag=True, help="Undo a repair in place, also an unfinished one."
)
@click.option(
    "--backup",
    metavar="DIR",
    type=CheckedPath(file_okay=False),
    help="Where --in-place keeps every byte that it changes; PATH.backup by default.",
)
@click.option(
    "--file-size",
    metavar="SIZE",
    callback=read_size,
    help="The size of a log file, such as 16MiB, if the remaining files do not show it.",
)
@jobs_option("chosen by the size of the log")
@click.option(
    "--limit",
    type=click.IntRange(min=0),
    default=20,
    show_default=True,
    help="The number of lines to print of each list; --json prints all.",
)
@json_option("one document at the end", _PLAN | _DONE, _FORMS)
@with_debug
def repair(
    path: str,
    new_directory: str | None,
    dry_run: bool,
    in_place: bool,
    undoes: bool,
    backup: str | None,
    file_size: int | None,
    jobs: int | None,
    limit: int,
    as_json: bool,
) -> None:
    """Build a valid copy of the damaged store at PATH in NEW_DIRECTORY.

    The command reads and verifies the whole log. It fills damage, so that RocketMQ and reput skip
    it. It records the damage, with topic, queue, queue offset and keys if headers, queues or the
    key index contain them. It rebuilds queues, index and all other derived files, and repairs files
    that are missing, short, duplicated, renamed or from another store. It does not change PATH,
    except with --in-place.

    If DLedger keeps the log, NEW_DIRECTORY becomes a plain store, as by `reput convert`. Entries
    have consecutive numbers, so that damage cannot be filled.

    No process may have the store open for writing. An interrupted repair leaves a directory that
    cannot be opened as a store. Run the same command again, or, after --in-place, use --undo.

    Exit code 0: no message is known to be lost; 7: done, but the log and derived files
    contradict each other, or a file of config/ was left out or comes from its backup; 8: done,
    but messages are lost; with --dry-run also 1: the store needs a repair, and no message is
    known to be lost.
    """
    from reput_tools.doctor.command.verify import quiet

    _check_usage(new_directory, dry_run=dry_run, in_place=in_place, undoes=undoes, backup=backup)
    if new_directory and not dry_run and _has_ledger(path):
        from reput_tools.doctor.command.convert import run_convert

        run_convert(path, new_directory, jobs=jobs, as_json=as_json)
        return
    with quiet():
        if undoes:
            _undo(path, backup, as_json=as_json)
            return
        look = functools.partial(_look, path, file_size or 0, jobs)
        if dry_run:
            plan, differences, doubts = look()
            _show_plan(plan, differences, doubts, in_place=in_place, limit=limit, as_json=as_json)
            return
        done = _run(path, new_directory, in_place, backup, file_size or 0, jobs)
    _show_done(done, limit=limit, as_json=as_json)


def _has_ledger(path: str) -> bool:
    """Whether DLedger keeps the log at ``path``, so that a repair is a conversion."""
    from reput.log import ledger_in
    from reput_tools.offline import inspect_store

    found = inspect_store(path, follow_links=follows_links())
    try:
        return ledger_in(found.root, found.disk) is not None
    except (FileNotFoundError, NotADirectoryError):
        return False  # which the repair names
    finally:
        found.disk.release()


def _check_usage(
    target: str | None, *, dry_run: bool, in_place: bool, undoes: bool, backup: str | None
) -> None:
    if undoes and (target or dry_run or in_place):
        raise click.UsageError("--undo takes PATH and --backup only")
    if in_place and target:
        raise click.UsageError("give NEW_DIRECTORY or --in-place, not both")
    if not (target or in_place or undoes or dry_run):
        text = "NEW_DIRECTORY is missing: name one, or give --in-place to repair PATH itself"
        raise click.UsageError(text)
    if backup and not (in_place or undoes):
        raise click.UsageError("--backup belongs to --in-place and --undo")


def _look(
    path: str, file_size: int, jobs: int | None
) -> tuple[RepairPlan, Sequence[Difference], Sequence[Doubt]]:
    """Return what a repair would do, the derived files that it would build alone, and doubts."""
    from reput_tools.doctor.command.stepprogress import Steps
    from reput_tools.doctor.repair.repairrun import dry_run

    with Steps("") as steps:
        return dry_run(
            path,
            file_size=file_size,
            jobs=jobs,
            follow_links=follows_links(),
            step=steps.step,
        )


def _run(
    path: str,
    target: str | None,
    in_place: bool,
    backup: str | None,
    file_size: int,
    jobs: int | None,
) -> Repaired:
    from reput_tools.doctor.command.stepprogress import Steps
    from reput_tools.doctor.repair.repairrun import repair as run
    from reput_tools.doctor.repair.repairrun import repair_in_place

    with Steps("") as steps:
        options: dict[str, Any] = {
            "file_size": file_size,
            "jobs": jobs,
            "follow_links": follows_links(),
            "step": steps.step,
        }
        if in_place:
            return repair_in_place(path, backup or "", **options)
        assert target is not None
        return run(path, target, **options)


def _undo(path: str, backup: str | None, *, as_json: bool) -> None:
    from reput_tools.cli.kit import (
        escape_text,
        format_count,
        format_size,
        print_facts,
        print_json,
    )
    from reput_tools.doctor.repair.repairrun import undo

    done = undo(path, backup or "", follow_links=follows_links())
    if as_json:
        facts = {"path": done.store, "size": done.size, "change_count": done.change_count}
        print_json(facts | {"parts": list(done.parts)})
        return
    log = "no byte of the log differed"
    if done.change_count:
        count = format_count(done.change_count, "part")
        log = f"{count} of the log, {format_size(done.size)}, put back"
    click.echo(f"{escape_text(done.store)} is as it was before the repair")
    print_facts([("log", log), ("beside it", escape_text(", ".join(done.parts)) or "nothing")])


def _show_plan(
    plan: RepairPlan,
    differences: Sequence[Difference],
    doubts: Sequence[Doubt],
    *,
    in_place: bool,
    limit: int,
    as_json: bool,
) -> None:
    from reput_tools.cli.kit import ExitCode, print_json
    from reput_tools.doctor.command.repairprint import print_plan
    from reput_tools.doctor.findings import Severity
    from reput_tools.doctor.repair.diskspace import needed_space
    from reput_tools.doctor.repair.repairjson import plain_differences, plain_doubts, plan_document

    needed = needed_space(plan, has_log=in_place)
    if as_json:
        facts = plan_document(plan) | {"needed_size": needed}
        facts["is_needed"] = plan.is_needed or bool(differences)
        facts["differences"] = plain_differences(differences)
        print_json(facts | {"doubts": plain_doubts(doubts)})
    else:
        print_plan(plan, differences, doubts, needed, limit=limit)
    if plan.has_losses:
        raise click.exceptions.Exit(Severity.LOSS.exit_code)
    if plan.is_needed or differences:
        raise click.exceptions.Exit(ExitCode.DAMAGED)


def _show_done(done: Repaired, *, limit: int, as_json: bool) -> None:
    from reput_tools.cli.kit import print_json
    from reput_tools.doctor.command.repairprint import print_repaired
    from reput_tools.doctor.findings import Severity
    from reput_tools.doctor.repair.repairjson import repaired_document

    if as_json:
        print_json(repaired_document(done))
    else:
        print_repaired(done, limit=limit)
    plan = done.plan
    if plan.has_losses:
        raise click.exceptions.Exit(Severity.LOSS.exit_code)
    if done.doubts or (plan.lost_config and done.built is not None):
        raise click.exceptions.Exit(Severity.WARNING.exit_code)
