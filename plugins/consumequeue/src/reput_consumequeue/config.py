"""`ConsumeQueueConfig`: the options of the plugin ``consumequeue``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import attrs
from attrs.validators import instance_of

from reput.plugin import INT32_MAX, integer_between
from reput_consumequeue.layout import UNIT_SIZE, UNITS_PER_FILE


@attrs.frozen(kw_only=True)
class ConsumeQueueConfig:
    """Options of the ``consumequeue`` plugin."""

    units_per_file: int = attrs.field(
        default=UNITS_PER_FILE, validator=integer_between(2, INT32_MAX // UNIT_SIZE)
    )
    """Units in one file; a unit is the entry of 20 bytes that a queue has for each message. 300,000
    units are 6 MB. Existing files keep their size. Files take up disk space only as they fill.

    Lower it when a store has thousands of queues that keep few messages each.
    """
    small_sizes: ClassVar[Mapping[str, Any]] = {
        # 1.25 MiB: as many messages in each of 4 queues as a log file of 64 MiB holds.
        "units_per_file": 65_536,
    }
    """Options of new stores that are not made for a broker."""
    extend: bool = attrs.field(default=False, validator=instance_of(bool))
    """Keep tags code, store time and bit map of each message in extend files. A bit map shows which
    registered filters select the message. Reads with a registered filter can then skip messages
    without reading their records. Other reads need one more lookup in these files. Existing extend
    files are read in any case.

    Turn it on when consumers select few messages of a queue by an SQL expression.
    """

    removed_options: ClassVar[Mapping[str, str]] = {
        "multi_dispatch": "light queues are listed if max_light_queues of [commitlog] is above 0",
        "max_open_files": "the plugin opens files again when needed",
        "extend_file_size": "existing files keep their size, and new stores get RocketMQ's",
    }
