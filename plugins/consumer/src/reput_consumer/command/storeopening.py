"""Opens a store with the plugin ``consumer``, also one that does not use it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from reput import Store
    from reput_consumer.plugin import ConsumerPlugin

_NAME = "consumer"
_READER = "consumequeue"


@contextlib.contextmanager
def reading_groups(path: str) -> Iterator[tuple[Store, ConsumerPlugin]]:
    """Open the store at ``path`` for reading; another process may write it."""
    from reput_consumer.plugin import ConsumerPlugin
    from reput_tools.cli.kit import open_to_read

    with open_to_read(path, plugins=[_READER, _NAME]) as store:
        yield store, store.plugin(ConsumerPlugin)


@contextlib.contextmanager
def changing_groups(path: str) -> Iterator[tuple[Store, ConsumerPlugin]]:
    """Open the store at ``path`` as its writer; one that does not use the plugin does not later.

    Raises:
        Failure: the store does not use the plugin ``consumequeue``, without which groups read
            nothing.
    """
    from reput_consumer.plugin import ConsumerPlugin
    from reput_tools.cli.kit import check_store, check_used, open_with_plugin, used_plugins

    root = check_store(path)
    if used_plugins(root) is not None:
        check_used(root, _READER)
    with open_with_plugin(root, _NAME) as store:
        store.wait_dispatched()
        yield store, store.plugin(ConsumerPlugin)


def require_topic(store: Store, topic: str, path: str) -> None:
    """Check that the store has queues of a topic.

    Raises:
        Failure: it has none; a mistyped name would otherwise be a topic without messages.
    """
    from reput_tools.cli.kit import known_topics, no_topic

    topics = known_topics(store)
    if topic not in topics:
        raise no_topic(path, topic, topics)
