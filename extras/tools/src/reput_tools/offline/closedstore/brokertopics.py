"""Adds the topics of a closed store to ``config/topics.json``, so that a broker serves them.

A store of reput has a topic as soon as a message of it is put. A broker serves only the topics that
the file names, with queues numbered from 0. Brokers know their own topics without the file.

Source: RocketMQ ``TopicConfigManager`` and ``TopicConfig``.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Final

from reput.files import system_clock
from reput.record.layout import LIGHT_QUEUE_PREFIX
from reput_tools.brokerfiles import (
    BrokerDocument,
    integer_of,
    member_of,
    plain_name,
    section_of,
    table_of,
)
from reput_tools.offline.reservednames import FORBIDDEN_TOPICS, SYSTEM_PREFIXES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from reput_tools.offline.closedstore.lockedstore import ClosedStore

_TABLE: Final = "topicConfigTable"
_READ: Final = "readQueueNums"
_PLAIN_READ: Final = plain_name(_READ)
_WRITE: Final = "writeQueueNums"
_QUEUES_MAX: Final = 65_536
_BITS: Final = 32
_OWN_PREFIXES: Final = (*SYSTEM_PREFIXES, LIGHT_QUEUE_PREFIX)
_NEW_ENTRY: Final = {
    "attributes": {},
    "order": False,
    "perm": 6,
    "topicFilterType": "SINGLE_TAG",
    "topicSysFlag": 0,
}


def topics_document(closed: ClosedStore) -> BrokerDocument:
    """Return the file of a closed store."""
    directory = os.path.join(closed.root, "config")
    return BrokerDocument(directory, "topics.json", closed.disk, system_clock, check=_check)


def add_topics(document: BrokerDocument, queues: Mapping[str, int], default: int) -> list[str]:
    """Add topics, and queues that an entry does not have; return the changed topics, sorted.

    Args:
        document: the file.
        queues: the highest queue id of each topic, plus 1; more than a broker can have are left
            out, and so are topics that a broker adds itself.
        default: queues of a new topic, at least.

    Raises:
        OSError: the file cannot be written, or what it says cannot be read.
    """
    changed = {}

    def edit(found: dict[str, Any]) -> bool:
        table = section_of(found, _TABLE)
        for topic, count in sorted(queues.items()):
            if topic in FORBIDDEN_TOPICS or topic.startswith(_OWN_PREFIXES) or count > _QUEUES_MAX:
                continue
            entry = table.get(topic)
            if not isinstance(entry, dict):
                numbers = {_READ: max(count, default), _WRITE: max(count, default)}
                entry = {**_NEW_ENTRY, **numbers, "topicName": topic}
            elif max(_number(entry, _READ), _number(entry, _WRITE)) < count:
                # As a running store does; an operator may have closed queues to readers.
                others = {n: each for n, each in entry.items() if plain_name(n) != _PLAIN_READ}
                entry = {**others, _READ: count}
            else:
                continue
            changed[topic] = table[topic] = dict(sorted(entry.items()))
        return bool(changed)

    document.change(edit)
    return [*changed]


def _number(entry: Mapping[str, Any], name: str) -> int:
    return integer_of(member_of(entry, name), _BITS) or 0


def _check(document: Mapping[str, Any]) -> None:
    for topic, entry in table_of(document, _TABLE).items():
        if not isinstance(entry, dict):
            raise ValueError(f"{_TABLE}, {topic!r:.80}: not an object")
        for name in (_READ, _WRITE):
            _number(entry, name)
