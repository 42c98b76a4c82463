"""Settings of a topic, as the broker's file of topics has them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

if TYPE_CHECKING:
    from reput_web.readmodel.openedstore import OpenedStore


@attrs.frozen(kw_only=True)
class TopicSettings:
    """What a broker may do with a topic."""

    read_queue_count: int
    write_queue_count: int
    is_readable: bool
    is_writable: bool
    is_ordered: bool
    attributes: tuple[tuple[str, str], ...]


def settings_of(opened: OpenedStore, topic: str) -> TopicSettings | None:
    """Return the settings of a topic; None if the store has none, or nothing can read them."""
    plugin = opened.groups_plugin()
    found = None if plugin is None else plugin.topics.get(topic)
    if found is None:
        return None
    return TopicSettings(
        read_queue_count=found.read_queue_nums,
        write_queue_count=found.write_queue_nums,
        is_readable=found.is_readable,
        is_writable=found.is_writable,
        is_ordered=found.order,
        attributes=tuple(
            sorted((str(name), str(value)) for name, value in found.attributes.items())
        ),
    )
