"""``config/messageRequestMode.json``: which groups are to pop which topics.

Source: RocketMQ ``MessageRequestModeManager`` and ``SetMessageRequestModeRequestBody``.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any, Final

import attrs

from reput_tools.brokerfiles import (
    BrokerDocument,
    integer_of,
    member_of,
    name_of,
    section_of,
    table_of,
)

FILE_NAME: Final = "messageRequestMode.json"
_TABLE: Final = "messageRequestModeMap"
_POP: Final = "POP"
_PULL: Final = "PULL"
_INT_BITS: Final = 32


@attrs.frozen(kw_only=True)
class RequestMode:
    """How a group takes messages of a topic, if it leaves that to the broker."""

    pops: bool = False
    share_queues: int = 0
    """Of a group that pops: each member takes from its own queues, and from those of so many
    members after it; 0: each takes from all queues."""


@attrs.define(eq=False, repr=False)
class RequestModes:
    """The modes that the file knows. Thread-safe."""

    document: BrokerDocument
    _modes: Mapping[tuple[str, str], RequestMode] = attrs.field(init=False, factory=dict)
    """By topic and group; replaced, never changed."""
    _lock: threading.Lock = attrs.field(init=False, factory=threading.Lock)
    """Held by `put`, so that no mode is lost between two of them."""

    def __attrs_post_init__(self) -> None:
        self.document.check = _modes_of

    def load(self) -> None:
        """Read the file."""
        self._modes = _modes_of(self.document.read())

    def get(self, topic: str, group: str) -> RequestMode:
        """Return how a group takes messages of a topic."""
        return self._modes.get((topic, group), RequestMode())

    def pops(self, group: str) -> bool:
        """Whether a group is to pop any topic."""
        return any(name == group and mode.pops for (_, name), mode in self._modes.items())

    def put(self, topic: str, group: str, mode: RequestMode) -> None:
        """Set how a group takes messages of a topic.

        Raises:
            OSError: the file cannot be written.
        """

        def edit(document: dict[str, Any]) -> bool:
            table = section_of(document, _TABLE)
            return self._fill(table) | _put({(topic, group): mode}, table)

        with self._lock:
            self.document.change(edit)
            self._modes = {**self._modes, (topic, group): mode}

    def forget(self, *, topic: str | None = None, group: str | None = None) -> None:
        """Forget the modes of a topic, or those of a group.

        Raises:
            OSError: the file cannot be written.
        """

        def goes(name: str, other: str) -> bool:
            return name == topic or other == group

        def edit(document: dict[str, Any]) -> bool:
            table = section_of(document, _TABLE)
            is_changed = self._fill(table)
            gone = [(name, other) for name in table for other in table[name] if goes(name, other)]
            for name, other in gone:
                del table[name][other]
                if not table[name]:
                    del table[name]
            return is_changed or bool(gone)

        with self._lock:
            if any(goes(*each) for each in self._modes):
                self.document.change(edit)
                kept = {each: mode for each, mode in self._modes.items() if not goes(*each)}
                self._modes = kept

    def _fill(self, table: dict[str, Any]) -> bool:
        """Complete a table that may be older than what is known here, as `SettingsTable` does."""
        return self.document.is_behind and _put(self._modes, table)


def _put(modes: Mapping[tuple[str, str], RequestMode], table: dict[str, Any]) -> bool:
    """Set modes in the file's table; return whether that changed anything."""
    is_changed = False
    for (topic, group), mode in modes.items():
        entry = {
            "consumerGroup": group,
            "mode": _POP if mode.pops else _PULL,
            "popShareQueueNum": mode.share_queues,
            "topic": topic,
        }
        groups = section_of(table, topic)
        is_changed |= groups.get(group) != entry
        groups[group] = entry
    return is_changed


def _modes_of(document: Mapping[str, Any]) -> dict[tuple[str, str], RequestMode]:
    """Return the modes of a document.

    Raises:
        ValueError: it has something else there; a broker does not read it either.
    """
    table = table_of(document, _TABLE)
    return {
        (topic, group): _mode_of(entry)
        for topic in table
        for group, entry in table_of(table, topic).items()
    }


def _mode_of(entry: object) -> RequestMode:
    if not isinstance(entry, dict):
        raise ValueError("a mode is not an object")
    return RequestMode(
        pops=name_of(member_of(entry, "mode"), (_PULL, _POP)) == _POP,
        share_queues=integer_of(member_of(entry, "popShareQueueNum"), _INT_BITS) or 0,
    )
