"""``config/messageRequestMode.json``: which groups are to pop which topics.

Source: RocketMQ ``MessageRequestModeManager`` and ``SetMessageRequestModeRequestBody``.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any, Final

import attrs

from reput_consumer.metadata.brokerdocument import BrokerDocument, section_of

__all__ = ["FILE_NAME", "RequestMode", "RequestModes"]

FILE_NAME: Final = "messageRequestMode.json"
_TABLE: Final = "messageRequestModeMap"
_POP: Final = "POP"
_PULL: Final = "PULL"


@attrs.frozen(kw_only=True)
class RequestMode:
    """How a group takes messages of a topic, if it leaves that to the broker."""

    pops: bool = False
    share_queues: int = 0
    """Of a group that pops: each member takes from its own queues, and from those of so many
    members after it; 0: each takes from all queues."""


@attrs.define(eq=False)
class RequestModes:
    """The modes that the file knows. Thread-safe."""

    document: BrokerDocument
    _modes: Mapping[tuple[str, str], RequestMode] = attrs.field(init=False, factory=dict)
    """By topic and group; replaced, never changed."""
    _lock: threading.Lock = attrs.field(init=False, factory=threading.Lock)
    """Held by `put`, so that no mode is lost between two of them."""

    def load(self) -> None:
        """Read the file. An entry that cannot be read counts as not there."""
        modes = {}
        for topic, groups in section_of(self.document.read(), _TABLE).items():
            for group, entry in groups.items() if isinstance(groups, dict) else ():
                if isinstance(entry, dict):
                    modes[topic, group] = _mode_of(entry)
        self._modes = modes

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
        entry = {
            "consumerGroup": group,
            "mode": _POP if mode.pops else _PULL,
            "popShareQueueNum": mode.share_queues,
            "topic": topic,
        }

        def edit(document: dict[str, Any]) -> bool:
            groups = section_of(section_of(document, _TABLE), topic)
            is_new = groups.get(group) != entry
            groups[group] = entry
            return is_new

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
            gone = [(name, other) for name in table for other in table[name] if goes(name, other)]
            for name, other in gone:
                del table[name][other]
                if not table[name]:
                    del table[name]
            return bool(gone)

        with self._lock:
            if any(goes(*each) for each in self._modes):
                self.document.change(edit)
                kept = {each: mode for each, mode in self._modes.items() if not goes(*each)}
                self._modes = kept


def _mode_of(entry: Mapping[str, Any]) -> RequestMode:
    count = entry.get("popShareQueueNum")
    return RequestMode(
        pops=entry.get("mode") == _POP,
        share_queues=count if isinstance(count, int) and not isinstance(count, bool) else 0,
    )
