"""Find out which topics are compacted: by the option, and by RocketMQ's topic table."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import TYPE_CHECKING

from reput_compaction.filepairs.queuenames import is_topic
from reput_tools.brokerfiles import BrokerDocument

if TYPE_CHECKING:
    from reput.plugin import StoreContext

logger = logging.getLogger(__name__)

_ATTRIBUTE = "cleanup.policy"
_POLICY = "COMPACTION"


def compacted_topics(context: StoreContext, configured: Iterable[str]) -> frozenset[str]:
    """Return the compacted topics; names that cannot be directories are reported and left out."""
    found = set(configured)
    document = BrokerDocument(
        context.directory("config"),
        "topics.json",
        context.disk,
        context.clock,
        context.note_problem,
    ).read()
    table = document.get("topicConfigTable")
    for name, about in table.items() if isinstance(table, dict) else ():
        attributes = about.get("attributes") if isinstance(about, dict) else None
        policy = attributes.get(_ATTRIBUTE) if isinstance(attributes, dict) else None
        if policy == _POLICY:
            found.add(name)
    for name in sorted(name for name in found if not is_topic(name)):
        logger.warning("a topic of this name cannot be compacted topic=%r", name)
        found.discard(name)
    return frozenset(found)
