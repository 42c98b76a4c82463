"""A store repaired into a new directory: verified, copied, and everything derived made again."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

from benchmarks.case import BODIES, Case, body_name
from benchmarks.stores import open_large
from benchmarks.tables import REPAIR
from benchmarks.trial import Trial

__all__ = ["cases"]

_PLUGINS = ("consumequeue", "index")
_DAMAGES = 10
_AWAY = b"\xa5" * 16


def cases() -> Iterator[Case]:
    """The large log, with a few damaged records."""
    for body in BODIES:
        yield Case(
            name=f"doctor.repair.{body_name(body)}",
            table=REPAIR,
            run=repair,
            body_size=body,
            needs=("reput", "reput_doctor", "reput_index", "reput_consumequeue", "psutil"),
            big_log=True,
        )


def repair(trial: Trial) -> None:
    """Damage bodies all over the log, and repair the store."""
    from reput_doctor.repairing.repair import repair as mend

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


def _some(store: object) -> list[int]:
    """Physical offsets inside of some bodies, spread over the log."""
    found: list[int] = []
    step = None
    for batch in store.scan():  # type: ignore[attr-defined]
        end = store.log.max_physical_offset  # type: ignore[attr-defined]
        step = step or max(end // (_DAMAGES + 1), 1)
        if batch.start_offset >= len(found) * step + step and len(found) < _DAMAGES:
            found.append(int(batch.physical_offset[0]) + 96)
    return found


def _exchange(root: Path, file_size: int, offset: int, data: bytes) -> bytes:
    """Write bytes of the log; return those that stood there."""
    base = offset - offset % file_size
    with open(root / "commitlog" / f"{base:020d}", "r+b") as file:
        file.seek(offset - base)
        before = file.read(len(data))
        file.seek(offset - base)
        file.write(data)
    return before
