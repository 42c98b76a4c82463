"""`Clients`: the clients that have sent their settings, and their streams."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Final

import attrs

from reput.errors import ReputError
from reput_consumer import (
    ALL,
    SQL92,
    TAG,
    GroupDisabledError,
    GroupKindError,
    MemberExistsError,
    Selector,
    pop_retry_topic,
    subscriptions_of,
)
from reput_server.grpc.messagetypes import Broken, ClientType, Code, Refused
from reput_server.grpc.namespaces import group_of, topic_of

if TYPE_CHECKING:
    from reput_server.broker.brokercontext import BrokerContext
    from reput_server.broker.lite.litesubscriptions import LiteSubscriptions
    from reput_server.config import Limits
    from reput_server.grpc.commandqueue import CommandQueue

logger = logging.getLogger(__name__)

_LITE: Final = (ClientType.LITE_PUSH_CONSUMER, ClientType.LITE_SIMPLE_CONSUMER)
_CONSUMERS: Final = (ClientType.PUSH_CONSUMER, ClientType.SIMPLE_CONSUMER, *_LITE)
_PUSHED: Final = (ClientType.PUSH_CONSUMER, ClientType.LITE_PUSH_CONSUMER)
_EXPIRY_MS: Final = 120_000
_SQL: Final = 2  # of ``FilterType``
_STREAMS_MAX: Final = 8
"""Streams of one client; its libraries have one."""
_TOPICS_MAX: Final = 1_000
_TOLD_MAX: Final = 100
"""Commands that wait for a client to read them; others go to other clients or come again."""


@attrs.define(eq=False)
class Client:
    """One client."""

    client_id: str
    settings: Any
    last: int
    """When its last call came, ms."""
    group: str | None = None
    """Of a consumer."""
    topics: frozenset[str] = frozenset()
    """What it reads, or produces to."""
    settings_size: int = 0
    """Bytes of its settings."""
    subscriptions: tuple[str, ...] = ()
    """What it selects of each topic, as text."""
    waits: bool = False
    """Whether its group did not take it; its next settings try again."""
    streams: list[CommandQueue] = attrs.field(factory=list)

    @property
    def is_producer(self) -> bool:
        """Whether it produces."""
        return self.group is None

    @property
    def is_consumer(self) -> bool:
        """Whether it says that it is one."""
        return self.settings.client_type in _CONSUMERS

    @property
    def is_push(self) -> bool:
        """Whether its library calls a function with each message."""
        return self.settings.client_type in _PUSHED

    def tell(self, command: Any) -> bool:
        """Send a command on one of its streams; False if it has none that reads."""
        for stream in self.streams:
            if not stream.is_full(_TOLD_MAX):
                stream.put(command)
                return True
        return False

    def cut_streams(self) -> None:
        """Break its streams."""
        for stream in self.streams:
            stream.put(Broken())


@attrs.define(eq=False, repr=False)
class Clients:
    """All clients. Used on the event loop."""

    context: BrokerContext
    lite: LiteSubscriptions
    by_id: dict[str, Client] = attrs.field(factory=dict)
    _settings_size: int = attrs.field(init=False, default=0)

    def find(self, client_id: str) -> Client | None:
        """Return a client, which is alive; None if it has not sent its settings.

        Some clients receive before their settings are answered.
        """
        client = self.by_id.get(client_id)
        if client is not None:
            client.last = self.context.clock()
        return client

    def known(self, client_id: str) -> Client:
        """Return a client that has sent its settings.

        Raises:
            Refused: it has not.
        """
        client = self.find(client_id)
        if client is None:
            text = f"client {client_id[:100]!r} has not sent its settings"
            raise Refused(Code.UNRECOGNIZED_CLIENT_TYPE, text)
        return client

    def is_connected(self, client_id: str) -> bool:
        """Whether a client has a stream; from any thread."""
        client = self.by_id.get(client_id)
        return client is not None and bool(client.streams)

    async def take(self, client_id: str, settings: Any, stream: CommandQueue) -> Client:
        """Note what a client says of itself.

        Raises:
            Refused: it is neither a producer nor a consumer, its group does not take it, or the
                settings of all clients take too much memory.
        """
        group, selectors = _read(settings)
        topics, subscriptions = frozenset(selectors), subscriptions_of(selectors)
        now = self.context.clock()
        self.expire(now)
        client, size, limits = self.by_id.get(client_id), settings.ByteSize(), self._limits
        grown = size - (0 if client is None else client.settings_size)
        if grown > 0 and self._settings_size + grown > limits.bytes_of_all:
            raise Refused(Code.TOO_MANY_REQUESTS, "the settings of clients take too much memory")
        if client is None:
            if len(self.by_id) >= limits.connections:
                raise Refused(Code.TOO_MANY_REQUESTS, "there are too many clients")
            client = self.by_id[client_id] = Client(client_id, settings, now)
        client.last, client.settings, client.settings_size = now, settings, size
        self._settings_size += grown
        if stream not in client.streams:
            if len(client.streams) >= _STREAMS_MAX:
                raise Refused(Code.TOO_MANY_REQUESTS, "the client has too many streams")
            client.streams.append(stream)
        said = group, topics, subscriptions
        if client.waits or (client.group, client.topics, client.subscriptions) != said:
            before = client.group
            client.group, client.topics, client.subscriptions = said
            await self._change(client, before)
        return client

    async def _change(self, client: Client, before: str | None) -> None:
        group, client.waits = client.group, False
        if before is not None:
            await self.context.run_in_turn(self.context.plugin.port.leave, before, client.client_id)
        if group is None:
            return
        try:
            await self.context.run_in_turn(self._join, group, client)
        except MemberExistsError:
            logger.warning("two clients have one id group=%s id=%s", group, client.client_id)
        except GroupDisabledError as error:
            logger.warning("client waits for its group group=%s reason=%s", group, error)
            client.waits = True
        except GroupKindError as error:
            self.drop(client.client_id)
            raise Refused(Code.UNSUPPORTED, str(error)) from None
        except (ReputError, ValueError) as error:
            self.drop(client.client_id)
            raise Refused(Code.FORBIDDEN, str(error)) from None

    def _join(self, group: str, client: Client) -> None:
        read = {topic: Selector() for topic in client.topics}
        if client.settings.client_type not in _LITE:
            read |= {pop_retry_topic(group, topic): Selector() for topic in client.topics}
        self.context.plugin.port.join(
            group,
            client.client_id,
            read,
            lambda: None,
            mixed=True,  # as RocketMQ, which leaves it to its users
            subscriptions=client.subscriptions,
            pops=True,
        )

    @property
    def _limits(self) -> Limits:
        return self.context.config.limits

    def leave(self, client_id: str, stream: CommandQueue) -> None:
        """Note that a stream has ended; with its last stream a client leaves its group."""
        client = self.by_id.get(client_id)
        if client is not None and stream in client.streams:
            client.streams.remove(stream)
            if not client.streams:
                self.drop(client_id)

    def drop(self, client_id: str) -> None:
        """Forget a client."""
        client = self.by_id.pop(client_id, None)
        self._settings_size -= 0 if client is None else client.settings_size
        self.lite.drop(client_id)
        if client is not None and client.group is not None:
            self.context.serial.submit(self.context.plugin.port.leave, client.group, client_id)

    def expire(self, now: int) -> None:
        """Forget clients without a stream that were silent for too long."""
        for client in list(self.by_id.values()):
            if not client.streams and now - client.last > _EXPIRY_MS:
                self.drop(client.client_id)

    def producers_of(self, topic: str) -> list[Client]:
        """Return the clients with a stream that produce to a topic."""
        return [
            each
            for each in self.by_id.values()
            if each.is_producer and each.streams and topic in each.topics
        ]


def _read(settings: Any) -> tuple[str | None, dict[str, Selector]]:
    """Return group and topics that settings name; no group of a producer."""
    kind = settings.WhichOneof("pub_sub")
    if kind == "publishing":
        named = [(each, Selector()) for each in settings.publishing.topics]
        group = None
    elif kind == "subscription":
        if settings.client_type not in _CONSUMERS:
            raise Refused(Code.BAD_REQUEST, f"a consumer of type {settings.client_type}")
        named = [
            (each.topic, _selector(each.expression)) for each in settings.subscription.subscriptions
        ]
        group = group_of(settings.subscription.group)
    else:
        text = "settings of a producer or of a consumer expected"
        raise Refused(Code.BAD_REQUEST, text)
    if len(named) > _TOPICS_MAX:
        raise Refused(Code.BAD_REQUEST, f"{len(named)} topics; {_TOPICS_MAX} at most")
    return group, {topic_of(topic): selector for topic, selector in named}


def _selector(given: Any) -> Selector:
    """Return what settings select, unchecked: receives name it once more, and are checked."""
    return Selector(given.expression or ALL, SQL92 if given.type == _SQL else TAG)
