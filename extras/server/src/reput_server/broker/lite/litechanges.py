"""`LiteChanges`: takes what clients of both protocols say that they subscribe to.

Source: RocketMQ 5.5 ``LiteSubscriptionCtlProcessor``, ``LiteSubscriptionRegistryImpl``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Final
from weakref import WeakValueDictionary

import attrs

from reput.errors import ReputError
from reput_server.broker.lite.litesource import LiteSource
from reput_server.broker.lite.litesubscriptions import LiteSubscriptions
from reput_server.broker.litenames import (
    bound_topic,
    is_exclusive,
    is_lite,
    is_on,
    light_queue_of,
    quota_of,
)

if TYPE_CHECKING:
    from reput_consumer import GroupSettings
    from reput_server.broker.brokercontext import BrokerContext

ADD: Final = "PARTIAL_ADD"
REMOVE: Final = "PARTIAL_REMOVE"
ADD_ALL: Final = "COMPLETE_ADD"
REMOVE_ALL: Final = "COMPLETE_REMOVE"
ACTIONS: Final = (ADD, REMOVE, ADD_ALL, REMOVE_ALL)
_FIRST: Final = 1
_LAST: Final = 2


@attrs.define(eq=False, repr=False, slots=False)
class LiteAskError(ReputError):
    """A client wants to subscribe to what it may not read."""

    reason: str

    def __str__(self) -> str:
        return self.reason


@attrs.frozen
class OffsetOption:
    """Where a group goes on in lite topics that a client subscribes to."""

    kind: str
    """``POLICY``, ``OFFSET``, ``TAIL_N`` or ``TIMESTAMP``, which changes nothing."""
    value: int
    """Of a policy: 0 as it is, 1 the first message, 2 the end."""


@attrs.frozen(kw_only=True)
class LiteChange:
    """What a client says of its subscriptions."""

    action: str
    client_id: str
    group: str
    topic: str
    """The parent of the lite topics."""
    lite_topics: Sequence[str]
    option: OffsetOption | None = None


@attrs.frozen(eq=False, repr=False)
class LiteChanges:
    """Changes of subscriptions. Used on the event loop."""

    context: BrokerContext
    subscriptions: LiteSubscriptions
    _turns: WeakValueDictionary[str, asyncio.Lock] = attrs.field(
        init=False, factory=WeakValueDictionary
    )
    """One change after the other, by client."""

    @classmethod
    def of(cls, context: BrokerContext) -> LiteChanges:
        """Return the changes of a broker's subscriptions."""
        return cls(context, LiteSubscriptions(context.plugin.popper, context.clock))

    def source_of(self, client_id: str) -> LiteSource:
        """Return where the messages of a client come from."""
        return LiteSource(self.context.plugin.popper, self.subscriptions, client_id)

    def is_bound(self, group: str) -> bool:
        """Whether a group reads lite topics."""
        return bound_topic(self.context.plugin.subscription_groups.get(group)) is not None

    def check(self, group: str, topic: str) -> GroupSettings:
        """Return the settings of a group that may read the lite topics of a topic.

        Raises:
            LiteAskError: it may not.
        """
        settings = self.context.plugin.subscription_groups.get(group)
        if settings is None or not settings.consume_enable:
            raise LiteAskError(f"Consumer group {group[:80]!r} is not allowed to consume.")
        if bound_topic(settings) != topic:
            text = f"group {group[:80]!r} is not bound to {topic[:80]!r}: see lite.bind.topic"
            raise LiteAskError(text)
        if not is_lite(self.context.topics.known(topic)):
            raise LiteAskError(f"topic {topic[:80]!r} has no lite topics: see message.type")
        return settings

    async def take(self, change: LiteChange, tell: Callable[[str], object]) -> None:
        """Take a change.

        Args:
            change: the change.
            tell: tells the client that it has lost a light queue; on the event loop.

        Raises:
            LiteAskError: the group may not read that, or a lite topic cannot have such a name.
            LiteQuotaError: there are too many subscriptions.
            ReputError: an offset cannot be committed; the client has subscribed.
            OSError: likewise.
        """
        client_id, group, topic = change.client_id, change.group, change.topic
        if not all(map(str.strip, (client_id, group, topic))):
            return
        turn = self._turns.get(client_id)
        if turn is None:
            turn = self._turns[client_id] = asyncio.Lock()
        async with turn:  # a change takes more than one turn of the event loop
            await self._take(change, tell)

    async def _take(self, change: LiteChange, tell: Callable[[str], object]) -> None:
        client_id, group, topic = change.client_id, change.group, change.topic
        if change.action == REMOVE_ALL:
            self.subscriptions.drop(client_id)
            return
        settings = self.check(group, topic)
        try:
            queues = [light_queue_of(topic, each) for each in change.lite_topics]
        except ValueError as error:
            raise LiteAskError(str(error)) from None
        if change.action == REMOVE:
            removed = self.subscriptions.remove(client_id, queues)
            if is_on(settings, "lite.sub.reset.offset.unsubscribe"):
                await self._move(group, removed, OffsetOption("POLICY", _FIRST))
            return
        if change.action not in ACTIONS:
            raise LiteAskError(f"one of {', '.join(ACTIONS)} expected")
        steps = self.subscriptions.add(
            client_id,
            group,
            topic,
            queues,
            tell,
            quota_of(settings),
            is_complete=change.action == ADD_ALL,
        )
        for _ in steps:
            await asyncio.sleep(0)  # other requests come first
        if change.action == ADD:
            if is_exclusive(settings):
                await self._exclude(client_id, settings, queues)
            if change.option is not None:
                await self._move(group, queues, change.option)

    async def _exclude(self, client_id: str, group: GroupSettings, queues: Iterable[str]) -> None:
        """Have a client be the only one of its group that reads light queues."""
        taken = []
        for queue in queues:
            others = self.subscriptions.take_from_others(client_id, group.group, queue)
            for other in others:
                other.tell(queue)
            if others:
                taken.append(queue)
        if is_on(group, "lite.sub.reset.offset.exclusive"):
            await self._move(group.group, taken, OffsetOption("POLICY", _FIRST))

    async def _move(self, group: str, queues: Iterable[str], option: OffsetOption) -> None:
        await self.context.run_in_turn(self._move_now, group, list(queues), option)

    def _move_now(self, group: str, queues: Iterable[str], option: OffsetOption) -> None:
        context, offsets = self.context, {}
        for name in queues:
            queue = context.queue(name, 0)
            first, following = context.port.bounds(queue)
            committed = context.port.committed(group, queue)
            wanted = _wanted(option, first, following, committed)
            if following and wanted is not None and wanted != committed:
                offsets[queue] = min(max(wanted, first), following)
        if offsets:
            context.plugin.move_group(group, offsets)


def _wanted(option: OffsetOption, first: int, following: int, committed: int | None) -> int | None:
    """Return the queue offset that a client asks for; None for the one that the group has."""
    if option.kind == "POLICY":
        return {_FIRST: first, _LAST: following}.get(option.value)
    if option.kind == "OFFSET":
        return option.value
    if option.kind == "TAIL_N" and committed is not None:
        return committed - option.value
    return None
