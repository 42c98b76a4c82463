"""Shows where one case spends its time: cProfile of each thread, or samples of lines."""

from __future__ import annotations

import argparse
import collections
import contextlib
import cProfile
import linecache
import pstats
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any

from benchmarks.case import Case, select
from benchmarks.cases import ALL, BESIDE_JAVA
from benchmarks.trial import Trial
from benchmarks.worker import generate_log

_SAMPLE_EVERY = 0.001  # seconds
_BUSY = 0.05  # seconds; threads that worked for less are not shown
_LINE_WIDTH = 90


def main(asked: argparse.Namespace) -> int:
    """Run the case named ``asked.profile`` in this process and print what it did."""
    known = (*ALL, *BESIDE_JAVA)
    cases = [case for case in known if case.name == asked.profile]
    cases = cases or select(known, [asked.profile])
    if len(cases) != 1:
        print(f"{len(cases)} cases match {asked.profile!r}; --list shows them", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory(prefix="reput-profile-", dir=asked.directory) as directory:
        trial = _trial(cases[0], Path(directory), asked)
        with _sampled(asked.top) if asked.lines else _profiled(asked.top):
            cases[0].run(trial)
    for measured in trial.measurements:
        if measured.seconds:
            rate = measured.count / measured.seconds
            print(
                f"{measured.label}: {measured.count:,} {measured.unit} "
                f"in {measured.seconds:.3f} s, {rate:,.0f}/s (slowed down by the profiler)"
            )
    return 0


def _trial(case: Case, directory: Path, asked: argparse.Namespace) -> Trial:
    big_log = None
    if case.big_log:
        big_log = directory / "log"
        size = asked.size or (128 << 20 if asked.quick else 1 << 30)
        generate_log(big_log, case.body_size, size // case.log_part)
    work = directory / "work"
    work.mkdir()
    return Trial(
        directory=work,
        body_size=case.body_size,
        scale=0.1 if asked.quick else 1.0,
        big_log=big_log,
    )


# --------------------------------------------------------------------------- functions


@contextlib.contextmanager
def _profiled(top: int) -> Iterator[None]:
    """Profile this thread and every thread that it starts."""
    profiles: list[tuple[str, cProfile.Profile]] = []
    run = threading.Thread.run

    def profiled_run(self: threading.Thread) -> None:
        with _enabled(self.name, profiles):
            run(self)

    threading.Thread.run = profiled_run  # type: ignore[method-assign]
    try:
        with _enabled("main", profiles):
            yield
    finally:
        threading.Thread.run = run  # type: ignore[method-assign]
    for name, profile in profiles:
        stats = pstats.Stats(profile, stream=sys.stdout)
        if _busy_seconds(stats) >= _BUSY:
            print(f"\n== thread {name}")
            stats.strip_dirs().sort_stats("tottime").print_stats(top)


def _busy_seconds(stats: pstats.Stats) -> float:
    """Return the time in functions other than waiting for a lock."""
    entries: dict[tuple[str, int, str], tuple[Any, ...]] = stats.stats  # type: ignore[attr-defined]
    return float(sum(entry[2] for name, entry in entries.items() if not _waits(name[2])))


def _waits(function: str) -> bool:
    return "'acquire' of" in function


@contextlib.contextmanager
def _enabled(name: str, profiles: list[tuple[str, cProfile.Profile]]) -> Iterator[None]:
    profile = cProfile.Profile()
    try:
        profile.enable()
    except ValueError:  # since 3.12 there is one profiler in a process, and it sees all threads
        yield
        return
    try:
        yield
    finally:
        profile.disable()
        profiles.append((name, profile))


# --------------------------------------------------------------------------- lines


@contextlib.contextmanager
def _sampled(top: int) -> Iterator[None]:
    """Sample once a millisecond the current line of every thread.

    A sample is taken when the interpreter switches threads, so lines that call into C are seen too
    often: compare lines of one thread, and time them before believing the figures.
    """
    counts: dict[str, collections.Counter[tuple[str, int, str]]] = {}
    stop = threading.Event()
    interval = sys.getswitchinterval()
    sampler = threading.Thread(target=_sample, args=(counts, stop), name="sampler", daemon=True)
    sys.setswitchinterval(1e-4)
    sampler.start()
    try:
        yield
    finally:
        stop.set()
        sampler.join()
        sys.setswitchinterval(interval)
    for name, lines in counts.items():
        total = sum(lines.values())
        print(f"\n== thread {name}: {total:,} samples")
        for (path, number, function), count in lines.most_common(top):
            place = f"{Path(path).name}:{number} {function}"
            print(f"{count / total:6.1%}  {place}: {_text(path, number)}")


def _text(path: str, number: int) -> str:
    if path.startswith("<"):  # generated code: linecache may hold no lines of it
        return ""
    return linecache.getline(path, number).strip()[:_LINE_WIDTH]


def _sample(
    counts: dict[str, collections.Counter[tuple[str, int, str]]], stop: threading.Event
) -> None:
    own = threading.get_ident()
    names: dict[int, str] = {}
    while not stop.is_set():
        frames: dict[int, Any] = sys._current_frames()
        for ident, frame in frames.items():
            if ident == own:
                continue
            if ident not in names:
                names = {thread.ident or 0: thread.name for thread in threading.enumerate()}
            place = _place(frame)
            counts.setdefault(names.get(ident, "?"), collections.Counter())[place] += 1
        time.sleep(_SAMPLE_EVERY)


def _place(frame: FrameType) -> tuple[str, int, str]:
    code = frame.f_code
    return code.co_filename, frame.f_lineno or 0, code.co_qualname
