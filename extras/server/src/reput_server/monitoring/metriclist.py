"""The metrics of a server: names, kinds and what they mean. A new metric is one entry here."""

from __future__ import annotations

from typing import Final

from reput_tools.metrics import Metric

_PORT: Final = ("port",)
_TOPIC: Final = ("topic",)
_GROUP: Final = ("group",)
_REPLICA: Final = ("replica",)
_BOTH: Final = ("topic", "group")
_LISTED: Final = (
    Metric("reput_server_info", "gauge", "Always 1.", ("broker", "cluster", "address")),
    Metric("reput_server_up", "gauge", "0 if /health reports the status failing, otherwise 1."),
    Metric("reput_server_start_seconds", "gauge", "When it started, since the epoch."),
    # ------------------------------------------------------------------ connections
    Metric("reput_server_connections", "gauge", "Connections.", _PORT),
    Metric("reput_server_requests_total", "counter", "Requests.", _PORT),
    Metric("reput_server_working_bytes", "gauge", "Bytes of requests that are worked on.", _PORT),
    Metric(
        "reput_server_unread_bytes", "gauge", "Bytes of answers that peers leave unread.", _PORT
    ),
    Metric("reput_server_producers", "gauge", "Clients of a producer group.", _GROUP),
    # ------------------------------------------------------------------ clients of RocketMQ 5
    Metric("reput_server_call_clients", "gauge", "Clients of RocketMQ 5."),
    Metric("reput_server_call_streams", "gauge", "Streams of these clients that are open."),
    Metric("reput_server_waiting_receives", "gauge", "Receives that wait for a message."),
    Metric(
        "reput_server_calls_total",
        "counter",
        "Answers to the gRPC calls of clients of RocketMQ 5, by call and code.",
        ("call", "code"),
    ),
    Metric(
        "reput_server_group_out_messages",
        "gauge",
        "Messages that a group has received by pop and has not acknowledged.",
        _GROUP,
    ),
    Metric(
        "reput_server_group_out_seconds",
        "gauge",
        "Time since the oldest of these messages was delivered.",
        _GROUP,
    ),
    # ------------------------------------------------------------------ what waits
    Metric("reput_server_held_pulls", "gauge", "Pulls that wait for a message."),
    Metric(
        "reput_server_waiting_sends",
        "gauge",
        'Sends that are not stored yet, or with `flush = "sync"` not on disk yet.',
    ),
    Metric("reput_server_waiting_send_seconds", "gauge", "How long the first has waited."),
    Metric("reput_server_waiting_reads", "gauge", "Reads that wait for a thread."),
    Metric("reput_server_waiting_read_seconds", "gauge", "How long the first has waited."),
    # ------------------------------------------------------------------ times
    Metric("reput_server_send_seconds", "histogram", "From a send's arrival to its answer."),
    Metric(
        "reput_server_put_seconds",
        "histogram",
        'Time of a put of all sends that have arrived; with `flush = "sync"`, of a flush.',
    ),
    Metric("reput_server_read_seconds", "histogram", "Time of a read for a pull."),
    Metric("reput_server_failed_sends_total", "counter", "Sends that were not stored."),
    # ------------------------------------------------------------------ replicas
    Metric("reput_server_replicas", "gauge", "Replicas that get the log."),
    Metric(
        "reput_server_replicas_in_sync",
        "gauge",
        "Replicas whose acknowledged offset is less than 256 MiB before the end of the log.",
    ),
    Metric("reput_server_sync_replicas", "gauge", "Replicas that a send waits for."),
    Metric(
        "reput_server_late_rounds_total",
        "counter",
        "Puts that were stored, but that too few replicas acknowledged in time, or for which too "
        "few replicas were in sync.",
    ),
    Metric(
        "reput_server_replica_lag_bytes",
        "gauge",
        "Bytes of the log that a replica has not acknowledged; for an observer, the end offset of "
        "the log.",
        _REPLICA,
    ),
    Metric("reput_server_replica_sent_bytes_total", "counter", "Bytes of the log sent.", _REPLICA),
    Metric(
        "reput_server_replica_unread_bytes",
        "gauge",
        "Bytes that wait until the replica reads them.",
        _REPLICA,
    ),
    # ------------------------------------------------------------------ messages
    Metric("reput_server_put_messages_total", "counter", "Messages that came.", _TOPIC),
    Metric("reput_server_put_bytes_total", "counter", "Bytes of their records.", _TOPIC),
    Metric("reput_server_got_messages_total", "counter", "Messages handed out.", _BOTH),
    Metric("reput_server_got_bytes_total", "counter", "Bytes of their records.", _BOTH),
    Metric("reput_server_sent_back_total", "counter", "Messages given back.", _BOTH),
    # ------------------------------------------------------------------ groups
    Metric(
        "reput_server_group_lag_messages",
        "gauge",
        "Messages that a group has not consumed, retries included.",
        _GROUP,
    ),
    Metric("reput_server_group_members", "gauge", "Members of a consumer group.", _GROUP),
    Metric(
        "reput_server_group_mixed",
        "gauge",
        "1 if members of a group subscribe differently, so that messages are left out.",
        _GROUP,
    ),
)
METRICS: Final = {each.name: each for each in _LISTED}
"""All metrics by name."""
