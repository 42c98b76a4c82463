"""``config/consumerFilter.json``: the registered filters, as a broker keeps them.

A filter that is alive in the file is dead after loading, since half a minute ago or since it was
born, until its consumer comes back.

Source: RocketMQ ``ConsumerFilterManager#encode``, ``#decode``.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable
from typing import Any, Final

from reput.files import brokerjson
from reput_filter.consumerfilters.bloomfilter import BloomFilter
from reput_filter.consumerfilters.consumerfilter import ConsumerFilter
from reput_filter.errors import ExpressionError
from reput_filter.expression import Expression
from reput_filter.filterkinds import SQL92

logger = logging.getLogger(__name__)

__all__ = ["decode", "encode"]

_GRACE_MS: Final = 30_000
_DAMAGE: Final = (
    ValueError,
    LookupError,
    TypeError,
    AttributeError,
    ArithmeticError,
    RecursionError,
)  # raised by JSON of any other content


def encode(consumers: Iterable[ConsumerFilter]) -> bytes:
    """Return the file's text; with tabs and without blanks, as RocketMQ writes it."""
    by_topic: dict[str, Any] = {}
    for each in sorted(consumers, key=lambda each: (each.topic, each.group)):
        entry = by_topic.setdefault(each.topic, {"groupFilterData": {}, "topic": each.topic})
        entry["groupFilterData"][each.group] = {
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
    text = brokerjson.encode({"filterDataByTopic": by_topic})
    return text.encode("utf-8", "surrogatepass")


def decode(
    data: bytes,
    bloom: BloomFilter,
    now: int,
    *,
    alive: bool = False,
    tell: Callable[[str], None] = lambda text: None,
) -> list[ConsumerFilter]:
    """Return the filters of a file; none if it cannot be read, or its bits are of other maps.

    Args:
        data: the file.
        bloom: of the bit maps that are computed now.
        now: ms.
        alive: keep filters alive, for readers in another process than the writer.
        tell: called with the reason if the file cannot be read.
    """
    try:
        found = [
            _consumer(entry, now, alive)
            for topic in json.loads(data)["filterDataByTopic"].values()
            for entry in topic["groupFilterData"].values()
        ]
    except _DAMAGE as error:
        logger.warning("registered filters are not readable error=%r", error)
        tell(f"damaged, and ignored: {error!r}")
        return []
    consumers = [each for each in found if each is not None]
    for each in consumers:
        same = (len(each.positions), each.bit_count) == (bloom.hash_count, bloom.bit_count)
        if not same or not all(0 <= position < bloom.bit_count for position in each.positions):
            logger.warning("registered filters are of other bit maps, and all forgotten")
            return []
    return consumers


def _consumer(entry: Any, now: int, alive: bool) -> ConsumerFilter | None:
    if entry["expressionType"] != SQL92:
        return None
    born, dead = int(entry["bornTime"]), int(entry["deadTime"])
    if not alive and dead < born:
        dead = max(born, now - _GRACE_MS)
    bits = entry["bloomFilterData"]
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
