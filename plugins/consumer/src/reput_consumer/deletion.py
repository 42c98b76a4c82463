"""Deletes topics and groups: their settings, their offsets, and what groups see of their messages.

Nothing is taken out of the log or out of queues, which follow from it: see
`reput_consumer.metadata.deletedtopics`. The order is chosen for crashes: a topic whose note is on
disk shows no old message, whatever else is still there, and to delete it again finishes the work.

Source: RocketMQ ``AdminBrokerProcessor#deleteTopic`` and ``#deleteSubscriptionGroup``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from reput_consumer.errors import TopicKeptError
from reput_consumer.names import LIGHT_PREFIX, RETRY_PREFIX, retry_topic

if TYPE_CHECKING:
    from reput_consumer.backend.embeddedbackend import EmbeddedBackend


def delete_topic(port: EmbeddedBackend, topic: str) -> bool:
    """Delete a topic; return whether there was one. Durable when this returns.

    Its lite topics, which are light queues, are deleted with it.

    Args:
        port: the store's.
        topic: its name.

    Raises:
        ReputError: the store is read-only, its queues cannot be read, or the log not be flushed.
        TopicKeptError: the topic has batch queues.
        OSError: a file cannot be written.
    """
    port.check_writable()
    settings = port.topics.get(topic)
    if settings is not None and settings.has_batch_queues:
        # Its queues would stay, and nothing would say of which kind they are.
        raise TopicKeptError(topic)
    retries = [each for each in _pop_retry_topics(port, topic) if each != topic]
    was_there = [_delete(port, each) for each in [topic, *retries]]
    _delete_lite_topics(port, topic)
    port.save()
    for each in [topic, *retries]:
        port.known.forget(each)
    port.registry.tell_readers({topic, *retries})
    return was_there[0]


def _delete_lite_topics(port: EmbeddedBackend, topic: str) -> None:
    """Hide what the lite topics of a topic have now, by one note of all.

    A lite topic that comes to its queue later is hidden by the topic's own note.
    """
    position = port.context.log.max_physical_offset
    ends = {
        queue.topic: queue.max_queue_offset
        for queue in port.context.store.queues()
        if queue.topic.startswith(f"{LIGHT_PREFIX}${topic}$")
    }
    hide_light_queues(port, ends, position)


def hide_light_queues(
    port: EmbeddedBackend, ends: Mapping[str, int], position: int | None = None
) -> None:
    """Hide the messages of light queues below a queue offset each, and drop groups' offsets.

    Args:
        port: the store's.
        ends: the queue offsets by light queue.
        position: see `DeletedTopics.note`.

    Raises:
        ReputError: the log cannot be flushed.
        OSError: the note cannot be written.
    """
    if ends:
        port.flush_log()
        port.deleted.note_all({name: {0: end} for name, end in ends.items()}, position)
    for each in ends:
        port.offsets.forget_topic(each)


def _delete(port: EmbeddedBackend, topic: str) -> bool:
    """Hide what a topic has now, and remove its settings and the offsets of it."""
    # Before the queues: later messages are after this position in the log.
    position = port.context.log.max_physical_offset
    found = [each for each in port.context.store.queues() if each.topic == topic]
    shown = [
        each
        for each in found
        if not port.deleted.hides(topic, each.queue_id, each.max_queue_offset)
    ]
    is_known = port.topics.get(topic) is not None or bool(port.offsets.groups_of(topic))
    # Messages may be in no queue yet, and copies of others in retry topics.
    if shown or is_known or port.dispatched_to < position:
        # If a note outlived messages, others would get their offsets and never be seen.
        port.flush_log()
        floors = {each.queue_id: each.max_queue_offset for each in found}
        port.deleted.note(topic, floors, position)
    was_known = port.topics.remove(topic)
    had_offsets = port.offsets.forget_topic(topic)
    return bool(shown) or was_known or had_offsets


def _pop_retry_topics(port: EmbeddedBackend, topic: str) -> list[str]:
    """Return the topics to which messages of a topic come back for groups that pop.

    A name that may also be of another group or topic is left out: there, only the copies of the
    deleted topic's messages are dropped, see `reput_consumer.backend.deletedfilter`.
    """
    groups = {*port.groups.names(), *port.offsets.groups(), *port.registry.groups()}
    there = {each.topic for each in port.context.store.queues()} | {*port.topics.names()}
    found = []
    for group in groups:
        name = f"{RETRY_PREFIX}{group}_{topic}"
        if name in there and not _is_ambiguous(name, group, groups, there):
            found.append(name)
    return sorted(found)


def _is_ambiguous(name: str, group: str, groups: set[str], topics: set[str]) -> bool:
    others = groups - {group}
    return name.removeprefix(RETRY_PREFIX) in groups or any(
        name.startswith(start := f"{RETRY_PREFIX}{each}_") and name.removeprefix(start) in topics
        for each in others
    )


def delete_group(port: EmbeddedBackend, group: str, *, with_offsets: bool) -> bool:
    """Delete a group's settings, and its offsets if wanted; return whether there was anything.

    Members that are there go on; a broker adds the group again with their next heartbeat.

    Args:
        port: the store's.
        group: its name.
        with_offsets: whether the group is to start from the beginning if it comes again, without
            the messages that have failed for it.

    Raises:
        ReputError: the store is read-only, or the log cannot be flushed.
        OSError: a file cannot be written.
    """
    port.check_writable()
    if with_offsets:
        # Its failed messages would come to a new group of the name.
        _delete(port, retry_topic(group))
        port.known.forget(retry_topic(group))
    was_known = port.groups.remove(group)
    had_offsets = with_offsets and port.offsets.forget_group(group)
    port.save()
    return was_known or had_offsets


def forget_gone_topics(port: EmbeddedBackend) -> list[str]:
    """Drop notes of deleted topics of which the store has no queue any more; return their names.

    A queue that goes on after offsets that were given keeps its note, which says that the first
    message to come is the first of a new topic.

    Raises:
        ReputError: the store is read-only, or its queues cannot be read.
        OSError: the note cannot be written.
    """
    port.check_writable()
    there = {each.topic for each in port.context.store.queues()}
    there |= {topic for topic, _ in port.context.queue_floors.known}
    gone = set(port.deleted.names()) - there
    if gone:
        port.deleted.forget(gone)
    return sorted(gone)
