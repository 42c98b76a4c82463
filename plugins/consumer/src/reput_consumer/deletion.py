"""Deletes topics and groups: their settings, their offsets, and what groups see of their messages.

Nothing is taken out of the log or out of queues, which follow from it: see
`reput_consumer.metadata.deletedtopics`. The order is chosen for crashes: a topic whose note is on
disk shows no old message, whatever else is still there, and to delete it again finishes the work.

Source: RocketMQ ``AdminBrokerProcessor#deleteTopic`` and ``#deleteSubscriptionGroup``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from reput_consumer.backend.embeddedbackend import EmbeddedBackend

__all__ = ["delete_group", "delete_topic", "forget_gone_topics"]


def delete_topic(port: EmbeddedBackend, topic: str) -> bool:
    """Delete a topic; return whether there was one. Durable when this returns.

    Args:
        port: the store's.
        topic: its name.

    Raises:
        ReputError: the store is read-only, its queues cannot be read, or the log not be flushed.
        OSError: a file cannot be written.
    """
    port.check_writable()
    found = [each for each in port.context.store.queues() if each.topic == topic]
    shown = [
        each
        for each in found
        if not port.deleted.hides(topic, each.queue_id, each.max_queue_offset)
    ]
    if shown:
        # If a note outlived messages, others would get their offsets and never be seen.
        port.flush_log()
        port.deleted.note(topic, {each.queue_id: each.max_queue_offset for each in found})
    was_known = port.topics.remove(topic)
    had_offsets = port.offsets.forget_topic(topic)
    port.save()
    port.known.forget(topic)
    port.registry.tell_readers({topic})
    return bool(shown) or was_known or had_offsets


def delete_group(port: EmbeddedBackend, group: str, *, with_offsets: bool) -> bool:
    """Delete a group's settings, and its offsets if asked to; return whether there was anything.

    Members that are there go on; a broker adds the group again with their next heartbeat.

    Args:
        port: the store's.
        group: its name.
        with_offsets: whether the group is to start from the beginning if it comes again.

    Raises:
        ReputError: the store is read-only, or the log cannot be flushed.
        OSError: a file cannot be written.
    """
    port.check_writable()
    was_known = port.groups.remove(group)
    had_offsets = with_offsets and port.offsets.forget_group(group)
    port.save()
    return was_known or had_offsets


def forget_gone_topics(port: EmbeddedBackend) -> list[str]:
    """Drop notes of deleted topics of which the store has no queue any more; return their names.

    A queue that goes on after offsets that were given keeps its note, which tells that the first
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
