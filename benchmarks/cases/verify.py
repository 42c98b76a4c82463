"""A store verified: every record, and queues and index compared with what follows from them."""

from __future__ import annotations

import os
from collections.abc import Iterator

from benchmarks.case import BODIES, Case, body_name
from benchmarks.stores import open_large
from benchmarks.tables import VERIFY
from benchmarks.trial import Trial

__all__ = ["cases"]

_PLUGINS = ("consumequeue", "index")


def cases() -> Iterator[Case]:
    """The large log, by one process and by one for each processor."""
    for body in BODIES:
        yield Case(
            name=f"doctor.verify.{body_name(body)}",
            table=VERIFY,
            run=verify,
            body_size=body,
            needs=("reput", "reput_doctor", "reput_index", "reput_consumequeue", "psutil"),
            big_log=True,
        )


def verify(trial: Trial) -> None:
    """Log and derived files, which are all in the page cache."""
    from reput_doctor.verifying.verify import verify as check

    assert trial.big_log is not None
    trial.warm_up()
    with open_large(trial.big_log, _PLUGINS) as store:
        store.wait_dispatched()
    for jobs in dict.fromkeys((1, os.cpu_count() or 1)):
        label = f"reput verify, {jobs} process" + ("es" if jobs > 1 else "")
        with trial.timed(label, 0, baseline=jobs == 1, descendants=jobs > 1) as measured:
            report = check(trial.big_log, jobs=jobs, scratch=str(trial.directory))
        measured.count, measured.size = report.checked.messages, report.checked.log_bytes
        trial.require(report.is_healthy, f"a sound store has findings: {report.counts}")
        compared = sorted(report.checked.plugins) == list(_PLUGINS)
        trial.require(compared, f"not everything was compared: {report.not_checked}")
