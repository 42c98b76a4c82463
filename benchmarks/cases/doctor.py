"""The doctor: a store verified as it is, and repaired into a new directory."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.case import BODIES, Case, body_name
from benchmarks.stores import open_large
from benchmarks.tables import REPAIR, VERIFY
from benchmarks.trial import Trial

if TYPE_CHECKING:
    from reput import Store

_PLUGINS = ("consumequeue", "index")
_DAMAGES = 10
_AWAY = b"\xa5" * 16


def cases() -> Iterator[Case]:
    """The large log: sound, by one process and by one for each processor, then damaged."""
    for name, table, run in (("verify", VERIFY, verify), ("repair", REPAIR, repair)):
        for body in BODIES:
            yield Case(
                name=f"doctor.{name}.{body_name(body)}",
                table=table,
                run=run,
                body_size=body,
                needs=(
                    "reput",
                    "reput_tools.doctor",
                    "reput_index",
                    "reput_consumequeue",
                    "psutil",
                ),
                big_log=True,
            )


def verify(trial: Trial) -> None:
    """Log and derived files, which are all in the page cache."""
    from reput_tools.doctor.verification.verifyrun import verify as check

    assert trial.big_log is not None
    trial.warm_up()
    with open_large(trial.big_log, _PLUGINS) as store:
        store.wait_dispatched()
    for jobs in dict.fromkeys((1, os.cpu_count() or 1)):
        label = f"reput verify, {jobs} process" + ("es" if jobs > 1 else "")
        with trial.timed(label, 0, baseline=jobs == 1, descendants=jobs > 1) as measured:
            report = check(trial.big_log, jobs=jobs, scratch=str(trial.directory))
        measured.count, measured.size = report.checked.messages, report.checked.log_bytes
        trial.require(report.is_healthy, f"a valid store has findings: {report.findings}")
        compared = sorted(report.checked.plugins) == list(_PLUGINS)
        trial.require(compared, f"not everything was compared: {report.not_checked}")


def repair(trial: Trial) -> None:
    """Damage bodies all over the log, and repair the store."""
    from reput_tools.doctor.repair.repairrun import repair as mend

    assert trial.big_log is not None
    trial.warm_up()
    with open_large(trial.big_log, _PLUGINS) as store:
        store.wait_dispatched()
        offsets = _some(store)
        size = store.log.file_size
    target = trial.directory / "mended"
    before = [_exchange(trial.big_log, size, offset, _AWAY) for offset in offsets]
    try:
        with trial.timed("reput repair", 0, descendants=True) as measured:
            done = mend(trial.big_log, target)
        measured.count, measured.size = done.plan.searched.message_count, done.plan.size
        lost = len(done.plan.lost)
        trial.require(lost == len(offsets), f"{lost} of {len(offsets)} damages were filled")
    finally:
        # Other cases use the log.
        for offset, data in zip(offsets, before, strict=True):
            _exchange(trial.big_log, size, offset, data)
        shutil.rmtree(target, ignore_errors=True)


def _some(store: Store) -> list[int]:
    """Physical offsets inside of some bodies, spread over the log."""
    found: list[int] = []
    step = None
    for batch in store.scan():
        end = store.log.max_physical_offset
        step = step or max(end // (_DAMAGES + 1), 1)
        if batch.start_offset >= len(found) * step + step and len(found) < _DAMAGES:
            found.append(int(batch.physical_offset[0]) + 96)
    return found


def _exchange(root: Path, file_size: int, offset: int, data: bytes) -> bytes:
    """Write bytes of the log; return the old ones."""
    base = offset - offset % file_size
    with open(root / "commitlog" / f"{base:020d}", "r+b") as file:
        file.seek(offset - base)
        before = file.read(len(data))
        file.seek(offset - base)
        file.write(data)
    return before
