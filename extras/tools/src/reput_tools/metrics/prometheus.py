"""Metrics as ``prometheus_client`` collects them, and the text that Prometheus reads."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

import attrs
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
)
from prometheus_client.core import Metric as Family
from prometheus_client.exposition import generate_latest
from prometheus_client.registry import Collector, CollectorRegistry

from reput_tools.metrics.metriclist import METRICS, Metric
from reput_tools.metrics.sampler import Buckets, Sampler

if TYPE_CHECKING:
    from reput_tools.metrics.sampler import Samples


@attrs.define(eq=False)
class StoreCollector(Collector):
    """Collects the metrics of stores; each has labels of its own."""

    _stores: list[tuple[Sampler, Mapping[str, str]]] = attrs.field(factory=list)

    def add(self, sampler: Sampler, labels: Mapping[str, str]) -> None:
        """Collect the metrics of one more store.

        Args:
            sampler: reads them.
            labels: labels of all of them, of the same names as those of the other stores.

        Raises:
            ValueError: labels of other names, or of values that another store has.
        """
        for _, others in self._stores:
            if set(others) != set(labels) or dict(others) == dict(labels):
                raise ValueError(
                    f"labels {dict(labels)!r}: names like those of {dict(others)!r}, and other "
                    "values are needed, to tell the stores apart"
                )
        self._stores.append((sampler, labels))

    def describe(self) -> list[Family]:
        """Return the families without values: registering must not read a store."""
        return [_family(metric, []) for metric in METRICS.values()]

    def collect(self) -> Iterable[Family]:
        """Return all metrics of all stores."""
        found = [(sampler.by_name(), labels) for sampler, labels in self._stores]
        for name, metric in METRICS.items():
            if any(name in samples for samples, _ in found):
                family = _family(metric, [*found[0][1]])
                for samples, labels in found:
                    _fill(family, samples.get(name, []), [*labels.values()])
                yield family


def _family(metric: Metric, labels: list[str]) -> Family:
    name, text, labels = metric.name, metric.text, [*labels, *metric.labels]
    if metric.kind == "counter":
        return CounterMetricFamily(name, text, labels=labels)
    if metric.kind == "histogram":
        return HistogramMetricFamily(name, text, labels=labels)
    return GaugeMetricFamily(name, text, labels=labels)


def _fill(family: Family, samples: Samples, values: list[str]) -> None:
    for sample in samples:
        labels = [*values, *sample.labels]
        if isinstance(sample.value, Buckets):
            assert isinstance(family, HistogramMetricFamily)
            bounds = [
                ("+Inf" if bound is None else str(bound), float(count))
                for bound, count in sample.value.by_bound
            ]
            family.add_metric(labels, buckets=bounds, sum_value=sample.value.total)
        else:
            assert isinstance(family, GaugeMetricFamily | CounterMetricFamily)
            family.add_metric(labels, sample.value)


def registry_of(sampler: Sampler) -> CollectorRegistry:
    """Return a registry with the metrics of one store and nothing else."""
    registry, collector = CollectorRegistry(), StoreCollector()
    collector.add(sampler, {})
    registry.register(collector)
    return registry


def text_of(sampler: Sampler) -> str:
    """Return what Prometheus reads."""
    return generate_latest(registry_of(sampler)).decode()
