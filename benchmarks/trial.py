"""One run of a case: its directory, its amount of work, and its measurements."""

from __future__ import annotations

import contextlib
import gc
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import attrs

from benchmarks import memory


@attrs.frozen(kw_only=True)
class Latencies:
    """Distribution of the duration of single calls, microseconds."""

    call: str
    """Name of the call."""
    count: int
    p50: float
    p99: float
    max: float

    @classmethod
    def of(cls, call: str, nanoseconds: Sequence[int]) -> Latencies:
        """Return the distribution of ``nanoseconds``, which must not be empty."""
        ordered = sorted(nanoseconds)
        last = len(ordered) - 1
        return cls(
            call=call,
            count=len(ordered),
            p50=ordered[last // 2] / 1e3,
            p99=ordered[round(last * 0.99)] / 1e3,
            max=ordered[last] / 1e3,
        )


@attrs.define(kw_only=True)
class Measurement:
    """One row of a table, of one round."""

    label: str
    count: int
    """Messages, or what `unit` says."""
    size: int
    """Bytes, of bodies or of records as the table says; 0 if there are none to count."""
    unit: str = "messages"
    baseline: bool = False
    """Whether the other rows are compared with this one."""
    seconds: float = 0.0
    cpu_seconds: float = 0.0
    """Of the whole process: all threads, user and system; with its descendants, if asked for."""
    latencies: Latencies | None = None
    facts: dict[str, Any] = attrs.field(factory=dict)
    """Further facts; printed as they are."""


@attrs.define(eq=False, kw_only=True)
class Trial:
    """The argument of a case."""

    directory: Path
    """An empty directory; removed afterwards."""
    body_size: int
    scale: float
    """1 in a full run."""
    big_log: Path | None = None
    """Directory of the large store with bodies of this size, if the case asked for it."""
    measurements: list[Measurement] = attrs.field(factory=list)

    def count(self, full: int, least: int = 1) -> int:
        """Return how much to do: ``full`` in a full run, less in a quick run."""
        return max(int(full * self.scale), least)

    def size_of(self, count: int) -> int:
        """Return the bytes that so many messages take, as `memory.size_of` does."""
        return memory.size_of(count, self.body_size)

    def warm_up(self) -> None:
        """Open, use and close a small store, so that no import is part of a measurement."""
        import reput

        with reput.open(self.directory / "warm-up") as store:
            store.put(reput.Message("warm-up", b"body", tags="tag", keys="key"))
            store.wait_dispatched()
            store.read("warm-up", 0, 0)

    def settle(self, size: int = 0) -> None:
        """Exclude existing objects from later garbage collections, and get memory ready.

        Args:
            size: bytes that will be written, about; 0 if memory does not matter.
        """
        if size:
            memory.claim(size, self.directory)
        gc.collect()
        gc.freeze()

    @contextlib.contextmanager
    def timed(
        self,
        label: str,
        count: int,
        size: int = 0,
        *,
        unit: str = "messages",
        baseline: bool = False,
        descendants: bool = False,
    ) -> Iterator[Measurement]:
        """Measure the ``with`` block, which may add latencies and facts to the `Measurement`.

        Args:
            label: label of the row.
            count: messages, or what ``unit`` says.
            size: bytes; 0 if none are counted.
            unit: unit of ``count``.
            baseline: whether the other rows are compared with this one.
            descendants: also count the processor time of processes that the block starts, and state
                their memory: Spark's JVM and its Python workers.
        """
        measured = Measurement(label=label, count=count, size=size, unit=unit, baseline=baseline)
        cpu, began = _cpu_seconds(descendants), time.perf_counter()
        yield measured
        measured.seconds = time.perf_counter() - began
        measured.cpu_seconds = _cpu_seconds(descendants) - cpu
        if descendants:
            measured.facts.update(_peaks())
        self.measurements.append(measured)

    def require(self, correct: bool, what: str) -> None:
        """Fail the case unless the store answered correctly: a wrong answer has no speed."""
        if not correct:
            raise RuntimeError(f"wrong result: {what}")


def _cpu_seconds(descendants: bool) -> float:
    own = time.process_time()
    if not descendants:
        return own
    from benchmarks.descendants import cpu_seconds

    return own + cpu_seconds()


def _peaks() -> dict[str, Any]:
    from benchmarks.descendants import peak_memory

    return {f"peak of {name}": f"{size / 1e6:.0f} MB" for name, size in peak_memory().items()}
