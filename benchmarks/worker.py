"""The child process: runs one case, or generates the large log, and writes down the result."""

from __future__ import annotations

import importlib.util
import json
import resource
import sys
from pathlib import Path
from typing import Any

import attrs

from benchmarks.stores import open_large
from benchmarks.trial import Trial
from benchmarks.workload import BATCH, Workload


def main(order: str) -> int:
    """Do what ``order`` (JSON of `benchmarks.runner.Order`) says; write the result to its file."""
    from benchmarks.cases import by_name

    asked = json.loads(order)
    if asked["log"] is not None:
        result: dict[str, Any] = generate_log(Path(asked["log"]), asked["body_size"], asked["size"])
    else:
        case = by_name(asked["case"])
        missing = missing_modules(case.needs)
        if missing:
            result = {"skipped": f"{', '.join(missing)} not installed"}
        else:
            trial = make_trial(asked)
            case.run(trial)
            result = {"measurements": [attrs.asdict(one) for one in trial.measurements]}
    result["peak_memory"] = peak_memory()
    if "reput.engine" in sys.modules:  # not for the sake of this line: other stores are measured
        from reput.engine import ENGINE

        result["engine"] = str(ENGINE)
    Path(asked["result"]).write_text(json.dumps(result), encoding="utf-8")
    return 0


def make_trial(asked: dict[str, Any]) -> Trial:
    """Return the trial that an order describes, and make its directory."""
    directory = Path(asked["directory"])
    directory.mkdir(parents=True)
    big_log = asked["big_log"]
    return Trial(
        directory=directory,
        body_size=asked["body_size"],
        scale=asked["scale"],
        big_log=None if big_log is None else Path(big_log),
    )


def generate_log(path: Path, body_size: int, size: int) -> dict[str, Any]:
    """Fill the store ``path`` with at least ``size`` bytes of records, and dispatch them."""
    work = Workload(body_size)
    number = 0
    with open_large(path) as store:
        while store.log.max_physical_offset < size:
            store.put_many(work.columns(number, BATCH))
            number += BATCH
        store.wait_dispatched()
        return {"count": number, "size": store.log.max_physical_offset}


def missing_modules(names: tuple[str, ...]) -> list[str]:
    """Return which of ``names`` cannot be imported."""
    return [name for name in names if importlib.util.find_spec(name) is None]


def peak_memory() -> int:
    """Return the most bytes of this process that were in memory at once, mapped files included."""
    try:
        # On Linux a child also inherits the peak of its parent, until its own is larger; this line
        # has only its own.
        status = Path("/proc/self/status").read_text(encoding="ascii", errors="replace")
        line = next(line for line in status.splitlines() if line.startswith("VmHWM:"))
        return int(line.split()[1]) * 1024
    except (OSError, StopIteration):
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak if sys.platform == "darwin" else peak * 1024
