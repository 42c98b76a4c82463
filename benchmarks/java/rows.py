"""The table beside RocketMQ's store: its rows, and their goals."""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from benchmarks.java.jobs import JOBS, STEPS, Job

JAVA_4, JAVA_5, NATIVE, PYTHON = "Java 4.9.8", "Java 5.3.3", "native", "python"
"""Those that are compared."""


@attrs.frozen(kw_only=True)
class Target:
    """What reput with compiled kernels is to reach."""

    rate: float = 0.0
    """Per second."""
    bytes_rate: float = 0.0
    """Bytes of records a second."""
    times: Mapping[str, float] = {}
    """By the name of another one: as many times as good."""
    stretch: Mapping[str, float] = {}
    """The same, nice to have."""
    text: str = ""
    """In the place of the bounds."""

    def __str__(self) -> str:
        parts = [f"{times:g} × {name.removeprefix('Java ')}" for name, times in self.times.items()]
        parts += [
            f"{self.rate / 1e6:g} M/s" if self.rate >= 1e6 else f"{self.rate / 1e3:g} k/s"
        ] * (self.rate > 0)
        parts += [f"{self.bytes_rate / 1e9:g} GB/s"] * (self.bytes_rate > 0)
        return self.text or ", ".join(f"≥ {part}" for part in parts)


@attrs.frozen(kw_only=True)
class Row:
    """One line of the table."""

    name: str
    work: str
    """For people; ``{size}`` stands for the bytes of the log, ``{count}`` for the messages."""
    job: Job
    label: str
    """Which of the job's measurements."""
    unit: str = "messages"
    """``messages`` a second; or, where less is better, ``seconds``, ``memory`` in bytes, or
    ``processor``, the share of a core."""
    target: Target = Target()


_JOBS = {job.name: job for job in JOBS}
_NO_JAVA_AHEAD = {JAVA_4: 1.0, JAVA_5: 1.0}
_NOT_WORSE = Target(times={**_NO_JAVA_AHEAD, PYTHON: 0.9}, text="not worse")


def _row(name: str, work: str, label: str, target: Target | None = None, job: str = "") -> Row:
    return Row(name=name, work=work, job=_JOBS[job or name], label=label, target=target or Target())


ROWS: tuple[Row, ...] = (
    _row(
        "put.100B",
        "put one at a time, 100 B",
        "put",
        Target(times={JAVA_4: 1.2}, stretch={JAVA_4: 2.0}),
    ),
    _row(
        "put.100B.readable", "put one at a time, 100 B, until readable", "readable", job="put.100B"
    ),
    _row(
        "put.1KiB",
        "put one at a time, 1 KiB",
        "put",
        Target(times={JAVA_4: 1.0}, stretch={JAVA_4: 2.0}),
    ),
    _row(
        "put.1KiB.readable", "put one at a time, 1 KiB, until readable", "readable", job="put.1KiB"
    ),
    _row("put-many.100B.list", "put_many of a list, 100 B", "put-many", Target(rate=1.5e6)),
    _row("put-many.100B.columns", "put_many of columns, 100 B", "put-many", Target(rate=2e6)),
    _row("put-many.100B.arrow", "put_many of Arrow batches, 100 B", "put-many"),
    *(
        _row(
            f"index.100B.{size}",
            "log → queues and index, 100 B, {size}",
            "derive",
            Target(times={JAVA_4: 5.0, JAVA_5: 10.0}, rate=3.5e6),
        )
        for size in ("small", "large")
    ),
    *(
        _row(
            f"index.1KiB.{size}",
            "log → queues and index, 1 KiB, {size}",
            "derive",
            Target(times={JAVA_4: 3.0, JAVA_5: 10.0}),
        )
        for size in ("small", "large")
    ),
    _row(
        "queues.100B.large",
        "log → queues, 100 B, {size}",
        "derive",
        Target(times=_NO_JAVA_AHEAD, rate=8e6),
    ),
    _row(
        "queues.1KiB.large",
        "log → queues, 1 KiB, {size}",
        "derive",
        Target(times=_NO_JAVA_AHEAD, bytes_rate=4e9),
    ),
    _row(
        "sync.16",
        "16 synchronous producers, 100 B",
        "put-sync",
        Target(times=_NO_JAVA_AHEAD, rate=20e3),
    ),
    _row(
        "sync.64",
        "64 synchronous producers, 100 B",
        "put-sync",
        Target(times=_NO_JAVA_AHEAD, rate=24e3),
    ),
    *(
        _row(
            f"sync.{tasks}.aio",
            f"{tasks:,} coroutines beside {tasks:,} threads of Java, 100 B, each put on disk",
            "put-sync",
            Target(times={JAVA_4: least, JAVA_5: least}),
        )
        for tasks, least in ((16, 1.0), (64, 1.3), (1_000, 2.0))
    ),
    *(
        _row(
            f"read.100B.{step}{suffix}",
            f"read by queue{form}, {step:,} a read, 100 B",
            f"{label}-{step}",
            target,
            job="read.100B",
        )
        for step, columns_rate in zip(STEPS, (2e6, 5e6), strict=True)
        for label, form, suffix, target in (
            ("read", "", "", Target(times={JAVA_4: 1.0})),
            ("bodies", " as columns", ".columns", Target(rate=columns_rate)),
            ("unchecked", " as columns, beside Java without checks", ".unchecked", Target()),
        )
    ),
    Row(
        name="open.killed",
        work="open after a kill, {count} messages of 1 KiB, until readable",
        job=_JOBS["open.killed"],
        label="open",
        unit="seconds",
        target=_NOT_WORSE,
    ),
    Row(
        name="memory",
        work="peak memory, log → queues and index, 1 KiB, {size}",
        job=_JOBS["index.1KiB.large"],
        label="derive",
        unit="memory",
        target=_NOT_WORSE,
    ),
    Row(
        name="idle",
        work="processor of an idle store",
        job=_JOBS["idle"],
        label="idle",
        unit="processor",
        # Both engines sleep; what one of them takes more is a millisecond in five seconds.
        target=Target(times=_NO_JAVA_AHEAD, text="not worse"),
    ),
)
