"""The topics of a store, and the error for a topic that it does not have."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING

from reput_tools.cli.kit.exitcodes import ExitCode
from reput_tools.cli.kit.failures import Failure, warn
from reput_tools.cli.kit.suggestions import did_you_mean

if TYPE_CHECKING:
    from reput import Store


def known_topics(store: Store) -> set[str]:
    """Return the topics that have queues; none if no plugin knows the queues."""
    from reput.errors import NoReaderError

    try:
        return {queue.topic for queue in store.queues()}
    except NoReaderError:
        return set()


def check_topics(root: str, topics: Collection[str], known: Collection[str]) -> None:
    """Warn of each topic that does not exist, while another one does.

    Raises:
        Failure: none of the topics exists.
    """
    unknown = [topic for topic in topics if topic not in known]
    if topics and len(unknown) == len(topics):
        raise no_topic(root, unknown[0], known)
    for topic in unknown:
        warn(f"no topic {topic!r}{did_you_mean(topic, known)}")


def no_topic(root: str, topic: str, known: Iterable[str]) -> Failure:
    """Return the failure that says that a store has no such topic, and which one may be meant."""
    names = set(known)
    text = f"{root}: no topic {topic!r}{did_you_mean(topic, names)}"
    if not names:
        text = f"{text} (none at all)"
    elif "did you mean" not in text:
        text = f"{text}; `reput info {root}` lists those there are"
    return Failure(text, ExitCode.NOT_FOUND)
