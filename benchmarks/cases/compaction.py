"""Compacted topics: copying records out of the log, and compacting them, with memory use."""

from __future__ import annotations

import random
import resource
import threading
import time
from collections.abc import Iterator

from benchmarks.case import BODIES, Case, body_name
from benchmarks.tables import COMPACTION
from benchmarks.trial import Trial

_MESSAGES = 1_000_000
_MANY_KEYS = 10_000_000  # in a full run
_PER_PUT = 20_000
_OFTEN = 5  # messages of one key, on the average
_NEEDS = ("reput", "reput_compaction")


def cases() -> Iterator[Case]:
    """Two sizes of bodies; then ten million keys, in the memory of the default configuration."""
    for body in BODIES:
        yield Case(
            name=f"compaction.{body_name(body)}",
            table=COMPACTION,
            run=compact,
            body_size=body,
            needs=_NEEDS,
        )
    yield Case(
        name="compaction.keys",
        table=COMPACTION,
        run=many_keys,
        body_size=20,
        needs=_NEEDS,
        repeats=False,
    )


def compact(trial: Trial) -> None:
    """Every key about five times, in random order."""
    count = trial.count(_MESSAGES, least=_PER_PUT)
    source = random.Random(7)
    run(trial, [source.randrange(max(count // _OFTEN, 1)) for _ in range(count)], "")


def many_keys(trial: Trial) -> None:
    """As many keys as messages: nothing can be dropped, and all keys must be distinguished."""
    run(trial, range(trial.count(_MANY_KEYS, least=_PER_PUT)), ", all keys different")


def run(trial: Trial, numbers: range | list[int], note: str) -> None:
    """Store messages with these keys, derive the compaction log, compact it."""
    import reput

    config = {"compaction": {"topics": ["keyed"]}}
    trial.warm_up()
    root = trial.directory / "store"
    with reput.open(root, plugins=["compaction"], config=config, threads=False) as store:
        seconds = 0.0
        body, began_cpu = bytes(trial.body_size), 0.0
        with trial.timed(f"reput, append{note}", len(numbers)) as appended:
            for first in range(0, len(numbers), _PER_PUT):
                keys = [f"key-{number:09d}" for number in numbers[first : first + _PER_PUT]]
                store.put_many(
                    reput.Columns(topic="keyed", body=[body] * len(keys), keys=keys, queue_id=0)
                )
                began, used = time.perf_counter(), time.process_time()
                store.wait_dispatched()
                seconds += time.perf_counter() - began
                began_cpu += time.process_time() - used
        # Only dispatching is timed; making and putting messages is measured elsewhere.
        appended.seconds, appended.cpu_seconds = seconds, began_cpu
        appended.size = store.plugin_objects["compaction"].reput_report()["kept_size"]
        store.flush()
        trial.settle()
        label = f"reput, compact{note}"
        with trial.timed(label, len(numbers), appended.size) as measured, _Peak() as peak:
            (result,) = store.plugin("compaction").compact()
        measured.facts["memory for it"] = f"{peak.size / 1e6:,.0f} MB"
        trial.require(result.messages_before == len(numbers), "not everything was compacted")
        trial.require(result.messages_after == len(set(numbers)), "not one message for each key")


class _Peak:
    """The most resident memory that was added, sampled now and then."""

    def __enter__(self) -> _Peak:
        self.size = 0
        self._before = _resident()
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._done.wait(0.01):
            self.size = max(self.size, _resident() - self._before)


def _resident() -> int:
    with open("/proc/self/statm", "rb") as file:
        return int(file.read().split()[1]) * resource.getpagesize()
