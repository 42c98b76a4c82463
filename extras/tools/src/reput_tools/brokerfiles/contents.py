"""The members that the documents of ``config/`` have, by which one is known from another."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from reput_tools.brokerfiles.loosevalues import same_name

TABLES: Final = {
    "consumerFilter.json": ("filterDataByTopic",),
    "consumerOffset.json": ("offsetTable",),
    "consumerOrderInfo.json": ("table",),
    "delayOffset.json": ("offsetTable",),
    "lmqConsumerOffset.json": ("offsetTable", "lmqOffsetTable"),
    "messageRequestMode.json": ("messageRequestModeMap",),
    "subscriptionGroup.json": ("subscriptionGroupTable", "forbiddenTable"),
    "timermetrics": ("timingCount",),
    "topicQueueMapping.json": ("topicQueueMappingInfoMap",),
    "topics.json": ("topicConfigTable",),
    "transactionMetrics": ("transactionCount",),
}
"""Documents of brokers, with the members that have their content; each has one of them, or nothing
but a version. Directories of RocksDB have rows in the table of brokers' files."""
_VERSION: Final = "dataVersion"


def wrong_content(name: str, document: Mapping[str, Any]) -> str | None:
    """Return why a document cannot be the one of that name; None if it can, or the name is unknown.

    Members are compared as brokers do, which take another spelling; a document that has nothing
    but a version is an empty one of any name.
    """
    tables = TABLES.get(name.removesuffix(".bak"))
    if tables is None:
        return None
    members = [each for each in document if not same_name(str(each), _VERSION)]
    found = [each for each in members if any(same_name(str(each), table) for table in tables)]
    if members and not found:
        other = next((file for file, its in TABLES.items() if set(its) & set(members)), None)
        return f"the content of {other}" if other else f"members {', '.join(sorted(members)[:3])}"
    for each in found:
        if document[each] is not None and not isinstance(document[each], dict):
            return f"{each!r} is not a table"
    return None


def expected_content(name: str) -> str:
    """Return what a document of that name has."""
    return "an object " + " or ".join(f'"{each}"' for each in TABLES[name.removesuffix(".bak")])
