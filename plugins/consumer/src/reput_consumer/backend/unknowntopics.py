"""Warns about topics that a store does not have, if another topic has nearly the same name."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import TYPE_CHECKING

from reput_consumer.names import is_retry_topic

if TYPE_CHECKING:
    from reput_consumer.backend.embeddedbackend import EmbeddedBackend

logger = logging.getLogger(__name__)


def warn_of_unknown(port: EmbeddedBackend, topics: Iterable[str]) -> None:
    """Warn about each topic that does not exist while one with a similar name does.

    A member may wait for a topic that is created later, so other unknown topics are normal.
    """
    unknown = [each for each in topics if not is_retry_topic(each) and not port.queues(each)]
    if not unknown:
        return
    import difflib  # only for a warning

    known = {each.topic for each in port.context.store.queues()} | set(port.topics.names())
    known = {each for each in known if not each.startswith("%")}  # not those of other groups
    for topic in set(unknown) - known:  # messages may have come meanwhile
        near = difflib.get_close_matches(topic, known, n=1)
        if near:
            logger.warning(
                "the topic %r does not exist yet; did you mean %r? The group waits for the topic",
                topic,
                near[0],
            )
