"""`ConsumerFactory`: the methods by which programs get consumers, of a store or of brokers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import datetime as dt
    from collections.abc import Mapping

    from reput_consumer.allocation.strategy import Strategy
    from reput_consumer.api.consumer import Consumer
    from reput_consumer.api.pullconsumer import PullConsumer
    from reput_consumer.localmembers import LocalMembers
    from reput_consumer.selectors import Selector


class ConsumerFactory(ABC):
    """Base of factories of consumers: the plugin of a store, a client of brokers."""

    __slots__ = ()

    @property
    @abstractmethod
    def _opener(self) -> LocalMembers:
        """What opens the consumers; raises a `ReputError` if it was closed."""

    def consumer(
        self,
        /,
        group: str,
        topics: Mapping[str, str | Selector | None] | str | list[str],
        *,
        start: str | int | dt.datetime = "latest",
        ordered: bool = False,
        broadcast: bool = False,
        explicit: bool = False,
        idle: float | None = None,
        until: str | dt.datetime | None = None,
        strategy: Strategy | None = None,
        name: str | None = None,
        mixed: bool = False,
        **options: Any,
    ) -> Consumer:
        """Join a group, and return the consumer that reads its share of the queues.

        Consumers at brokers share queues with those of other programs and languages.

        Args:
            group: the group; its members share the queues of the topics out among them.
            topics: what to read: a topic, several, or what to select of each, as tags
                (``{"orders": "paid || refunded"}``) or by ``reput_consumer.sql``.
            start: where the group begins to read queues of which it has no offset yet:
                ``"latest"``, ``"earliest"``, a time, or a queue offset.
            ordered: read each queue one message after the other; a message that fails holds up
                those after it.
            broadcast: read everything, independent of other members.
            explicit: count messages as consumed only by `ReceivedMessage.ack`.
            idle: seconds without a message after which iterating and running end.
            until: ``"end"`` to end after the messages that are there now, or a time to end after
                those stored before it.
            strategy: how queues are shared out; all members of a group must have the same one.
            name: the member's name, unlike those of all other members; one is made when left out.
            mixed: join although members select other topics or tags. Each then leaves out what it
                does not want of its queues, and no other member reads it.
            options: others of `reput_consumer.MemberSettings`.

        Raises:
            SubscriptionMismatchError: a member of the group selects other topics or tags. Clients
                of brokers do not know what the members of other programs select.
            ReputError: the store is read-only, no broker answers, or the group does not take the
                consumer.
            ValueError: a name, a selector, or another argument that cannot be.
            TypeError: an argument of a wrong type, or an option that does not exist.
        """
        return self._opener.open(
            group,
            topics,
            start=start,
            explicit=explicit,
            idle=idle,
            until=until,
            strategy=strategy,
            name=name,
            ordered=ordered,
            broadcast=broadcast,
            mixed=mixed,
            **options,
        )

    def pull_consumer(
        self,
        group: str,
        topics: Mapping[str, str | Selector | None] | str | list[str] | None = None,
        *,
        start: str | int | dt.datetime = "latest",
        name: str | None = None,
        **options: Any,
    ) -> PullConsumer:
        """Return a consumer that is polled, and can seek.

        Args:
            group: the group whose offsets it uses.
            topics: as for `consumer`, to get a share of the queues; None to `PullConsumer.assign`
                queues instead.
            start: as for `consumer`.
            name: as for `consumer`.
            options: others of `reput_consumer.MemberSettings`.

        Raises:
            ReputError: as for `consumer`.
            ValueError: likewise.
            TypeError: likewise.
        """
        return self._opener.open_pull(group, topics, start=start, name=name, **options)
