"""Reads the metrics of a store: one that this process has open, or one at a path.

A `Sampler` reads at most once in a while, as one scrape asks for many metrics.
"""

from __future__ import annotations

import os
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

import attrs

from reput.errors import ConfigError, NoReaderError, PluginError, ReputError
from reput.storefiles import READING, Phase
from reput_tools.metrics.metriclist import METRICS
from reput_tools.offline import inspect_store

if TYPE_CHECKING:
    from reput import Store
    from reput_tools.offline import Traces

TOPICS_MAX: Final = 1_000
"""Topics that have labels of their own, those with the most messages; the others are one."""
OTHERS: Final = "(others)"
_RUNNING: Final = frozenset({Phase.RUNNING.value, Phase.RETRYING.value, READING})


@attrs.frozen
class Buckets:
    """A histogram: the value of a sample."""

    by_bound: tuple[tuple[float | None, int], ...]
    """Upper bounds, ascending, and how many were counted up to each, those below it included; the
    last bound is None, for infinity."""
    total: float


@attrs.frozen
class Sample:
    """One value of one metric."""

    name: str
    value: float | Buckets
    labels: tuple[str, ...] = ()
    """Values of the metric's labels, in their order."""


Samples = list[Sample]


def of_store(store: Store) -> Samples:
    """Return the metrics of an open store; only that it is down if it is closed."""
    try:
        return _all_of(store)
    except (ReputError, OSError):
        return _constants(0)


def _all_of(store: Store) -> Samples:
    return [*_constants(1), *_of_log(store), *_of_queues(store), *_of_root(store.root)]


def of_path(
    path: str | os.PathLike[str],
    *,
    follow_links: bool = False,
    tell: Callable[[str], None] = lambda problem: None,
) -> Samples:
    """Return the metrics of the store at ``path``, which another process may be writing.

    Plugins that are missing or broken are left out. What only the writer knows, such as how long
    it waits for the disk, is not among them.

    Args:
        path: the store's directory.
        follow_links: as for `reput.open`.
        tell: called with each text of `reput.Store.problems`, and with why plugins are left out.

    Raises:
        ReputError: the store cannot be opened.
        OSError: likewise.
    """
    import reput

    options: dict[str, Any] = {"follow_links": follow_links}
    try:
        store = reput.open(path, "r", **options)
    except (ConfigError, PluginError) as error:
        tell(f"all plugins are left out: {error}")
        store = reput.open(path, "r", plugins=(), **options)
    with store:
        for problem in store.problems:
            tell(problem)
        return _all_of(store)


def _constants(up: int) -> Samples:
    import reput
    from reput.engine import ENGINE

    labels = (reput.__version__, ENGINE.name)
    return [Sample("reput_up", up), Sample("reput_build_info", 1, labels)]


# ---------------------------------------------------------------------------- the log and plugins


def _of_log(store: Store) -> Iterator[Sample]:
    facts = store.report()
    log = facts["log"]
    low, high = log["min_physical_offset"], log["max_physical_offset"]
    yield Sample("reput_log_appended_bytes_total", high)
    yield Sample("reput_log_start_bytes", low)
    yield Sample("reput_log_size_bytes", high - low)
    yield Sample("reput_log_files", log["file_count"])
    if store.writable:
        yield Sample("reput_log_unflushed_bytes", max(high - store.log.flushed_offset, 0))
        yield Sample("reput_flush_wait_seconds", _buckets(log["flush_waits"]))
        yield Sample("reput_reads_total", facts["reads"]["count"])
        yield Sample("reput_read_messages_total", facts["reads"]["message_count"])
    losses = store.losses()
    yield Sample("reput_losses", len(losses))
    yield Sample("reput_lost_bytes", sum(each.size for each in losses))
    yield Sample("reput_problems", len(store.problems))
    for name, about in facts["plugins"].items():
        yield from _of_plugin(name, about)


def _buckets(waits: Mapping[str, Any]) -> Buckets:
    counted, pairs = 0, []
    for bound, count in waits["by_seconds"]:
        counted += count
        pairs.append((bound, counted))
    return Buckets(tuple(pairs), waits["seconds"])


_COUNTED: Final = {
    "lag_size": ("reput_plugin_lag_bytes", 1.0),
    "lag_count": ("reput_plugin_lag_messages", 1.0),
    "dispatched_to": ("reput_plugin_dispatched_bytes_total", 1.0),
    "batch_count": ("reput_plugin_batches_total", 1.0),
    "message_count": ("reput_plugin_messages_total", 1.0),
    "total_batch_ms": ("reput_plugin_batch_seconds_total", 0.001),
    "max_batch_ms": ("reput_plugin_batch_max_seconds", 0.001),
    "failure_count": ("reput_plugin_failures_total", 1.0),
    "skipped_count": ("reput_plugin_skipped_messages_total", 1.0),
}
_KNOWN: Final = frozenset({*_COUNTED, "mean_batch_ms", "lag_is_exact"})


def _of_plugin(name: str, facts: Mapping[str, Any]) -> Iterator[Sample]:
    state = str(facts["state"])
    yield Sample("reput_plugin_up", int(state in _RUNNING), (name,))
    yield Sample("reput_plugin_state", 1, (name, state))
    for fact, (metric, factor) in _COUNTED.items():
        yield Sample(metric, facts[fact] * factor if factor != 1 else facts[fact], (name,))
    for fact, value in facts.items():
        if fact not in _KNOWN and isinstance(value, int | float) and not isinstance(value, bool):
            yield Sample("reput_plugin_fact", value, (name, fact))


# ---------------------------------------------------------------------------- queues


def _of_queues(store: Store) -> Iterator[Sample]:
    try:
        queues = store.queues()
    except NoReaderError:
        return  # no plugin knows of queues
    ever: defaultdict[str, int] = defaultdict(int)
    stored: defaultdict[str, int] = defaultdict(int)
    count: defaultdict[str, int] = defaultdict(int)
    for each in queues:
        ever[each.topic] += each.max_queue_offset
        stored[each.topic] += each.message_count
        count[each.topic] += 1
    yield Sample("reput_queues", len(queues))
    yield Sample("reput_topics", len(count))
    kept = set(sorted(count, key=lambda topic: (-ever[topic], topic))[:TOPICS_MAX])
    for metric, numbers in (
        ("reput_topic_messages_total", ever),
        ("reput_topic_stored_messages", stored),
        ("reput_topic_queues", count),
    ):
        for topic in sorted(kept):
            yield Sample(metric, numbers[topic], (topic,))
        rest = [value for topic, value in numbers.items() if topic not in kept]
        if rest:
            yield Sample(metric, sum(rest), (OTHERS,))


# ---------------------------------------------------------------------------- the directory


def _of_root(root: str) -> Iterator[Sample]:
    found: Traces = inspect_store(root, follow_links=True)
    yield Sample("reput_writer_up", int(found.is_open))
    for part, size in sorted(found.sizes().items()):
        yield Sample("reput_disk_used_bytes", size, (part,))
    used, free = found.disk.usage(root)
    yield Sample("reput_disk_free_bytes", free)
    yield Sample("reput_disk_filled_ratio", used / (used + free) if used + free else 0.0)


# ---------------------------------------------------------------------------- now and then


@attrs.define(eq=False)
class Sampler:
    """Reads metrics, once in ``max_age`` seconds at most. Thread-safe: two may read at once."""

    read: Callable[[], Samples]
    """What it raises counts as a store that is down, but for `read_now`."""
    max_age: float = 1.0
    monotonic: Callable[[], float] = time.monotonic
    _last: tuple[float, Samples] | None = None

    def samples(self) -> Samples:
        """Return the metrics as they were read last, or now."""
        last, now = self._last, self.monotonic()
        if last is None or now - last[0] >= self.max_age:
            try:
                found = self.read()
            except (ReputError, OSError):
                found = _constants(0)
            last = self._last = now, found
        return last[1]

    def read_now(self) -> Samples:
        """Return the metrics as they are now.

        Raises:
            ReputError: the store cannot be read.
            OSError: likewise.
        """
        found = self.read()
        self._last = self.monotonic(), found
        return found

    def by_name(self) -> dict[str, Samples]:
        """Return the metrics by name; every name of `METRICS` that has a value."""
        found: dict[str, Samples] = {}
        for sample in self.samples():
            assert sample.name in METRICS, sample.name
            found.setdefault(sample.name, []).append(sample)
        return found
