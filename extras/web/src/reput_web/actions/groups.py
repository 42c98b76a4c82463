"""Changes what consumer groups read: the offsets of a group, and a new topic."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import attrs

from reput_web.actions.action import (
    Action,
    ActionError,
    Field,
    MoveGroup,
    Plan,
    Sentence,
    groups_of,
)
from reput_web.errors import BadRequestError, NotThereError

if TYPE_CHECKING:
    from reput import Store
    from reput_consumer import ConsumerPlugin
    from reput_consumer.messagequeue import MessageQueue
    from reput_consumer.offsetreset import Reset
    from reput_web.readmodel.openedstore import OpenedStore


@attrs.frozen
class ResetOffset(Action):
    """Sets where a group goes on in a topic, as ``reput reset-offset`` does."""

    name: ClassVar = "reset-offset"
    title: ClassVar = "Reset the offset of a group"
    button: ClassVar = "Reset"
    opens_groups: ClassVar = True
    fields: ClassVar = (
        Field("group", "Group"),
        Field("topic", "Topic"),
        Field("to", "To", most=64, hint="earliest, latest, an offset, -1h, 2026-01-31T12:00:00Z"),
    )

    def _checked(self) -> tuple[str, str, Any]:
        from reput.files import system_clock
        from reput_consumer import Start
        from reput_consumer.names import checked_group, checked_topic
        from reput_tools.cli.kit import parse_start

        try:
            group = checked_group(self.values["group"])
            topic = checked_topic(self.values["topic"])
            found = parse_start(self.values["to"], system_clock())
        except (ValueError, OverflowError) as error:
            raise BadRequestError(f"{error}.") from None
        kind = "timestamp" if found.kind == "time" else found.kind
        return group, topic, Start(kind, min(max(found.value, 0), (1 << 63) - 1))

    def plan(self, opened: OpenedStore) -> Plan:
        """See `Action.plan`."""
        group, topic, to = self._checked()
        plugin = opened.groups_plugin()
        if plugin is None:
            raise NotThereError("The plugin consumer is not installed, so groups are not known.")
        if not opened.topic_queues(topic):
            raise NotThereError(f"The store has no topic {topic!r}.")
        changes = plugin.planned_resets(group, topic, to)
        sentences = [
            Sentence(
                "Group {group} goes on at these offsets of topic {topic}. It skips messages, or "
                "gets messages again.",
                {"group": group, "topic": topic},
            )
        ]
        if group not in plugin.groups():
            sentences.append(
                Sentence("The store has no group {group} yet: it is created.", {"group": group})
            )
        return Plan(
            tuple(sentences),
            ("Queue", "Offset now", "New offset", "Change"),
            _rows(changes),
            {str(each.queue.queue_id): each.after for each in changes},
        )

    def run(self, store: Store, move_group: MoveGroup | None) -> Sentence:
        """See `Action.run`."""
        group, topic, _ = self._checked()
        plugin = groups_of(store)
        moved = self._bounded_offsets(plugin, group, topic)
        if not moved:
            raise NotThereError(f"The store has no topic {topic!r}.")
        (move_group or plugin.move_group)(group, moved)
        offsets = [f"queue {queue.queue_id}: {offset}" for queue, offset in moved.items()]
        return Sentence(
            "Group {group} goes on in topic {topic} at {offsets}.",
            {
                "group": group,
                "topic": topic,
                "offsets": ", ".join(offsets[:16]) + ", …" * (len(offsets) > 16),
            },
        )

    def _bounded_offsets(
        self, plugin: ConsumerPlugin, group: str, topic: str
    ) -> dict[MessageQueue, int]:
        """Return the offsets that the question has shown, in the bounds of the queues now."""
        lowest = plugin.planned_resets(group, topic, "earliest")
        highest = {each.queue: each.after for each in plugin.planned_resets(group, topic, "latest")}
        return {
            each.queue: min(max(self.offsets[queue_id], each.after), highest[each.queue])
            for each in lowest
            if (queue_id := str(each.queue.queue_id)) in self.offsets and each.queue in highest
        }


def _rows(changes: list[Reset]) -> tuple[tuple[str, ...], ...]:
    return tuple(
        (
            str(each.queue.queue_id),
            "–" if each.before is None else f"{each.before:,}",
            f"{each.after:,}",
            "–"
            if each.before is None
            else f"{each.after - each.before:+,}"
            if each.after != each.before
            else "0",
        )
        for each in changes[:2_000]
    )


@attrs.frozen
class CreateTopic(Action):
    """Adds a topic to the broker's file, as ``reput topics create`` does."""

    name: ClassVar = "create-topic"
    title: ClassVar = "Create a topic"
    button: ClassVar = "Create"
    opens_groups: ClassVar = True
    fields: ClassVar = (
        Field("topic", "Topic"),
        Field("queues", "Queues", "number", 65_536, is_required=False, hint="4"),
        Field("perm", "Permissions", "choice", 2, choices=("rw", "r", "w")),
    )

    def _checked(self) -> tuple[str, int | None]:
        from reput_consumer.names import checked_topic

        try:
            topic = checked_topic(self.values["topic"])
        except ValueError as error:
            raise BadRequestError(f"{error}.") from None
        queues = int(self.values["queues"]) if self.values["queues"] else None
        if queues == 0:
            raise BadRequestError("queues: a whole number from 1 to 65536 expected.")
        return topic, queues

    def plan(self, opened: OpenedStore) -> Plan:
        """See `Action.plan`."""
        topic, queues = self._checked()
        plugin = opened.groups_plugin()
        if plugin is None:
            raise NotThereError(
                "The plugin consumer is not installed, so topics cannot be created."
            )
        plugin.groups()  # reads the broker's files again, which another process may have changed
        _refuse_known(plugin, topic)
        return Plan(
            (
                Sentence(
                    "Topic {topic} is added to config/topics.json, with {queues} queues and the "
                    "permissions {perm}.",
                    {"topic": topic, "queues": queues or 4, "perm": self.values["perm"]},
                ),
            )
        )

    def run(self, store: Store, move_group: MoveGroup | None) -> Sentence:
        """See `Action.run`."""
        from reput_consumer import TopicSettings

        topic, queues = self._checked()
        plugin = groups_of(store)
        _refuse_known(plugin, topic)
        settings = TopicSettings(topic=topic, perm={"rw": 6, "r": 4, "w": 2}[self.values["perm"]])
        if queues is not None:
            settings = attrs.evolve(settings, read_queue_nums=queues, write_queue_nums=queues)
        plugin.topics.put(settings)
        return Sentence(
            "Topic {topic} was created with {queues} queues.",
            {"topic": topic, "queues": settings.read_queue_nums},
        )


def _refuse_known(plugin: ConsumerPlugin, topic: str) -> None:
    if plugin.topics.get(topic) is not None:
        raise ActionError(f"Topic {topic} exists already.")
