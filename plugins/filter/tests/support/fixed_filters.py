"""A filter plugin with the same registered filters in each store, and what extend files hold."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

import reput
from reput_filter import FilterConfig, FilterPlugin

EXPRESSIONS = (
    "TAGS IS NOT NULL",
    "KEYS IS NOT NULL AND TAGS IS NULL",
    "n = 1 OR region = 'eu'",
    "TAGS = 'paid'",
)


class FixedFilters(FilterPlugin):
    """Computes bit maps for filters of all topics that occur, registered before any message.

    What bit maps say depends on when filters were registered. With these it does not, so that two
    stores of one log can be compared byte for byte.
    """

    name: ClassVar[str] = "filter"

    def _write(self, consumers):
        """Save nothing: they are the same again without."""

    @reput.hookimpl
    def reput_enrich(self, batch):
        """Register for topics that are new, then compute."""
        for topic in batch.topics:
            for number, expression in enumerate(EXPRESSIONS):
                if self.consumers.find(topic, f"g{number}") is None:
                    self.register(f"g{number}", topic, expression)
        return self.consumers.bit_maps(batch)


def with_bit_maps():
    """Such a plugin."""
    return FixedFilters(FilterConfig(bit_maps=True))


def extend_units(plugin):
    """Tags code, store time and bit map of each message, by queue, out of the extend files."""
    found = {}
    for info in plugin.reput_queues():
        queue = plugin.queues[info.topic, info.queue_id]
        units = []
        while len(units) < info.max_queue_offset - info.min_queue_offset:
            at = info.min_queue_offset + len(units)
            part = queue.files.read(at, info.max_queue_offset - at)
            codes = part["tags_code"].astype(np.int64)
            extends = queue.extend.read(codes)
            assert extends.is_known.all()
            units += zip(
                part["physical_offset"].tolist(),
                extends.tags_codes.tolist(),
                extends.store_timestamps.tolist(),
                extends.bit_maps,
                strict=True,
            )
        if info.max_queue_offset:
            found[info.topic, info.queue_id] = (info.min_queue_offset, units)
    return found
