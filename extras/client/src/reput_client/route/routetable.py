"""`RouteTable`: the routes of topics in use, and the addresses of brokers.

Source: RocketMQ ``MQClientInstance#updateTopicRouteInfoFromNameServer``.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable
from typing import TYPE_CHECKING

from reput_client.errors import BrokerError, ClientError, RouteNotFoundError
from reput_client.remoting import MASTER_ID, Command, RequestCode, ResponseCode, TopicRoute
from reput_client.route.route import Route
from reput_tools.offline import TEMPLATE_TOPIC

if TYPE_CHECKING:
    from reput_client.connection.nameservers import NameServers
    from reput_consumer import MessageQueue

logger = logging.getLogger(__name__)


class RouteTable:
    """Routes by topic, as name servers sent them last. Used on the loop's thread."""

    def __init__(
        self,
        name_servers: NameServers,
        changed: Callable[[set[str]], None] = lambda topics: None,
    ) -> None:
        """Make an empty table; ``changed`` is called with topics whose route is another one."""
        self._name_servers = name_servers
        self._changed = changed
        self._routes: dict[str, Route] = {}
        self._asked: dict[str, asyncio.Task[Route | None]] = {}
        self._wanted: set[str] = set()
        """Topics that consumers read, also those without a route."""

    # ------------------------------------------------------------------ topics

    async def find(self, topic: str) -> Route | None:
        """Return the route of a topic; None if it does not exist. It is requested only once.

        Raises:
            ClientError: no name server answers.
        """
        return self._routes.get(topic) or await self.ask(topic)

    async def ask(self, topic: str) -> Route | None:
        """Request the route of a topic, and return it; None if it does not exist.

        Raises:
            ClientError: no name server answers.
        """
        asked = self._asked.get(topic)
        if asked is None:
            asked = asyncio.get_running_loop().create_task(self._ask(topic))
            self._asked[topic] = asked
            asked.add_done_callback(lambda task: self._answered(topic, task))
        return await asyncio.shield(asked)

    def _answered(self, topic: str, task: asyncio.Task[Route | None]) -> None:
        del self._asked[topic]
        if not task.cancelled():
            task.exception()  # it goes to the waiting callers, if any

    async def _ask(self, topic: str) -> Route | None:
        found = await self._from_name_server(topic)
        if found is not None:
            self._keep(topic, found)
        return found

    async def _from_name_server(self, topic: str) -> Route | None:
        # Names of members in quotation marks, which name servers since 4.9.4 send on request.
        fields = {"topic": topic, "acceptStandardJsonOnly": "true"}
        command = Command(RequestCode.GET_ROUTEINFO_BY_TOPIC, fields)
        address, answer = await self._name_servers.request(command)
        if answer.code == ResponseCode.TOPIC_NOT_EXIST:
            return None
        if answer.code != ResponseCode.SUCCESS:
            raise BrokerError(address, answer.code, answer.remark or "")
        try:
            return Route.of(TopicRoute.decode(answer.body))
        except ValueError as error:
            text = f"the route of topic {topic!r} cannot be read: {error}"
            raise BrokerError(address, answer.code, text) from error

    def _keep(self, topic: str, route: Route) -> None:
        if self._routes.get(topic) != route:
            self._routes[topic] = route
            logger.info("route changed topic=%s brokers=%s", topic, sorted(route.addresses))
            self._changed({topic})

    async def for_sending(self, topic: str, queue_count: int) -> Route:
        """Return the route of a topic that messages are sent to.

        Args:
            topic: the topic.
            queue_count: most queues of each broker, should the topic come into being now.

        Raises:
            RouteNotFoundError: it does not exist, and brokers do not create topics by themselves.
            ClientError: no name server answers.
        """
        found = await self.find(topic)
        if found is not None:
            return found
        template = await self._from_name_server(TEMPLATE_TOPIC)
        if template is None or not template.publish_queues(topic):
            reason = (
                "it does not exist, and no broker makes topics by being sent to "
                "(autoCreateTopicEnable); create it with mqadmin updateTopic"
            )
            raise RouteNotFoundError(topic, reason)
        found = template.as_template(queue_count)
        self._keep(topic, found)
        return found

    async def queues(self, topic: str) -> list[MessageQueue]:
        """Return the queues that a topic may be read from; none if it has no route.

        Raises:
            ClientError: no name server answers.
        """
        found = await self.find(topic)
        return [] if found is None else found.subscribe_queues(topic)

    # ------------------------------------------------------------------ what is looked for again

    def want(self, topic: str) -> None:
        """Look for the route of a topic with every `refresh`, also if it does not exist yet."""
        self._wanted.add(topic)

    async def refresh(self) -> None:
        """Request all routes again; a route without an answer stays as it is."""
        for topic in sorted(self._wanted | self._routes.keys()):
            try:
                if await self.ask(topic) is None and topic in self._routes:
                    logger.debug("topic has no route any more topic=%s", topic)
            except ClientError as error:
                logger.warning("route not looked for topic=%s: %s", topic, error)
                return  # the others would wait in vain, too

    async def look_for_missing(self) -> None:
        """Request the routes of topics that consumers wait for and that have none yet."""
        for topic in sorted(self._wanted - self._routes.keys()):
            try:
                await self.ask(topic)
            except ClientError as error:
                logger.debug("route not looked for topic=%s: %s", topic, error)
                return

    # ------------------------------------------------------------------ brokers

    def addresses_of(self, broker: str) -> dict[int, str]:
        """Return the addresses of the brokers of one name, by id; empty if none is known."""
        found: dict[int, str] = {}
        for route in self._routes.values():
            found.update(route.addresses.get(broker, {}))
        return found

    async def master(self, queue: MessageQueue) -> str:
        """Return the address of the master that has a queue.

        Raises:
            RouteNotFoundError: it does not exist now.
            ClientError: no name server answers.
        """
        return await self.broker(queue, MASTER_ID, is_exact=True)

    async def broker(self, queue: MessageQueue, broker_id: int, *, is_exact: bool = False) -> str:
        """Return the address of the broker with that id that has a queue, or of another one.

        Raises:
            RouteNotFoundError: it does not exist now.
            ClientError: no name server answers.
        """
        for has_asked in (False, True):
            known = self.addresses_of(queue.broker)
            if broker_id in known:
                return known[broker_id]
            if known and not is_exact:
                return known.get(broker_id + 1) or known[min(known)]
            if not has_asked:
                await self.ask(queue.topic)
        raise RouteNotFoundError(queue.topic, f"broker {queue.broker!r} has no master now")

    def all_brokers(self, topics: set[str] | None = None) -> dict[str, int]:
        """Return the ids of all brokers that have ``topics``, or any topic, by address."""
        return {
            address: broker_id
            for topic, route in self._routes.items()
            if topics is None or topic in topics
            for known in route.addresses.values()
            for broker_id, address in known.items()
        }

    def one_broker(self, topics: set[str]) -> str | None:
        """Return the address of any broker that has one of ``topics``, a master if there is one."""
        found = self.all_brokers(topics)
        masters = [address for address, broker_id in found.items() if broker_id == MASTER_ID]
        return random.choice(masters or list(found)) if found else None
