"""A report of a store, and a comparison of a store with a copy of it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator

from benchmarks.case import BODIES, Case, body_name
from benchmarks.tables import DIFF, REPORT
from benchmarks.trial import Trial


def cases() -> Iterator[Case]:
    """The large log, with every checksum; for the comparison a part of it, which is there twice."""
    needs = ("reput", "reput_tools.doctor")
    for body in BODIES:
        name = body_name(body)
        yield Case(
            name=f"doctor.report.{name}",
            table=REPORT,
            run=report,
            body_size=body,
            needs=(*needs, "psutil"),
            big_log=True,
        )
        yield Case(
            name=f"doctor.diff.{name}",
            table=DIFF,
            run=diff,
            body_size=body,
            needs=needs,
            big_log=True,
            log_part=2,
        )


def report(trial: Trial) -> None:
    """One process, and one process per processor; every message of the store is counted."""
    from reput_tools.doctor import make_report

    assert trial.big_log is not None
    trial.warm_up()
    for jobs in dict.fromkeys((1, os.cpu_count() or 1)):
        label = f"reput report, {jobs} process{'' if jobs == 1 else 'es'}"
        with trial.timed(label, 0, baseline=jobs == 1, descendants=jobs > 1) as measured:
            found = make_report(trial.big_log, jobs=jobs)
        measured.count, measured.size = found.message_count, found.size
        in_queues = sum(
            each.max_queue_offset - (each.min_queue_offset or 0)
            for each in found.queues
            if each.max_queue_offset is not None
        )
        trial.require(in_queues == found.message_count > 0, "not every message was counted")
        trial.require(found.damage_count == 0, "damage in a valid log")


def diff(trial: Trial) -> None:
    """The same bytes at the same places: counted are the messages and bytes of one store."""
    from reput_tools.doctor import compare_stores

    assert trial.big_log is not None
    copy = trial.directory / "copy"
    shutil.copytree(trial.big_log, copy)
    trial.warm_up()
    with trial.timed("reput diff, equal stores", 0, baseline=True) as measured:
        found = compare_stores(trial.big_log, copy)
    measured.count = found.equal_count
    measured.size = found.a.log_end - found.a.log_start
    trial.require(found.is_equal and found.equal_count > 0, "a copy that is not equal")
