"""Rounds in which all servers take turns, and rows of what was measured."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from benchmarks.trial import Latencies, Measurement, Trial

if TYPE_CHECKING:
    from benchmarks.served.servers import Contender

_ROUNDS = 3


def take_turns(
    trial: Trial,
    label: str,
    contenders: Sequence[Contender],
    work: Callable[[Contender, int], dict[str, Any]],
) -> None:
    """Measure each server in each round, and add a row for each.

    The first contender of a round is the last of the next.

    Args:
        trial: takes the rows.
        label: the name of the work.
        contenders: the servers.
        work: does it once, told the server and the round; returns what `JavaLoad.do` returns.
    """
    found: dict[str, list[dict[str, Any]]] = {each.name: [] for each in contenders}
    for number in range(_ROUNDS if trial.scale >= 1 else 1):
        for contender in contenders[:: -1 if number % 2 else 1]:
            cpu = contender.cpu_seconds()
            row = work(contender, number)
            row["cpu"] = (contender.cpu_seconds() - cpu) / max(row["all"], 1)
            trial.require(not row["failed"], f"{row['failed']} sends to {contender.name} failed")
            found[contender.name].append(row)
    others: float | None = None
    for contender in contenders:
        rows = found[contender.name]
        rate = statistics.median(row["count"] / row["seconds"] for row in rows)
        measured = _measurement(trial, f"{label}: {contender.name}", rows, rate)
        if others:
            measured.facts["rate"] = f"× {rate / others:.2f}"
        others = others or rate
        measured.facts["memory"] = f"{contender.memory() / 1e6:.0f} MB"
        trial.measurements.append(measured)


def _measurement(
    trial: Trial, label: str, rows: Sequence[dict[str, Any]], rate: float
) -> Measurement:
    def middle(name: str) -> float:
        return statistics.median(float(row[name]) for row in rows)

    count = sum(row["count"] for row in rows)
    measured = Measurement(
        label=label,
        count=count,
        size=count * trial.body_size,
        seconds=count / rate if rate else 0.0,
        cpu_seconds=middle("cpu") * count,
    )
    if "client" in rows[0]:
        each = statistics.median(row["client"] / max(row["all"], 1) for row in rows)
        measured.facts["client"] = f"{each * 1e6:.1f} µs"
    if middle("max"):
        measured.latencies = Latencies(
            call=rows[0].get("call", "send"),
            count=count,
            p50=middle("p50"),
            p99=middle("p99"),
            max=max(row["max"] for row in rows),
        )
        measured.facts["p99.9"] = f"{middle('p999') / 1e3:.2f} ms"
    return measured
