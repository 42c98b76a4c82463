"""Runs every case once with minimal work in this process: shows that it works, no figures."""

from __future__ import annotations

import shutil
import tempfile
import traceback
from collections.abc import Sequence
from pathlib import Path

from benchmarks.case import Case
from benchmarks.worker import generate_log, make_trial, missing_modules

_SCALE = 0.0005
_LOG_SIZE = 1 << 20


def smoke(cases: Sequence[Case], directory: Path | None) -> int:
    """Run ``cases``, and print a line for each; return 1 if one failed, else 0."""
    root = Path(tempfile.mkdtemp(prefix="reput-smoke-", dir=directory))
    failed = 0
    try:
        for case in cases:
            missing = missing_modules(case.needs)
            if missing:
                print(f"{case.name}: skipped, {', '.join(missing)} not installed", flush=True)
                continue
            try:
                _run(case, root)
            except Exception:
                traceback.print_exc()
                failed += 1
                print(f"{case.name}: FAILED", flush=True)
            else:
                print(f"{case.name}: ran", flush=True)
            shutil.rmtree(root / "work", ignore_errors=True)
    finally:
        shutil.rmtree(root, ignore_errors=True)
    return 1 if failed else 0


def _run(case: Case, root: Path) -> None:
    log = root / f"log-{case.body_size}" if case.big_log else None
    if log is not None and not log.exists():
        generate_log(log, case.body_size, _LOG_SIZE)
    asked = {
        "directory": str(root / "work"),
        "body_size": case.body_size,
        "scale": _SCALE,
        "big_log": None if log is None else str(log),
    }
    case.run(make_trial(asked))
