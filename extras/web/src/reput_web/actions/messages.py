"""Puts messages: a test message, and the copy of a dead letter."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, ClassVar, Final

import attrs

from reput.errors import NoReaderError, OffsetOutOfRangeError, PluginError
from reput.record.layout import DEAD_LETTER_PREFIX, LIGHT_QUEUE_PREFIX, RETRY_PREFIX
from reput_tools.offline import FORBIDDEN_TOPICS, SYSTEM_PREFIXES
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
    from reput import MessageView, QueueInfo, Store
    from reput.record import Message
    from reput_consumer import ConsumerPlugin
    from reput_web.readmodel.openedstore import OpenedStore

_BODY_MAX: Final = 16 << 10
_INT64_MAX: Final = (1 << 63) - 1
_RESERVED_PREFIXES: Final = (
    *SYSTEM_PREFIXES,
    DEAD_LETTER_PREFIX,
    LIGHT_QUEUE_PREFIX,
    RETRY_PREFIX,
)
"""Topics to which brokers let no producer send, or whose messages only the store itself makes."""
_ACTED_ON: Final = frozenset(
    {
        "DELAY",
        "INNER_BASE",
        "INNER_MULTI_DISPATCH",
        "INNER_MULTI_QUEUE_OFFSET",
        "INNER_NUM",
        "POP_CK",
        "REAL_QID",
        "REAL_TOPIC",
        "RETRY_TOPIC",
        "TIMER_DELAY_MS",
        "TIMER_DELAY_SEC",
        "TIMER_DELIVER_MS",
        "TIMER_OUT_MS",
        "TRAN_MSG",
        "TRANSACTION_CHECK_TIMES",
        "_SYS_MSG_PRIORITY_",
        "__CRC32#",
        "__STARTDELIVERTIME",
    }
)
"""Properties by which a store or a plugin gives a message another place, or holds it back."""


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
                if name in _ACTED_ON:
                    text = f"properties: {name} is not for a test message, which is stored at once."
                    raise BadRequestError(text)
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

    def _check_destination(
        self, plugin: ConsumerPlugin | None, queues: Iterable[QueueInfo]
    ) -> None:
        """Check that a broker would take the message.

        Raises:
            BadRequestError: it would not.
        """
        topic, queue = self.values["topic"], self.values["queue"]
        if topic in FORBIDDEN_TOPICS or topic.startswith(_RESERVED_PREFIXES):
            raise BadRequestError(f"topic: {topic} is not for messages of producers.")
        queue_ids: set[int] | range = {each.queue_id for each in queues if each.topic == topic}
        settings = None
        if plugin is not None:
            from reput_consumer.names import checked_topic

            try:
                settings = plugin.topics.get(checked_topic(topic))
            except ValueError as error:
                raise BadRequestError(f"{error}.") from None
        if settings is not None:
            if not settings.is_writable:
                raise BadRequestError(f"topic: the permissions of {topic} allow no messages.")
            queue_ids = range(max(settings.read_queue_nums, settings.write_queue_nums))
        if queue and queue_ids and int(queue) not in queue_ids:
            raise BadRequestError(f"queue: topic {topic} has no queue {queue}.")

    def plan(self, opened: OpenedStore) -> Plan:
        """See `Action.plan`."""
        message = self._message()
        topic = self.values["topic"]
        plugin = opened.groups_plugin()
        if plugin is not None:
            plugin.groups()  # reads the broker's files again; another process may have changed them
        known = opened.topic_queues(topic)
        self._check_destination(plugin, known)
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
        self._check_destination(*_destinations(store))
        receipt = store.put(self._message())
        receipt.wait()
        return Sentence(
            "Stored as {topic}/{queue}@{offset}, at physical offset {place}.",
            {
                "topic": store.get(receipt.physical_offset).topic,  # a plugin may have changed it
                "queue": receipt.queue_id,
                "offset": receipt.queue_offset,
                "place": receipt.physical_offset,
            },
        )


def _destinations(store: Store) -> tuple[ConsumerPlugin | None, list[QueueInfo]]:
    """Return the plugin that knows the settings of topics, and all queues, as far as known."""
    try:
        plugin = groups_of(store)
    except (ModuleNotFoundError, PluginError):
        plugin = None
    try:
        return plugin, store.queues()
    except (NoReaderError, PluginError):
        return plugin, []


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
