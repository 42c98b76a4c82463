"""What a client says of itself in a heartbeat: its groups, and what these subscribe to.

Source: RocketMQ ``HeartbeatData``, ``ConsumerData``, ``SubscriptionData``.
"""

from __future__ import annotations

from typing import Final

import attrs

from reput_client.remoting.bodies.bodyobject import BodyObject
from reput_client.remoting.bodies.loosejson import write_body

CONSUME_TYPES: Final = ("CONSUME_ACTIVELY", "CONSUME_PASSIVELY", "CONSUME_POP")
MESSAGE_MODELS: Final = ("BROADCASTING", "CLUSTERING")
CONSUME_FROM: Final = (
    "CONSUME_FROM_LAST_OFFSET",
    "CONSUME_FROM_LAST_OFFSET_AND_FROM_MIN_WHEN_BOOT_FIRST",
    "CONSUME_FROM_MIN_OFFSET",
    "CONSUME_FROM_MAX_OFFSET",
    "CONSUME_FROM_FIRST_OFFSET",
    "CONSUME_FROM_TIMESTAMP",
)
# In the order of Java's enums: clients in C++ send the place of a constant.


@attrs.frozen(kw_only=True)
class Subscription:
    """What a consumer wants of one topic."""

    topic: str
    expression: str = "*"
    tags: tuple[str, ...] = ()
    codes: tuple[int, ...] = ()
    """Hash codes of the tags."""
    version: int = 0
    """Milliseconds since the epoch; a newer subscription replaces an older one."""
    expression_type: str = "TAG"
    """``TAG`` or ``SQL92``."""

    def members(self) -> dict[str, object]:
        """Return the members as a body has them."""
        return {
            "classFilterMode": False,
            "codeSet": list(self.codes),
            "expressionType": self.expression_type,
            "subString": self.expression,
            "subVersion": self.version,
            "tagsSet": list(self.tags),
            "topic": self.topic,
        }


@attrs.frozen(kw_only=True)
class ConsumerData:
    """One consumer group of a client."""

    group: str
    consume_type: str = "CONSUME_PASSIVELY"
    message_model: str = "CLUSTERING"
    consume_from: str = "CONSUME_FROM_LAST_OFFSET"
    subscriptions: tuple[Subscription, ...] = ()
    unit_mode: bool = False

    def members(self) -> dict[str, object]:
        """Return the members as a body has them."""
        return {
            "consumeFromWhere": self.consume_from,
            "consumeType": self.consume_type,
            "groupName": self.group,
            "messageModel": self.message_model,
            "subscriptionDataSet": [each.members() for each in self.subscriptions],
            "unitMode": self.unit_mode,
        }


@attrs.frozen(kw_only=True)
class Heartbeat:
    """The body of a heartbeat."""

    client_id: str
    producer_groups: tuple[str, ...] = ()
    consumers: tuple[ConsumerData, ...] = ()
    is_short: bool = False
    """Whether subscriptions are left out, as 5.x does once a broker has offered that."""

    def encode(self) -> bytes:
        """Return the body."""
        return write_body(
            {
                "clientID": self.client_id,
                "consumerDataSet": [each.members() for each in self.consumers],
                "producerDataSet": [{"groupName": name} for name in self.producer_groups],
            }
        )

    @classmethod
    def decode(cls, body: bytes, now: int = 0) -> Heartbeat:
        """Return what a body says.

        Args:
            body: the body.
            now: the version of subscriptions without one, ms.

        Raises:
            BodyError: the body is not a heartbeat.
        """
        found = BodyObject.of(body, "heartbeat")
        return cls(
            client_id=found.text("clientID"),
            producer_groups=tuple(
                each.text("groupName") for each in found.objects("producerDataSet")
            ),
            consumers=tuple(_consumer(each, now) for each in found.objects("consumerDataSet")),
            is_short=found.flag("withoutSub"),
        )


def subscription_of(found: BodyObject, now: int = 0) -> Subscription:
    """Return the subscription of an object; ``now`` is the version of one without a version.

    Raises:
        BodyError: the object is not a subscription.
    """
    return Subscription(
        topic=found.text("topic"),
        expression=found.text("subString", "*"),
        tags=tuple(found.texts("tagsSet")),
        codes=tuple(found.integers("codeSet", bits=32)),
        version=found.integer("subVersion", now),
        expression_type=found.text("expressionType", "TAG"),
    )


def _consumer(found: BodyObject, now: int) -> ConsumerData:
    return ConsumerData(
        group=found.text("groupName"),
        consume_type=found.name("consumeType", CONSUME_TYPES, "CONSUME_PASSIVELY"),
        message_model=found.name("messageModel", MESSAGE_MODELS, "CLUSTERING"),
        consume_from=found.name("consumeFromWhere", CONSUME_FROM, "CONSUME_FROM_LAST_OFFSET"),
        subscriptions=tuple(
            subscription_of(each, now) for each in found.objects("subscriptionDataSet")
        ),
        unit_mode=found.flag("unitMode"),
    )
