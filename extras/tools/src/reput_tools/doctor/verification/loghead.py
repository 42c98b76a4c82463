"""Checks that a log begins where reput noted that it begins.

Retention of reput writes a note before it removes a file, RocketMQ leaves none. So a log that
begins later than the note says has lost files, if reput was the last to write the store. Otherwise
nobody can know it, and the report says so.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from reput.log import LogHead, Loss, StateFile
from reput_tools.doctor.findings import Findings, NotChecked
from reput_tools.doctor.missinghead import lost_head
from reput_tools.doctor.verification.directorysurvey import missing_files

if TYPE_CHECKING:
    from reput_tools.doctor.verification.directorysurvey import Survey
    from reput_tools.offline import Traces


def check_head(
    surveyed: Survey,
    traces: Traces,
    recorded: Sequence[Loss],
    findings: Findings,
    not_checked: list[NotChecked],
) -> int:
    """Add what is missing before the first file to the gaps of ``surveyed``, and to ``findings``.

    Returns the number of files looked at.

    Args:
        surveyed: the store; files that are lost before its first one are added.
        traces: of the store.
        recorded: losses that the ledger has.
        findings: is added to.
        not_checked: is added to, where nothing says whether files are missing.
    """
    if not surveyed.log_files:
        return 0
    begins = surveyed.log_files[0].base
    head = LogHead(StateFile.of(traces.root, traces.disk))
    if not traces.reput_wrote_last:
        if begins:
            not_checked.append(NotChecked("log", _unknown(begins, head.recorded_offset)))
        return 0
    if head.recorded_offset is None:
        if not begins:
            return 1  # no file can be missing before the first byte
        not_checked.append(NotChecked("log", _no_note(begins)))
        return 1
    loss = lost_head(traces, begins, recorded)
    if loss is None:
        return 1
    surveyed.lost.insert(0, (loss.start_offset, loss.end_offset))
    surveyed.gaps += missing_files(
        loss.start_offset,
        loss.end_offset,
        surveyed.file_size,
        findings,
        kind="log.head-missing",
        found="no file; the log begins after it, and no retention of reput has removed it",
    )
    return 1


def _unknown(begins: int, noted: int | None) -> str:
    text = (
        f"whether files before physical offset {begins} were removed on purpose: "
        "RocketMQ removes old files and leaves no note"
    )
    if noted is None or noted >= begins:
        return text
    return f"{text}; the log began at {noted} when reput last wrote the store"


def _no_note(begins: int) -> str:
    return (
        f"whether files before physical offset {begins} are missing, because reput/state does not "
        "record where the log began"
    )
