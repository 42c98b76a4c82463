"""Figures of the server, the store and its plugins, as ``prometheus_client`` collects them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

import attrs
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.registry import Collector, CollectorRegistry

import reput_tools.metrics
from reput_client.remoting import address_text
from reput_server.broker.statistics.latencies import BOUNDS
from reput_server.monitoring.metriclist import METRICS

if TYPE_CHECKING:
    from reput import Store
    from reput_server.monitoring.serverfigures import ServerFigures, TimesFigures

CONTENT_TYPE: Final = CONTENT_TYPE_LATEST
LABELS_MAX: Final = 1_000
"""Values of a metric with labels of their own, the largest; the others are one."""
OTHERS: Final = "(others)"

_Values = Mapping[tuple[str, ...], float]


@attrs.define(eq=False)
class _ServerCollector(Collector):
    """Collects the figures that it was given last."""

    figures: ServerFigures | None = None

    def describe(self) -> Iterable[Metric]:
        """Return nothing: registering must not read figures."""
        return ()

    def collect(self) -> Iterator[Metric]:
        """Return all metrics."""
        if self.figures is None:
            return
        for name, values in _values(self.figures):
            yield _family(METRICS[name], values)
        for name, times in self.figures.times.items():
            yield _histogram(METRICS[f"reput_server_{name}_seconds"], times)


class Exposition:
    """The metrics of a server and its store. Used by one thread at a time."""

    def __init__(self, store: Store) -> None:
        self._registry = CollectorRegistry()
        self._collector = _ServerCollector()
        reput_tools.metrics.collector(store, registry=self._registry)
        self._registry.register(self._collector)

    def text(self, figures: ServerFigures) -> bytes:
        """Return what Prometheus reads; this may wait for the store."""
        self._collector.figures = figures
        return generate_latest(self._registry)


def _values(found: ServerFigures) -> Iterator[tuple[str, _Values]]:
    yield "reput_server_info", {(found.broker, found.cluster, found.address): 1}
    alone = {
        "up": int(found.health.status != "failing"),
        "start_seconds": found.since / 1000,
        "call_clients": found.calls.client_count,
        "call_streams": found.calls.stream_count,
        "waiting_receives": found.calls.waiting_count,
        "held_pulls": found.held_pulls,
        "waiting_sends": found.waiting_sends,
        "waiting_send_seconds": found.send_wait_ms / 1000,
        "waiting_reads": found.waiting_reads,
        "waiting_read_seconds": found.read_wait_ms / 1000,
        "failed_sends_total": found.failed_sends,
        "replicas": len(found.replicas),
        "replicas_in_sync": sum(each.is_in_sync for each in found.replicas),
        "sync_replicas": found.sync_replicas,
        "late_rounds_total": found.late_rounds,
    }
    for name, value in alone.items():
        yield f"reput_server_{name}", {(): value}
    ports = found.ports.items()
    by_port: dict[str, dict[tuple[str, ...], float]] = {
        "connections": {(name,): each.connection_count for name, each in ports},
        "requests_total": {(name,): each.request_count for name, each in ports},
        "working_bytes": {(name,): each.working_bytes for name, each in ports},
        "unread_bytes": {(name,): each.unread_bytes for name, each in ports},
    }
    topics = [(name, each) for name, each in found.topics.items() if each.put_count]
    groups = found.groups.items()
    by_name: dict[str, dict[tuple[str, ...], float]] = {
        "calls_total": {(call, code): each for (call, code), each in found.calls.answered.items()},
        "group_out_messages": {(name,): count for name, (count, _) in found.out.items()},
        "group_out_seconds": {
            (name,): max(found.at - since, 0) / 1000 for name, (_, since) in found.out.items()
        },
        "producers": {(name,): each for name, each in found.producer_counts.items()},
        "put_messages_total": {(name,): each.put_count for name, each in topics},
        "put_bytes_total": {(name,): each.put_bytes for name, each in topics},
        "got_messages_total": {key: count for key, (count, _) in found.got.items()},
        "got_bytes_total": {key: size for key, (_, size) in found.got.items()},
        "sent_back_total": dict(found.sent_back.items()),
        "group_lag_messages": {(name,): each.lag for name, each in groups},
        "group_members": {(name,): each.member_count for name, each in groups},
        "group_mixed": {(name,): each.is_mixed for name, each in groups},
    }
    named = [(address_text(each.address), each) for each in found.replicas]
    by_replica: dict[str, dict[tuple[str, ...], float]] = {
        "replica_lag_bytes": {(name,): each.lag_size for name, each in named},
        "replica_sent_bytes_total": {(name,): each.sent_size for name, each in named},
        "replica_unread_bytes": {(name,): each.unsent_size for name, each in named},
    }
    for name, values in {**by_port, **by_replica, **by_name}.items():
        yield f"reput_server_{name}", _bounded(values)


def _bounded(values: _Values) -> _Values:
    """Return the largest values, and the sum of the others."""
    if len(values) <= LABELS_MAX:
        return values
    largest = sorted(values, key=lambda key: (-values[key], key))
    kept = {key: values[key] for key in largest[:LABELS_MAX]}
    rest = (OTHERS,) * len(largest[0])
    return {**kept, rest: sum(values[key] for key in largest[LABELS_MAX:])}


def _family(metric: reput_tools.metrics.Metric, values: _Values) -> Metric:
    kind: Any = CounterMetricFamily if metric.kind == "counter" else GaugeMetricFamily
    family = kind(metric.name, metric.text, labels=metric.labels)
    for labels, value in values.items():
        family.add_metric(labels, value)
    found: Metric = family
    return found


def _histogram(metric: reput_tools.metrics.Metric, times: TimesFigures) -> Metric:
    family = HistogramMetricFamily(metric.name, metric.text)
    below, buckets = 0, []
    for bound, count in zip((*map(str, BOUNDS), "+Inf"), times.counts, strict=True):
        below += count
        buckets.append((bound, float(below)))
    family.add_metric([], buckets=buckets, sum_value=times.total)
    return family
