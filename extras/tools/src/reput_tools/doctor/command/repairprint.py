"""Prints the plan of a repair, and what a repair has done."""

from __future__ import annotations

import os
import shlex
from typing import TYPE_CHECKING

import attrs
import click

from reput_tools.cli.kit import (
    Column,
    escape_text,
    format_count,
    format_size,
    print_facts,
    print_heading,
    print_table,
    print_text,
)
from reput_tools.doctor.repair.lostandfound import DIRECTORY
from reput_tools.doctor.verdict import places_lost

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from reput_tools.doctor.repair.loglayout import Notice
    from reput_tools.doctor.repair.lostandfound import Doubt
    from reput_tools.doctor.repair.lostmessages import LostPart
    from reput_tools.doctor.repair.repairplan import RepairPlan
    from reput_tools.doctor.repair.repairrun import Repaired
    from reput_tools.offline import Difference


def print_plan(
    plan: RepairPlan,
    differences: Sequence[Difference],
    doubts: Sequence[Doubt],
    needed: int,
    *,
    limit: int,
) -> None:
    """Print what a repair would do.

    Args:
        plan: the repair.
        differences: derived files that it would rebuild because they are wrong.
        doubts: those of them of which nothing says whether the log or the file is wrong.
        needed: bytes that it needs.
        limit: lines of each list.
    """
    _print_store(plan)
    _print_lists(plan, limit)
    if differences:
        _print_differences("Rebuilt, as these files do not follow from the log", differences, limit)
    elif plan.is_needed and plan.plugins.plugins:
        print_heading("Rebuilt")
        print_facts([(name, "all files") for name in plan.plugins.plugins])
    if doubts:
        _print_doubts(doubts, limit)
        print_text("A repair follows the log, and keeps the old files.")
    click.echo()
    if not plan.is_needed and not differences:
        print_text(_nothing_to_do(plan))
        print_text(plan.not_covered)
        return
    print_text(
        f"Nothing was changed. {_summary(plan, doubts=len(doubts))} A repair needs "
        f"{format_size(needed)} at most; then:"
    )
    click.echo(f"  reput repair {shlex.quote(plan.root)} NEW_DIRECTORY")
    print_text(plan.not_covered)


def print_repaired(done: Repaired, *, limit: int) -> None:
    """Print what a repair has done.

    Args:
        done: the repair.
        limit: lines of each list.
    """
    plan = done.plan
    _print_store(plan)
    if done.built is None:
        click.echo()
        print_text(_nothing_to_do(plan), fg="green")
        print_text(plan.not_covered)
        return
    _print_lists(plan, limit)
    if done.differences:
        _print_differences("Derived files that were damaged", done.differences, limit)
    if done.doubts:
        _print_doubts(done.doubts, limit)
        old = escape_text(done.backup or os.path.join(done.target, DIRECTORY, "derived"))
        click.echo(f"The old files are in {old}; compare both with the producers' data.")
    print_heading("Rebuilt")
    facts = [(each.plugin, f"all files, in {each.seconds:.1f} s") for each in done.built.rebuilt]
    print_facts([*facts, ("checkpoint", "and the other small files beside the log")])
    _print_notices("Look at these", done.built.notices, limit)
    click.echo()
    place = shlex.quote(done.target)
    print_text(f"Done: every checksum of the log of {done.target} matches.", fg="green")
    print_text(_summary(plan, doubts=len(done.doubts)))
    if not done.was_compared and done.built.rebuilt:
        place_of_old = done.backup or plan.root
        print_text(
            f"Derived files follow from the log now. They were not compared with those of "
            f"{place_of_old}, which may say more of what is wrong: keep these until you know."
        )
    if plan.has_losses:
        click.echo(f"reput losses {place} lists what is lost.")
    if done.backup:
        backup = shlex.quote(done.backup)
        click.echo(f"The original bytes are in {escape_text(done.backup)}; to put them back:")
        click.echo(f"  reput repair {place} --undo --backup {backup}")
    else:
        click.echo(f"{escape_text(plan.root)} is as it was; use the new directory in its place.")
    print_text(plan.not_covered)


def _nothing_to_do(plan: RepairPlan) -> str:
    derived = "derived files agree with it"
    if plan.plugins.missing:
        derived = "derived files were not compared, as a plugin is missing"
    return (
        f"Nothing to do: every checksum of the log matches, {derived}, and the files beside it can "
        "be read."
    )


def _print_differences(heading: str, differences: Sequence[Difference], limit: int) -> None:
    print_heading(heading)
    columns = [
        Column("FILE", shrink=True),
        Column("FROM BYTE", right=True),
        Column("WHAT", shrink=True),
    ]
    rows = [
        (each.path, str(each.position), each.found or each.reason) for each in differences[:limit]
    ]
    print_table(columns, rows)
    _more(len(differences), limit)


def _print_store(plan: RepairPlan) -> None:
    found = plan.searched
    print_heading(f"Store {escape_text(plan.root)}", space=False)
    count = format_count(plan.message_count, "valid message")
    files = format_count(len(plan.layout.parts), "file")
    names = ", ".join(plan.plugins.plugins) or "none"
    print_facts(
        [
            ("log", f"{count}, {format_size(plan.size)} in {files}"),
            ("ends at", f"{found.end_offset}" + ("" if plan.was_closed else ", was not closed")),
            ("plugins", names),
        ]
    )


def _summary(plan: RepairPlan, doubts: int = 0) -> str:
    parts = []
    if plan.lost_message_count:
        verb = "is" if plan.lost_message_count == 1 else "are"
        parts.append(f"{format_count(plan.lost_message_count, 'message')} {verb} lost")
    elif plan.has_losses:
        size = sum(part.size for part in (*plan.lost, *plan.cut))
        size += 0 if plan.head is None else plan.head.size
        parts.append(f"{format_size(size)} of the log are lost")
    elif not doubts:
        parts.append("No message is known to be lost")
    if doubts:
        parts.append(
            f"in {format_count(doubts, 'place')} the log and derived files disagree, and all "
            "checksums match, so either may be wrong"
        )
    parts += [places_lost(each.name) for each in plan.lost_config if each.data is None]
    if plan.mends:
        records = len({mend.physical_offset for mend in plan.mends})
        parts.append(f"{format_count(records, 'message')} repaired")
    text = "; ".join(parts)
    return f"{text[:1].upper()}{text[1:]}."


def _print_doubts(doubts: Sequence[Doubt], limit: int) -> None:
    print_heading("In doubt: the log or the derived file is wrong")
    columns = [
        Column("FILE", shrink=True),
        Column("BYTE", right=True),
        Column("MESSAGE", shrink=True),
        Column("FOUND THERE", shrink=True),
        Column("BY THE LOG", shrink=True),
    ]
    rows = [
        (
            each.difference.path,
            str(each.difference.position),
            _message_of(each.difference),
            each.difference.found or each.difference.reason,
            each.difference.expected or "-",
        )
        for each in doubts[:limit]
    ]
    print_table(columns, rows)
    _more(len(doubts), limit)


def _message_of(difference: Difference) -> str:
    """Return the first message that a difference touches, and how many more."""
    if not difference.messages:
        return "?"
    first = difference.messages[0]
    more = (difference.message_count or len(difference.messages)) - 1
    end = f" and {more:,} more" if more > 0 else ""
    at = "" if first.physical_offset is None else f" at {first.physical_offset}"
    return f"{attrs.evolve(first, key=None)}{at}{end}"


def _print_lists(plan: RepairPlan, limit: int) -> None:
    _print_lost(plan, limit)
    if plan.mends:
        print_heading("Repaired")
        columns = [
            Column("OFFSET", right=True),
            Column("FIELD"),
            Column("FOUND", shrink=True),
            Column("IS", shrink=True),
            Column("AS", shrink=True),
        ]
        rows = [
            (
                str(mend.physical_offset),
                mend.field,
                mend.old.hex(),
                mend.new.hex(),
                mend.reason,
            )
            for mend in plan.mends[:limit]
        ]
        print_table(columns, rows)
        _more(len(plan.mends), limit)
    _print_notices("Files", plan.notices, limit)


def _print_lost(plan: RepairPlan, limit: int) -> None:
    rows = [*_lost_rows(plan.lost, "filled"), *_lost_rows(plan.cut, "cut")]
    if plan.head is not None:
        size = format_size(plan.head.size)
        rows.append((str(plan.head.start_offset), size, plan.head.reason, "?", "-", "noted"))
    rows += [
        (
            str(each.start_offset),
            "-",
            each.reason,
            f"{each.topic}/{each.queue_id}@{each.queue_offset}..{each.queue_end_offset}",
            "-",
            "noted",
        )
        for each in plan.gone
    ]
    if not rows:
        return
    print_heading("Lost")
    columns = [
        Column("OFFSET", right=True),
        Column("SIZE", right=True),
        Column("REASON"),
        Column("MESSAGE", shrink=True),
        Column("KEYS", shrink=True),
        Column("IS"),
    ]
    print_table(columns, rows[:limit])
    _more(len(rows), limit)


def _lost_rows(parts: Sequence[LostPart], action: str) -> Iterator[tuple[str, ...]]:
    for part in parts:
        name = "-"
        if part.topic is not None:
            offset = "?" if part.queue_offset is None else part.queue_offset
            name = f"{part.topic}/{part.queue_id}@{offset}"
        elif part.message_count != 1:
            name = "?"
            if part.message_count is not None:
                name = format_count(part.message_count, "message")
        count = len(part.key_hashes)
        keys = part.keys or (format_count(count, "hash", "hashes") if count else "-")
        yield str(part.start_offset), format_size(part.size), part.reason, name, keys, action


def _print_notices(heading: str, notices: Sequence[Notice], limit: int) -> None:
    if not notices:
        return
    print_heading(heading)
    columns = [Column("FILE", shrink=True), Column("WHAT", shrink=True)]
    print_table(columns, [(each.file, each.text) for each in notices[:limit]])
    _more(len(notices), limit)


def _more(count: int, limit: int) -> None:
    if count > limit:
        click.echo(f"{count - limit:,} more; --limit shows more of them, --json all")
