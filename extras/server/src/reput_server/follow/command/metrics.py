"""Metrics of a follower and of its store, for Prometheus."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final

from prometheus_client import start_http_server
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector, CollectorRegistry

import reput_tools.metrics
from reput_server.follow.follower.states import State
from reput_tools.cli.kit import ExitCode, Failure

if TYPE_CHECKING:
    from reput import Store
    from reput_client.remoting import Address
    from reput_server.follow.follower.follower import Follower

METRICS: Final = {
    "reput_follow_up": "1 while the follower is connected to its master.",
    "reput_follow_state": "1 for the follower's state.",
    "reput_follow_lag_bytes": "Bytes of the master's log that the store does not have.",
    "reput_follow_lag_messages": "About how many messages these are.",
    "reput_follow_lag_seconds": "For how long the master has had the first of them.",
    "reput_follow_received_bytes_total": "Bytes of the log that came, also those only compared.",
    "reput_follow_connections_total": "Connections that were made to the HA port.",
}
"""What each metric means, by name."""


class _FollowCollector(Collector):
    def __init__(self, follower: Follower) -> None:
        self._follower = follower

    def describe(self) -> Iterable[Metric]:
        """Return nothing: registering must not read figures."""
        return ()

    def collect(self) -> Iterator[Metric]:
        """Return all metrics."""
        status = self._follower.status()
        gauges = {
            "reput_follow_up": int(status.state is State.FOLLOWING),
            "reput_follow_lag_bytes": status.lag.size,
            "reput_follow_lag_messages": status.lag.message_count,
            "reput_follow_lag_seconds": status.lag.seconds,
        }
        for name, value in gauges.items():
            if value is not None:
                yield GaugeMetricFamily(name, METRICS[name], value=value)
        counters = {
            "reput_follow_received_bytes_total": status.received_size,
            "reput_follow_connections_total": status.connection_count,
        }
        for name, value in counters.items():
            yield CounterMetricFamily(name, METRICS[name], value=value)
        states = GaugeMetricFamily(
            "reput_follow_state", METRICS["reput_follow_state"], labels=["state"]
        )
        for each in State:
            states.add_metric([each.value.replace(" ", "_")], int(each is status.state))
        yield states


@contextlib.contextmanager
def serving(store: Store, follower: Follower, address: Address) -> Iterator[str]:
    """Serve metrics over HTTP for the time of a ``with`` block; gives their address.

    Raises:
        Failure: the address cannot be listened on.
    """
    registry = CollectorRegistry()
    reput_tools.metrics.collector(store, registry=registry)
    registry.register(_FollowCollector(follower))
    host, port = address
    try:
        server, thread = start_http_server(port, host, registry)
    except OSError as error:
        text = f"{host}:{port}: {error.strerror or error}; choose another address with --metrics"
        raise Failure(text, ExitCode.UNAVAILABLE) from None
    shown = f"[{host}]" if ":" in host else host
    try:
        yield f"http://{shown}:{server.server_port}/metrics"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
