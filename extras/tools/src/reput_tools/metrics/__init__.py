"""Metrics of stores: for Prometheus by `collector`, for OpenTelemetry by `instrument`."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from reput_tools.metrics.metriclist import METRICS as METRICS
from reput_tools.metrics.metriclist import Metric as Metric

if TYPE_CHECKING:
    from opentelemetry.metrics import Meter
    from prometheus_client.registry import CollectorRegistry

    from reput import Store
    from reput_tools.metrics.prometheus import StoreCollector

__all__ = ["METRICS", "Metric", "collector", "instrument", "text"]


def collector(
    *stores: Store,
    registry: CollectorRegistry | None = None,
    label: str = "store",
) -> StoreCollector:
    """Register a collector of the metrics of open stores with ``prometheus_client``.

    Args:
        stores: open stores. Several are told apart by a label that has their directory.
        registry: where to register; the default registry when left out.
        label: name of that label; one store has no such label.

    Returns:
        The collector, for ``registry.unregister``.
    """
    from prometheus_client.registry import REGISTRY

    from reput_tools.metrics.prometheus import StoreCollector
    from reput_tools.metrics.sampler import Sampler, of_store

    made = StoreCollector()
    for store in stores:
        labels = {label: store.root} if len(stores) > 1 else {}
        made.add(Sampler(partial(of_store, store)), labels)
    (registry or REGISTRY).register(made)
    return made


def instrument(
    store: Store, meter: Meter | None = None, labels: Mapping[str, str] | None = None
) -> list[Any]:
    """Make observable instruments of OpenTelemetry for an open store, and return them.

    Args:
        store: an open store.
        meter: makes them; that of the global provider when left out.
        labels: attributes of all observations, such as ``{"store": "orders"}``.
    """
    from opentelemetry.metrics import get_meter

    import reput
    from reput_tools.metrics.opentelemetry import make_instruments
    from reput_tools.metrics.sampler import Sampler, of_store

    meter = meter or get_meter("reput", reput.__version__)
    return make_instruments(meter, Sampler(partial(of_store, store)), labels or {})


def text(store: Store) -> str:
    """Return the metrics of an open store as Prometheus reads them."""
    from reput_tools.metrics.prometheus import text_of
    from reput_tools.metrics.sampler import Sampler, of_store

    return text_of(Sampler(partial(of_store, store)))
