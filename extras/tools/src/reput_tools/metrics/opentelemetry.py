"""Metrics as instruments of ``opentelemetry-api``, which a program's exporter reads."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from opentelemetry.metrics import CallbackOptions, Meter, Observation

from reput_tools.metrics.metriclist import METRICS, Metric
from reput_tools.metrics.sampler import Buckets

if TYPE_CHECKING:
    from reput_tools.metrics.sampler import Sampler

_UNITS = {"bytes": "By", "seconds": "s", "": "1"}


def make_instruments(meter: Meter, sampler: Sampler, labels: Mapping[str, str]) -> list[Any]:
    """Make observable instruments for all metrics, and return them.

    There are no observable histograms: one becomes two counters, of the waits and of their time.
    """
    made: list[Any] = []
    for metric in METRICS.values():
        if metric.kind == "histogram":
            for part in ("count", "sum"):
                unit = _UNITS[metric.unit] if part == "sum" else "1"
                made.append(
                    meter.create_observable_counter(
                        f"{name_of(metric)}_{part}",
                        callbacks=[_callback(sampler, metric, labels, part)],
                        unit=unit,
                        description=metric.text,
                    )
                )
            continue
        is_counter = metric.kind == "counter"
        make = meter.create_observable_counter if is_counter else meter.create_observable_gauge
        made.append(
            make(
                name_of(metric),
                callbacks=[_callback(sampler, metric, labels, "")],
                unit=_UNITS[metric.unit],
                description=metric.text,
            )
        )
    return made


def name_of(metric: Metric) -> str:
    """Return the instrument's name: exporters to Prometheus add ``_total`` by themselves."""
    return metric.name.removesuffix("_total")


def _callback(
    sampler: Sampler, metric: Metric, labels: Mapping[str, str], part: str
) -> Callable[[CallbackOptions], Iterable[Observation]]:
    def observe(options: CallbackOptions) -> Iterator[Observation]:
        for sample in sampler.by_name().get(metric.name, ()):
            value: float
            if isinstance(sample.value, Buckets):
                counted = sample.value.by_bound[-1][1]
                value = counted if part == "count" else sample.value.total
            else:
                value = sample.value
            named = dict(zip(metric.labels, sample.labels, strict=True))
            yield Observation(value, {**labels, **named})

    return observe
