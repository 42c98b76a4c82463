"""Opens what is left of a mixed store, brings it to rest, and has it judged on the way."""

from __future__ import annotations

import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import mixedplan as plan
from mixedjudge import Judge, Violation
from mixedreader import Reader

import reput
from reput.errors import StoreNotFoundError
from reput_testing import ManualClock, QuickDisk
from reput_tools.offline import rebuild

REST_MS = 20_000
"""Time in which everything comes that waits."""
_STEPS = 3_000
_HANG_SECONDS = 60.0


def check_back(half: Any) -> str:
    """What became of a transaction, as its id says."""
    return plan.kind_of(plan.id_of(half.body))


def look_as_reader(root: Path, judge: Judge) -> None:
    """Open the store as a reader does; what is in its log is known from then on.

    Args:
        root: the store, which nobody writes.
        judge: knows what was in it before.
    """
    try:
        with reput.open(root, "r", disk=QuickDisk(), threads=False) as store:
            judge.take(store)
            if "schedule" in store.plugin_objects and not judge.is_blind:
                judge.check_anything_scheduled(store)
            judge.check_sums(store, is_whole=False)
            lines: list[dict[str, Any]] = []
            reader = Reader(
                random.Random(judge.end),
                lambda event, **facts: lines.append({"event": event, **facts}),
            )
            reader.look(store)
            judge.check_reader(lines)
    except StoreNotFoundError:
        if judge.records:
            raise


def bring_to_rest(
    root: Path,
    judge: Judge,
    sections: Mapping[str, Mapping[str, Any]],
    now: int,
    chance: random.Random,
    *,
    compares: bool,
) -> None:
    """Open the store for writing, let all the time pass that anything waits for, and close it.

    Args:
        root: the store.
        judge: knows what is in its log; afterwards, what came of it.
        sections: the store's configuration.
        now: the clock at the opening, ms.
        chance: chooses what is asked for.
        compares: whether the derived files are compared with those of a rebuild.
    """
    plugins = plan.plugins_of(sections)
    calm = {name: dict(options) for name, options in sections.items()}
    calm["commitlog"]["flush"] = "async"
    calm["compaction"]["interval_ms"] = 5_000
    clock = ManualClock(now)
    with reput.open(
        root, plugins=plugins, config=calm, disk=QuickDisk(), clock=clock, threads=False
    ) as store:
        plan.resume_all(store)
        known = len(judge.records)
        judge.take(store)
        if len(judge.records) != known:
            raise Violation(f"a reader found {known} records, a writer {len(judge.records)}")
        assert store.wait_dispatched(_HANG_SECONDS)
        judge.check_states(store)
        if judge.is_blind:
            return
        judge.check_queues(store)
        judge.check_scheduled(store, now)
        _pass_time(store, clock)
        judge.take(store)
        judge.check_states(store)
        judge.check_queues(store)
        judge.check_keys(store, chance.sample(sorted(judge.where), min(8, len(judge.where))))
        judge.check_rest(store)
        judge.check_groups(store)
    with reput.open(root, "r", disk=QuickDisk(), threads=False) as store:
        if not store.clean:
            raise Violation("it was closed, and is not clean")
        judge.take(store)
        judge.check_queues(store)
        judge.check_sums(store, is_whole=True)
    # Of what was removed from the log, queues keep units that nothing can be built of again.
    if compares and not judge.low:
        for built in rebuild(root, jobs=1, check=True, disk=QuickDisk()):
            if built.differences:
                raise Violation(f"{built.plugin} differs from a rebuild: {built.differences}")


def _pass_time(store: Any, clock: ManualClock) -> None:
    """Let time pass until nothing is due any more."""
    store.plugin("transaction").on_check(check_back)
    end = clock.now + REST_MS
    for _ in range(_STEPS):
        due = store.work()
        if due is None or due > end:
            clock.now = end
            break
        clock.now = max(clock.now, due)
    else:
        raise Violation("the store does not come to rest")
    for _ in range(20):
        store.work()
