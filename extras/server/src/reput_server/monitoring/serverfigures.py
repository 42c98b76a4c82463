"""`ServerFigures`: how a server is at a moment; what metrics and pages are made of."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import attrs

from reput.errors import ReputError
from reput_consumer import retry_topic
from reput_server.broker.statistics.brokerstatistics import (
    GROUP_GET_NUMS,
    GROUP_GET_SIZE,
    SNDBCK_PUT_NUMS,
    TOPIC_PUT_NUMS,
    TOPIC_PUT_SIZE,
)
from reput_server.protocolservice import CallFigures

if TYPE_CHECKING:
    from reput import PluginState, QueueInfo
    from reput_client.remoting import Address
    from reput_server.broker.broker import Broker
    from reput_server.broker.statistics.latencies import Latencies
    from reput_server.protocolservice import ProtocolService
    from reput_server.replication.replicaservice import ReplicaState
    from reput_server.wire.portservice import PortService

_RUNNING: Final = frozenset({"running", "retrying", "reading"})
_QUEUES: Final = "consumequeue"


@attrs.frozen
class PortFigures:
    """The connections of one port."""

    address: Address
    connection_count: int
    request_count: int
    """Since the start."""
    working_bytes: int
    """Bytes of requests that are worked on."""
    unread_bytes: int
    """Bytes of answers that peers leave unread."""


@attrs.frozen
class TimesFigures:
    """A histogram: how many took how long."""

    counts: tuple[int, ...]
    """By the bounds of `reput_server.broker.statistics.latencies.BOUNDS`, and the rest."""
    total: float
    """Seconds."""
    p99: float
    """Bound, s, that all but a hundredth are below."""

    @classmethod
    def of(cls, times: Latencies) -> TimesFigures:
        """Return a histogram as it is now."""
        return cls(tuple(times.counts), times.total, times.quantile(0.99))


@attrs.frozen
class TopicFigures:
    """One topic."""

    stored_count: int
    """Messages that its queues hold."""
    queue_count: int
    put_count: int
    """Messages that came since the start."""
    put_bytes: int
    rate: float
    """Messages a second in the last minute."""


@attrs.frozen
class GroupFigures:
    """One consumer group."""

    lag: int
    """Messages that it has not consumed."""
    member_count: int
    rate: float
    """Messages a second that it got in the last minute."""
    topics: tuple[str, ...]
    """Those of which it has offsets."""
    is_mixed: bool
    """Whether its members subscribe differently, so that messages are left out."""


@attrs.frozen
class Health:
    """Whether the server does its work."""

    status: str
    """``ok``; ``degraded`` if a plugin has stopped; ``failing`` if no message can come or go."""
    reasons: tuple[str, ...] = ()


@attrs.frozen(kw_only=True)
class ServerFigures:
    """How a server is."""

    at: int
    """When, ms."""
    since: int
    """When it started, ms."""
    broker: str
    cluster: str
    address: str
    """Where clients find the broker."""
    root: str
    is_writable: bool
    ports: Mapping[str, PortFigures]
    """``broker`` and ``names``."""
    calls: CallFigures
    """Of clients of RocketMQ 5."""
    out: Mapping[str, tuple[int, int]]
    """Messages that were handed out by pop and not acknowledged, and when the first was, ms, by
    group."""
    held_pulls: int
    waiting_sends: int
    send_wait_ms: int
    """How long the first of them has waited."""
    waiting_reads: int
    read_wait_ms: int
    ha_address: Address | None
    """Where replicas get the log; None if they get it nowhere."""
    replicas: Sequence[ReplicaState]
    sync_replicas: int
    """How many replicas a send waits for."""
    late_rounds: int
    """Rounds of sends that replicas did not have in time, since the start."""
    times: Mapping[str, TimesFigures]
    """``send``: until a send is answered; ``put``: of a put of all sends that had come; ``read``:
    of a read for a pull."""
    failed_sends: int
    put_count: int
    put_rate: float
    """Messages a second in the last minute."""
    get_count: int
    get_rate: float
    topics: Mapping[str, TopicFigures]
    groups: Mapping[str, GroupFigures]
    producer_counts: Mapping[str, int]
    """Clients by producer group."""
    got: Mapping[tuple[str, str], tuple[int, int]]
    """Messages and bytes handed out since the start, by topic and group."""
    sent_back: Mapping[tuple[str, str], int]
    """Messages given back since the start, by topic and group."""
    plugins: Sequence[PluginState]
    log_start: int
    log_end: int
    """Physical offsets."""
    health: Health


async def figures_of(
    broker: Broker,
    ports: Mapping[str, PortService],
    since: int,
    beside: ProtocolService | None = None,
) -> ServerFigures:
    """Return how a server is; called on its event loop, which goes on meanwhile."""
    context, statistics = broker.context, broker.context.statistics
    sends = broker.sends
    now = context.clock()
    of_loop: dict[str, Any] = {
        "at": now,
        "since": since,
        "broker": context.name,
        "cluster": context.config.cluster,
        "address": next(iter(context.data.addresses.values())),
        "root": str(context.store.root),
        "is_writable": context.is_writable,
        "ports": {name: _of_port(service) for name, service in ports.items()},
        "calls": CallFigures() if beside is None else beside.figures(),
        "held_pulls": len(broker.held),
        "waiting_sends": sends.waiting_count,
        "send_wait_ms": sends.head_wait_ms,
        "waiting_reads": context.pool.waiting_count,
        "read_wait_ms": context.pool.head_wait_ms,
        **_of_replicas(broker),
        "times": {
            "send": TimesFigures.of(sends.times.answers),
            "put": TimesFigures.of(sends.times.puts),
            "read": TimesFigures.of(statistics.reads),
        },
        "failed_sends": sends.times.failed_count,
        "producer_counts": {name: len(each) for name, each in broker.groups.producers.items()},
    }
    # Not on the threads that read for consumers: this may take a while with many groups.
    of_store = await asyncio.to_thread(_of_store, broker)
    in_sync = sum(each.is_in_sync for each in of_loop["replicas"])
    of_store["health"] = _with_replicas(of_store["health"], in_sync, of_loop["sync_replicas"])
    return ServerFigures(**of_loop, **of_store)


def _with_replicas(health: Health, in_sync: int, needed: int) -> Health:
    """Return a server's health, which is worse if sends wait for replicas that are not there."""
    if in_sync >= needed:
        return health
    reason = (
        f"{in_sync} of the {needed} replicas that sends wait for are in sync; "
        "sends are stored and answered with SLAVE_NOT_AVAILABLE"
    )
    status = "degraded" if health.status == "ok" else health.status
    return Health(status, (*health.reasons, reason))


def _of_replicas(broker: Broker) -> dict[str, Any]:
    replicas = broker.context.replicas
    waits = None if replicas is None else replicas.waits
    return {
        "ha_address": None if replicas is None else replicas.address,
        "replicas": () if replicas is None else tuple(replicas.states()),
        "sync_replicas": 0 if waits is None else waits.needed,
        "late_rounds": 0 if waits is None else waits.timeout_count,
    }


def _of_port(service: PortService) -> PortFigures:
    return PortFigures(
        service.address,
        len(service.peers),
        service.request_count,
        service.request_bytes,
        service.unread_bytes(),
    )


# --------------------------------------------------------------------------- on a thread


def _of_store(broker: Broker) -> dict[str, Any]:
    context, counted = broker.context, broker.context.statistics
    store = context.store
    by_topic: dict[str, dict[int, QueueInfo]] = {}
    try:
        for queue in store.queues():
            by_topic.setdefault(queue.topic, {})[queue.queue_id] = queue
        plugins = store.plugins()
        log_start, log_end = store.log.min_physical_offset, store.log.max_physical_offset
        offsets = context.plugin.offsets()
        groups = {
            name: _of_group(broker, name, offsets.get(name, {}), by_topic)
            for name in context.plugin.groups()
        }
        health = health_of(plugins, store.log.flusher.failure if store.writable else None)
    except (ReputError, OSError) as error:
        plugins, groups, log_start, log_end = [], {}, 0, 0
        health = Health("failing", (str(error),))
    counts, sizes = counted.totals(TOPIC_PUT_NUMS), counted.totals(TOPIC_PUT_SIZE)
    topics = {
        name: TopicFigures(
            sum(each.message_count for each in by_topic.get(name, {}).values()),
            len(by_topic.get(name, ())),
            counts.get(name, 0),
            sizes.get(name, 0),
            counted.put_rate_of(name),
        )
        for name in sorted({*counts, *by_topic})
    }
    got_sizes = counted.totals(GROUP_GET_SIZE)
    got = {
        _pair(key): (count, got_sizes.get(key, 0))
        for key, count in counted.totals(GROUP_GET_NUMS).items()
    }
    return {
        "out": _out(broker),
        "put_count": counted.put_rate.total,
        "put_rate": counted.minute_rate_of_puts(),
        "get_count": counted.get_rate.total,
        "get_rate": counted.minute_rate_of_gets(),
        "topics": topics,
        "groups": groups,
        "got": got,
        "sent_back": {_pair(key): each for key, each in counted.totals(SNDBCK_PUT_NUMS).items()},
        "plugins": plugins,
        "log_start": log_start,
        "log_end": log_end,
        "health": health,
    }


def _out(broker: Broker) -> dict[str, tuple[int, int]]:
    found: dict[str, tuple[int, int]] = {}
    for each in broker.context.plugin.popper.out():
        count, since = found.get(each.group, (0, each.since_timestamp))
        found[each.group] = count + each.count, min(since, each.since_timestamp)
    return found


def _pair(key: str) -> tuple[str, str]:
    topic, _, group = key.partition("@")
    return topic, group


def _of_group(
    broker: Broker,
    name: str,
    offsets: dict[tuple[str, int], int],
    by_topic: Mapping[str, Mapping[int, QueueInfo]],
) -> GroupFigures:
    context = broker.context
    retries = retry_topic(name)
    for queue_id in by_topic.get(retries, ()):
        offsets.setdefault((retries, queue_id), 0)  # not read yet, and behind all the same
    lag = 0
    for (topic, queue_id), offset in offsets.items():
        queue = by_topic.get(topic, {}).get(queue_id)
        if queue is not None:
            lag += max(queue.max_queue_offset - max(offset, queue.min_queue_offset), 0)
    topics = tuple(sorted({topic for topic, _ in offsets}))
    rate = context.statistics.get_rate_of(name, topics)
    port = context.plugin.port
    return GroupFigures(lag, len(port.members(name)), rate, topics, port.is_mixed(name))


def health_of(plugins: Sequence[PluginState], failure: object) -> Health:
    """Return whether a server is well.

    Args:
        plugins: the store's.
        failure: why the log cannot be flushed; None if it can.
    """
    standing = [each for each in plugins if each.state not in _RUNNING]
    reasons = [
        f"plugin {each.name} is {each.state}" + (f": {each.last_error}" if each.last_error else "")
        for each in standing
    ]
    if failure is not None:
        reasons.insert(0, f"the log cannot be flushed, so nothing is stored: {failure}")
    is_failing = failure is not None or any(each.name == _QUEUES for each in standing)
    status = "failing" if is_failing else "degraded" if reasons else "ok"
    return Health(status, tuple(reasons))
