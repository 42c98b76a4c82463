"""The work that reput and RocketMQ's store both do, with the same messages, and as many."""

from __future__ import annotations

from functools import partial

import attrs

from benchmarks.case import BODIES, Case, body_name
from benchmarks.java import cases
from benchmarks.stores import QUEUES
from benchmarks.tables import BESIDE_JAVA
from benchmarks.workload import BATCH

SMALL_PART = 4
"""By what the size of the large log is divided for the small one."""
_PLUGINS = ("reput_consumequeue", "reput_index", "reput_schedule")
_PUT_COUNT = {100: 1_000_000, 1024: 400_000}
_MANY_COUNT = 2_000_000
_SYNC_COUNT = {16: 16_000, 64: 24_000, 1_000: 100_000}
_MANY_THREADS = 1_000
_READ_COUNT = 400_000
_KILLED_COUNT = 200_000
_IDLE_COUNT = 10_000
_IDLE_SECONDS = 5.0
STEPS = (32, 1024)
"""Messages asked for in one read."""


@attrs.frozen(kw_only=True)
class Job:
    """One piece of work, done by each store in a turn of its own."""

    name: str
    case: Case
    """reput's side."""
    order: tuple[str, ...]
    """Java's side: what `Work.java` is told, without directory and count."""
    count: int = 0
    """Messages of a full run; 0 for those of the large log."""
    multiple: int = 1
    """What the number of messages is a multiple of."""
    warm_ups: int = 2
    """Stores in which a new JVM does it twice, unmeasured, before it is measured."""
    after_kill: bool = False
    """Whether a Java process fills the store before, and dies."""

    def messages(self, scale: float) -> int:
        """Return how many messages there are, as `Trial.count` does on reput's side."""
        return max(int(self.count // self.multiple * scale), 1) * self.multiple


def _job(name: str, run: partial[None], *order: str, body: int = 100, **rest: object) -> Job:
    of_case = {key: rest.pop(key) for key in ("big_log", "log_part", "repeats") if key in rest}
    of_name = {"arrow": ("reput_arrow",), "aio": ("reput_aio",)}
    needs = ("reput", *_PLUGINS, *of_name.get(name.rpartition(".")[2], ()))
    case = Case(
        name=f"java.{name}",
        table=BESIDE_JAVA,
        run=run,
        body_size=body,
        needs=needs,
        **of_case,  # type: ignore[arg-type]
    )
    return Job(name=name, case=case, order=order, **rest)  # type: ignore[arg-type]


def _puts() -> list[Job]:
    found = []
    for body, count in _PUT_COUNT.items():
        run = partial(cases.put_one, full=count)
        order = ("put", "--index", "--body", str(body))
        found.append(
            _job(f"put.{body_name(body)}", run, *order, body=body, count=count, warm_ups=3)
        )
    for form in ("list", "columns", "arrow"):
        run = partial(cases.put_many, full=_MANY_COUNT, form=form)
        order = ("batch", "--index", "--body", "100", "--batch-size", str(BATCH))
        name = f"put-many.100B.{form}"
        found.append(_job(name, run, *order, count=_MANY_COUNT, multiple=BATCH, warm_ups=3))
    return found


def _derivations() -> list[Job]:
    found = []
    for body in BODIES:
        for part, size in ((SMALL_PART, "small"), (1, "large")):
            run = partial(cases.derive, plugins=(*QUEUES, "index"))
            name = f"index.{body_name(body)}.{size}"
            order = ("derive", "--index")
            found.append(_job(name, run, *order, body=body, big_log=True, log_part=part))
        run = partial(cases.derive, plugins=QUEUES)
        name = f"queues.{body_name(body)}.large"
        found.append(_job(name, run, "derive", body=body, big_log=True))
    return found


def _syncs() -> list[Job]:
    found = []
    for threads, count in _SYNC_COUNT.items():
        run = partial(cases.put_sync, full=count, threads=threads)
        order = ("sync", "--index", "--sync", "--body", "100", "--threads", str(threads))
        amount: dict[str, object] = {"count": count, "multiple": threads, "warm_ups": 1}
        if threads != _MANY_THREADS:  # as threads of Python, these measure the system alone
            found.append(_job(f"sync.{threads}", run, *order, **amount))
        awaited = partial(cases.put_awaited, full=count, tasks=threads)
        found.append(_job(f"sync.{threads}.aio", awaited, *order, **amount))
    return found


def _others() -> list[Job]:
    steps = ",".join(map(str, STEPS))
    waits = str(int(_IDLE_SECONDS * 1000))
    return [
        _job(
            "read.100B",
            partial(cases.read, full=_READ_COUNT, steps=STEPS),
            *("read", "--body", "100", "--batches", steps),
            count=_READ_COUNT,
            multiple=BATCH,
        ),
        _job(
            "open.killed",
            partial(cases.open_killed, full=_KILLED_COUNT),
            *("reopen", "--index", "--body", "1024"),
            body=1024,
            count=_KILLED_COUNT,
            multiple=BATCH,
            warm_ups=1,
            after_kill=True,
        ),
        _job(
            "idle",
            partial(cases.idle, full=_IDLE_COUNT, seconds=_IDLE_SECONDS),
            *("idle", "--index", "--body", "100", "--milliseconds", waits),
            count=_IDLE_COUNT,
            multiple=_IDLE_COUNT,  # as many in a quick run
            warm_ups=0,
            repeats=False,
        ),
    ]


JOBS: tuple[Job, ...] = (*_puts(), *_derivations(), *_syncs(), *_others())
CASES: tuple[Case, ...] = tuple(job.case for job in JOBS)
"""reput's side of each, for whoever runs single cases."""
