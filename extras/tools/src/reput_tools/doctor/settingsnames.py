"""The names in ``config/`` whose meaning reput knows."""

from __future__ import annotations

from typing import Final

from reput.files import is_system_name
from reput_tools.brokerfiles import COPY_SUFFIX

__all__ = ["is_known_setting"]

_KNOWN: Final = frozenset(
    {
        "consumerFilter.json",
        "consumerOffset.json",
        "consumerOrderInfo.json",
        "delayOffset.json",
        "lmqConsumerOffset.json",
        "messageRequestMode.json",
        "subscriptionGroup.json",
        "timercheck",
        "timermetrics",
        "topicQueueMapping.json",
        "topics.json",
        "transactionMetrics",
    }
)
"""Files of brokers. Directories of RocksDB have rows in the table of brokers' files."""
_DATABASES: Final = frozenset(
    {"consumerOffsets", "metadata", "rdb", "subscriptionGroups", "topics"}
)
_SUFFIXES: Final = (".bak", ".new", ".tmp")
"""Of a copy, and of a file that is being replaced."""


def is_known_setting(name: str) -> bool:
    """Whether reput or a broker uses a name in ``config/``, also as a copy of a file."""
    if is_system_name(name) or COPY_SUFFIX in name or name in _DATABASES:
        return True
    for suffix in _SUFFIXES:
        name = name.removesuffix(suffix)
    return name in _KNOWN
