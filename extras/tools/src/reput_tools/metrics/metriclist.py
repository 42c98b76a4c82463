"""The metrics of a store: names, kinds and what they mean. A new metric is one entry here."""

from __future__ import annotations

from typing import Final, Literal

import attrs

Kind = Literal["gauge", "counter", "histogram"]


@attrs.frozen
class Metric:
    """One metric."""

    name: str
    """As Prometheus has it: counters end in ``_total``, and units are spelled out."""
    kind: Kind
    text: str
    """What it means, in one line."""
    labels: tuple[str, ...] = ()

    @property
    def unit(self) -> str:
        """The unit that the name states: ``bytes``, ``seconds``, or empty."""
        words = self.name.split("_")
        return next((word for word in ("bytes", "seconds") if word in words), "")


_PLUGIN: Final = ("plugin",)
_LISTED: Final = (
    Metric("reput_up", "gauge", "1 if the store could be read, 0 if not."),
    Metric("reput_build_info", "gauge", "Always 1.", ("version", "engine")),
    Metric("reput_writer_up", "gauge", "1 if a process has the store open for writing."),
    Metric(
        "reput_problems",
        "gauge",
        "Problems found when the store was opened for reading: a damaged file of the directory "
        "reput or config, a missing log file, a plugin that is not installed, and others.",
    ),
    # ------------------------------------------------------------------ the log
    Metric(
        "reput_log_appended_bytes_total",
        "counter",
        "Bytes ever put: the physical offset at which the log ends.",
    ),
    Metric("reput_log_start_bytes", "gauge", "Physical offset at which the log begins."),
    Metric("reput_log_size_bytes", "gauge", "Bytes of the log, from its beginning to its end."),
    Metric("reput_log_files", "gauge", "Files of the log."),
    Metric("reput_log_unflushed_bytes", "gauge", "Bytes at the log's end that are not on disk."),
    Metric(
        "reput_flush_wait_seconds",
        "histogram",
        "How long callers waited until their messages were on disk.",
    ),
    Metric("reput_losses", "gauge", "Ranges of the log that are known to be lost."),
    Metric("reput_lost_bytes", "gauge", "Bytes of the log that are known to be lost."),
    # ------------------------------------------------------------------ queues and reads
    Metric("reput_reads_total", "counter", "Reads of queues by this process."),
    Metric("reput_read_messages_total", "counter", "Messages that these reads returned."),
    Metric("reput_queues", "gauge", "Queues of all topics."),
    Metric("reput_topics", "gauge", "Topics that have a queue."),
    Metric(
        "reput_topic_messages_total",
        "counter",
        "Messages ever put in a topic: the sum of its queues' ends.",
        ("topic",),
    ),
    Metric("reput_topic_stored_messages", "gauge", "Messages of a topic in the store.", ("topic",)),
    Metric("reput_topic_queues", "gauge", "Queues of a topic.", ("topic",)),
    # ------------------------------------------------------------------ plugins
    Metric(
        "reput_plugin_up", "gauge", "1 if a plugin gets messages, 0 if it has stopped.", _PLUGIN
    ),
    Metric("reput_plugin_state", "gauge", "1 for the plugin's state.", ("plugin", "state")),
    Metric("reput_plugin_lag_bytes", "gauge", "Bytes of the log that a plugin lacks.", _PLUGIN),
    Metric("reput_plugin_lag_messages", "gauge", "Messages that a plugin lacks.", _PLUGIN),
    Metric(
        "reput_plugin_dispatched_bytes_total",
        "counter",
        "Bytes of the log that a plugin has seen: a physical offset.",
        _PLUGIN,
    ),
    Metric("reput_plugin_batches_total", "counter", "Batches that a plugin was given.", _PLUGIN),
    Metric(
        "reput_plugin_messages_total", "counter", "Messages in the batches of a plugin.", _PLUGIN
    ),
    Metric(
        "reput_plugin_batch_seconds_total",
        "counter",
        "Time that a plugin took for its batches.",
        _PLUGIN,
    ),
    Metric("reput_plugin_batch_max_seconds", "gauge", "Longest time for a batch.", _PLUGIN),
    Metric("reput_plugin_failures_total", "counter", "Failed calls of a plugin.", _PLUGIN),
    Metric(
        "reput_plugin_skipped_messages_total",
        "counter",
        "Messages that a plugin failed on and that were skipped.",
        _PLUGIN,
    ),
    Metric(
        "reput_plugin_fact",
        "gauge",
        "A number that a plugin reports of itself.",
        ("plugin", "fact"),
    ),
    # ------------------------------------------------------------------ the disk
    Metric("reput_disk_used_bytes", "gauge", "Bytes of a part of the store on disk.", ("part",)),
    Metric("reput_disk_free_bytes", "gauge", "Bytes that are free in the file system."),
    Metric("reput_disk_filled_ratio", "gauge", "Part of the file system in use, 0 to 1."),
)
METRICS: Final = {each.name: each for each in _LISTED}
"""All metrics by name."""
