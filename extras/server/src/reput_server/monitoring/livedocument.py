"""The figures of a server as plain values, for pages in another process."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from reput_client.remoting import address_text

if TYPE_CHECKING:
    from reput_server.broker.broker import Broker
    from reput_server.monitoring.serverfigures import ServerFigures, TimesFigures
    from reput_server.replication.replicaservice import ReplicaState

_ROWS_MAX: Final = 1_000
_TOPICS_MAX: Final = 50


def live_document(found: ServerFigures, broker: Broker) -> dict[str, Any]:
    """Return what the pages show of a server; `reput_web.readmodel.livestate` reads it."""
    statistics = broker.context.statistics
    tick = statistics.ticks()
    return {
        "kind": "server",
        "at": found.at,
        "since": found.since,
        "name": f"{found.broker} of {found.cluster}, {found.address}",
        "is_writable": found.is_writable,
        "health": {"status": found.health.status, "reasons": list(found.health.reasons)},
        "rates": {
            "in": [float(each) for each in statistics.put_rate.text(tick).split()],
            "out": [float(each) for each in statistics.get_rate.text(tick).split()],
        },
        "put_count": found.put_count,
        "get_count": found.get_count,
        "held_pulls": found.held_pulls,
        "waiting_sends": found.waiting_sends,
        "send_wait_ms": found.send_wait_ms,
        "waiting_reads": found.waiting_reads,
        "failed_sends": found.failed_sends,
        "ports": [
            {
                "name": name,
                "address": address_text(each.address),
                "connections": each.connection_count,
                "requests": each.request_count,
                "working_bytes": each.working_bytes,
                "unread_bytes": each.unread_bytes,
            }
            for name, each in found.ports.items()
        ],
        "times": [_times(name, each) for name, each in found.times.items()],
        "replication": _replication(found),
        "calls": {
            "clients": found.calls.client_count,
            "streams": found.calls.stream_count,
            "waiting": found.calls.waiting_count,
            "answered": [
                {"call": call, "code": code, "count": count}
                for (call, code), count in sorted(
                    found.calls.answered.items(), key=lambda each: (-each[1], each[0])
                )[:_ROWS_MAX]
            ],
        },
        "topics": _topics(found),
        "groups": _groups(found),
        "plugins": [
            {
                "name": each.name,
                "state": str(each.state),
                "lag_size": each.lag_size,
                "last_error": each.last_error,
            }
            for each in found.plugins
        ],
    }


def _times(name: str, found: TimesFigures) -> dict[str, Any]:
    count = sum(found.counts)
    return {
        "name": name,
        "count": count,
        "mean_ms": found.total / count * 1_000 if count else None,
        "p99_ms": found.p99 * 1_000 if count else None,
    }


def _replication(found: ServerFigures) -> dict[str, Any] | None:
    if found.ha_address is None:
        return None
    return {
        "address": address_text(found.ha_address),
        "sync_replicas": found.sync_replicas,
        "late_rounds": found.late_rounds,
        "replicas": [_replica(each) for each in found.replicas[:_ROWS_MAX]],
    }


def _replica(found: ReplicaState) -> dict[str, Any]:
    state = "observer" if found.is_observer else "in sync" if found.is_in_sync else "behind"
    return {
        "address": address_text(found.address),
        "state": state,
        "lag_size": None if found.is_observer else found.lag_size,
        "sent_size": found.sent_size,
        "unsent_size": found.unsent_size,
    }


def _topics(found: ServerFigures) -> list[dict[str, Any]]:
    """Return the topics with most messages in the last minute, or else since the start."""
    busy = [(name, each) for name, each in found.topics.items() if each.put_count]
    busy.sort(key=lambda pair: (-pair[1].rate, -pair[1].put_count, pair[0]))
    return [
        {
            "topic": name,
            "rate": each.rate,
            "put_count": each.put_count,
            "put_bytes": each.put_bytes,
        }
        for name, each in busy[:_TOPICS_MAX]
    ]


def _groups(found: ServerFigures) -> dict[str, dict[str, Any]]:
    largest = sorted(found.groups, key=lambda name: (-found.groups[name].lag, name))
    rows = {}
    for name in largest[:_ROWS_MAX]:
        each = found.groups[name]
        count, since = found.out.get(name, (0, None))
        rows[name] = {
            "lag": each.lag,
            "members": each.member_count,
            "rate": each.rate,
            "is_mixed": each.is_mixed,
            "out_count": count,
            "out_since": since,
        }
    return rows
