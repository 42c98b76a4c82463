"""``config/consumerFilter.json``: the registered filters, as a broker keeps them.

A filter that is alive in the file is dead after loading, since half a minute ago or since it was
born, until its consumer comes back.

Source: RocketMQ ``ConsumerFilterManager#encode``, ``#decode``.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import Any, Final

from reput_filter.consumerfilters.bloomfilter import BloomFilter
from reput_filter.consumerfilters.consumerfilter import ConsumerFilter
from reput_filter.errors import ExpressionError
from reput_filter.filterkinds import SQL92
from reput_tools.brokerfiles import table_of

logger = logging.getLogger(__name__)

_TABLE: Final = "filterDataByTopic"
_ENTRIES: Final = "groupFilterData"
_GRACE_MS: Final = 30_000
_DAMAGE: Final = (
    ValueError,
    LookupError,
    TypeError,
    AttributeError,
    ArithmeticError,
    RecursionError,
)  # raised by JSON of any other content


def encode(consumers: Iterable[ConsumerFilter]) -> dict[str, Any]:
    """Return the file's document."""
    by_topic: dict[str, Any] = {}
    for each in sorted(consumers, key=lambda each: (each.topic, each.group)):
        entry = by_topic.setdefault(each.topic, {_ENTRIES: {}, "topic": each.topic})
        entry[_ENTRIES][each.group] = {
            "bloomFilterData": {"bitNum": each.bit_count, "bitPos": list(each.positions)},
            "bornTime": each.born_timestamp,
            "clientVersion": each.version,
            "consumerGroup": each.group,
            "dead": each.is_dead,
            "deadTime": each.dead_timestamp,
            "expression": each.expression,
            "expressionType": each.kind,
            "topic": each.topic,
        }
    return {_TABLE: by_topic}


def check(document: Mapping[str, Any]) -> None:
    """Refuse a document whose entries cannot be read.

    Raises:
        ValueError: the document has something else there; a broker does not read it either.
    """
    _consumers_in(document, 0, alive=True)


def decode(
    document: Mapping[str, Any],
    bloom: BloomFilter,
    now: int,
    *,
    alive: bool = False,
) -> list[ConsumerFilter]:
    """Return the filters of a document; none if its bits are of other maps.

    Args:
        document: one that `check` allows.
        bloom: of the bit maps that are computed now.
        now: ms.
        alive: keep filters alive, for readers in another process than the writer.
    """
    consumers = _consumers_in(document, now, alive=alive)
    for each in consumers:
        same = (len(each.positions), each.bit_count) == (bloom.hash_count, bloom.bit_count)
        if not same or not all(0 <= position < bloom.bit_count for position in each.positions):
            logger.warning("registered filters are of other bit maps, and all forgotten")
            return []
    return consumers


def _consumers_in(document: Mapping[str, Any], now: int, *, alive: bool) -> list[ConsumerFilter]:
    by_topic = table_of(document, _TABLE)
    try:
        found = [
            _consumer(entry, now, alive)
            for topic in by_topic
            for entry in table_of(table_of(by_topic, topic), _ENTRIES).values()
        ]
    except _DAMAGE as error:
        raise ValueError(f"a filter cannot be read: {error!r}") from error
    return [each for each in found if each is not None]


def _consumer(entry: Any, now: int, alive: bool) -> ConsumerFilter | None:
    if entry["expressionType"] != SQL92:
        return None
    born, dead = int(entry["bornTime"]), int(entry["deadTime"])
    if not alive and dead < born:
        dead = max(born, now - _GRACE_MS)
    bits = entry["bloomFilterData"]
    from reput_filter.expression import Expression  # a store without registrations needs no parser

    try:
        compiled = Expression(str(entry["expression"]))
    except ExpressionError as error:
        logger.warning("a registered filter does not compile: %s", error)
        return None
    return ConsumerFilter(
        str(entry["consumerGroup"]),
        str(entry["topic"]),
        compiled.text,
        int(entry["clientVersion"]),
        born,
        dead,
        tuple(int(position) for position in bits["bitPos"]),
        int(bits["bitNum"]),
        compiled,
    )
