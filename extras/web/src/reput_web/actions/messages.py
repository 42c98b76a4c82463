"""Puts messages: a test message, and the copy of a dead letter."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final

import attrs

from reput.errors import OffsetOutOfRangeError
from reput_web.actions.action import (
    Action,
    Field,
    MoveGroup,
    Plan,
    Sentence,
    groups_of,
)
from reput_web.errors import BadRequestError, NotThereError

if TYPE_CHECKING:
    from reput import MessageView, Store
    from reput.record import Message
    from reput_web.readmodel.openedstore import OpenedStore

__all__ = ["ResendDeadLetter", "SendMessage"]

_BODY_MAX: Final = 16 << 10
_INT64_MAX: Final = (1 << 63) - 1


@attrs.frozen
class SendMessage(Action):
    """Puts one message, as ``reput put`` does."""

    name: ClassVar = "send"
    title: ClassVar = "Send a test message"
    button: ClassVar = "Send"
    fields: ClassVar = (
        Field("topic", "Topic"),
        Field("queue", "Queue", "number", (1 << 31) - 1, is_required=False, hint="any"),
        Field("tag", "Tag", most=255, is_required=False),
        Field("keys", "Keys", most=1_000, is_required=False, hint="with spaces between them"),
        Field("properties", "Properties", "area", 4_096, is_required=False, hint="name=value"),
        Field("body", "Body", "area", _BODY_MAX, is_required=False),
    )

    def _message(self) -> Message:
        import reput
        from reput.record import encode_properties

        given = self.values
        pairs: dict[str, str] = {}
        for line in given["properties"].split("\n"):
            if line.strip():
                name, equals, value = line.strip().partition("=")
                if not (name and equals and value):
                    raise BadRequestError("properties: lines of NAME=VALUE are expected.")
                pairs[name] = value
        try:
            if pairs:
                encode_properties(pairs)
            return reput.Message(
                given["topic"],
                given["body"].encode(),
                int(given["queue"]) if given["queue"] else None,
                tags=given["tag"] or None,
                keys=given["keys"].split(),
                properties=pairs,
            )
        except (ValueError, TypeError) as error:
            raise BadRequestError(f"{error}.") from None

    def plan(self, opened: OpenedStore) -> Plan:
        """See `Action.plan`."""
        message = self._message()
        topic = self.values["topic"]
        if opened.groups_plugin() is not None:
            from reput_consumer.names import checked_topic

            try:
                checked_topic(topic)
            except ValueError as error:
                raise BadRequestError(f"{error}.") from None
        known = {each.queue_id for each in opened.topic_queues(topic)}
        sentences = [
            Sentence(
                "One message of {size} bytes is stored in topic {topic}. Consumers get it like any "
                "other message, and it cannot be taken back.",
                {"size": len(message.body), "topic": topic},
            )
        ]
        if not known:
            sentences.append(
                Sentence("The store has no topic {topic}: it is created.", {"topic": topic})
            )
        return Plan(tuple(sentences))

    def run(self, store: Store, move_group: MoveGroup | None) -> Sentence:
        """See `Action.run`."""
        receipt = store.put(self._message())
        receipt.wait()
        return Sentence(
            "Stored as {topic}/{queue}@{offset}, at physical offset {place}.",
            {
                "topic": self.values["topic"],
                "queue": receipt.queue_id,
                "offset": receipt.queue_offset,
                "place": receipt.physical_offset,
            },
        )


@attrs.frozen
class ResendDeadLetter(Action):
    """Gives a dead letter to its group again, as ``reput dlq resend`` does."""

    name: ClassVar = "resend"
    title: ClassVar = "Resend a dead letter"
    button: ClassVar = "Resend"
    opens_groups: ClassVar = True
    fields: ClassVar = (
        Field("at", "Physical offset", "number", _INT64_MAX),
        Field("group", "Group"),
    )

    def _letter(self, store: Store) -> MessageView:
        from reput_consumer.names import checked_group, dead_letter_topic

        at, group = int(self.values["at"]), self.values["group"]
        try:
            checked_group(group)
            found = store.get(at)
        except ValueError as error:
            raise BadRequestError(f"{error}.") from None
        except OffsetOutOfRangeError as error:
            raise NotThereError(f"{error}.") from None
        if found.topic != dead_letter_topic(group):
            raise NotThereError(f"The message at {at} is not a dead letter of group {group}.")
        return found

    def plan(self, opened: OpenedStore) -> Plan:
        """See `Action.plan`."""
        letter = self._letter(opened.store)
        group = self.values["group"]
        return Plan(
            (
                Sentence(
                    "A copy of {id} goes to the retry topic of group {group}. The group gets it "
                    "as if it had never failed; no other group gets it.",
                    {"id": letter.msg_id, "group": group},
                ),
                Sentence("The dead letter stays in {topic}.", {"topic": letter.topic}),
            )
        )

    def run(self, store: Store, move_group: MoveGroup | None) -> Sentence:
        """See `Action.run`."""
        letter = self._letter(store)
        groups_of(store).resend(self.values["group"], [letter])
        return Sentence(
            "{id} was resent to group {group}.",
            {"id": letter.msg_id, "group": self.values["group"]},
        )
