"""`Broker`: the requests of one broker, over one store."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Coroutine, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Final

import attrs

from reput.errors import PluginError, ReputError
from reput_aio import FlushWaiters
from reput_consumer import ConsumerPlugin
from reput_server.broker.admin.configuration.optionhandlers import ConfigurationHandlers
from reput_server.broker.admin.deletehandlers import DeleteHandlers
from reput_server.broker.admin.forwardhandlers import ForwardHandlers
from reput_server.broker.admin.grouphandlers import GroupHandlers
from reput_server.broker.admin.inspectionhandlers import InspectionHandlers
from reput_server.broker.admin.replicationhandlers import ReplicationHandlers
from reput_server.broker.admin.resethandlers import ResetHandlers
from reput_server.broker.admin.statisticshandlers import StatisticsHandlers
from reput_server.broker.admin.statushandlers import StatusHandlers
from reput_server.broker.admin.topichandlers import TopicHandlers
from reput_server.broker.brokercontext import BrokerContext
from reput_server.broker.builtintopics import built_in_topics
from reput_server.broker.clients.groupregistry import GroupRegistry
from reput_server.broker.clients.memberhandlers import MemberHandlers
from reput_server.broker.clients.offsethandlers import OffsetHandlers
from reput_server.broker.clients.pendingresets import PendingResets
from reput_server.broker.clients.pullfilters import Filters
from reput_server.broker.lite.liteadminhandlers import LiteAdminHandlers
from reput_server.broker.lite.litechanges import LiteChanges
from reput_server.broker.lite.litehandlers import LiteHandlers
from reput_server.broker.liveoptions import LiveOptions
from reput_server.broker.pop.ackhandlers import AckHandlers
from reput_server.broker.pop.assignhandlers import AssignHandlers
from reput_server.broker.pop.longpolling import PopLongPolling
from reput_server.broker.pop.pophandlers import PopHandlers
from reput_server.broker.pull.fastpath import PullFastPath
from reput_server.broker.pull.longpolling import PullLongPolling
from reput_server.broker.pull.pullhandlers import CODES as PULL_CODES
from reput_server.broker.pull.pullhandlers import PullHandlers
from reput_server.broker.query.queryhandlers import QueryHandlers
from reput_server.broker.send.durableanswers import DurableAnswers
from reput_server.broker.send.fastpathswitch import FastPathSwitch
from reput_server.broker.send.fastpathtopics import FastPathTopics
from reput_server.broker.send.replyhandlers import ReplyHandlers
from reput_server.broker.send.roundput import RoundPut
from reput_server.broker.send.sendbackhandlers import SendBackHandlers
from reput_server.broker.send.sendbatcher import SendBatcher
from reput_server.broker.send.sendhandlers import SendHandlers
from reput_server.broker.send.synchronoussend import SynchronousSends
from reput_server.broker.statistics.brokerstatistics import BrokerStatistics
from reput_server.broker.statistics.watchedpool import WatchedPool
from reput_server.broker.topictable import READ, WRITE, TopicTable
from reput_server.broker.transaction.transactionhandlers import TransactionHandlers
from reput_server.errors import ServerError
from reput_server.wire.requestdispatcher import RequestDispatcher

if TYPE_CHECKING:
    import asyncio

    from reput import Store
    from reput_client.remoting import Address, BrokerData, TopicSettings
    from reput_consumer import MessageQueue
    from reput_server.config import ServerConfig
    from reput_server.replication.replicaservice import ReplicaService
    from reput_server.wire.requestdispatcher import Handler

_THREADS: Final = 4
_READ_AND_WRITE: Final = READ | WRITE


@attrs.define(eq=False, repr=False)
class Broker:
    """A broker; also what the name server of the process knows without registration."""

    context: BrokerContext
    sends: SendBatcher
    groups: GroupRegistry
    held: PullLongPolling
    polls: PopLongPolling
    transactions: TransactionHandlers
    durable: DurableAnswers | None
    """Keeps answers to sends until these are on disk, if the store's puts wait for the disk."""
    _executors: tuple[ThreadPoolExecutor, ...]
    lite: LiteChanges = attrs.field(init=False)
    """What clients subscribe to of lite topics."""
    marks: PendingResets = attrs.field(init=False)
    """Offsets of which members of groups have taken no notice yet."""

    @marks.default
    def _default_marks(self) -> PendingResets:
        return PendingResets(self.context.plugin.port.offsets.get)

    def __attrs_post_init__(self) -> None:
        self.context.plugin.watch(self.context.statistics.arrived, self._moving)

    @lite.default
    def _default_lite(self) -> LiteChanges:
        return LiteChanges.of(self.context)

    @classmethod
    def of(
        cls,
        store: Store,
        config: ServerConfig,
        loop: asyncio.AbstractEventLoop,
        begin: Callable[[Coroutine[Any, Any, None]], None],
        address: Address,
        packed_host: bytes,
        *,
        is_writable: bool,
        replicas: ReplicaService | None = None,
    ) -> Broker:
        """Return the broker of a store.

        Args:
            store: the store.
            config: the server's options.
            loop: where requests are answered.
            begin: has something done on the loop.
            address: the address for clients.
            packed_host: the same in message ids.
            is_writable: False if the store was opened for reading.
            replicas: the HA port; None without one.

        Raises:
            ServerError: the store lacks a plugin without which nothing can be served.
        """
        plugin = _consumers_of(store)
        # Where nothing can be written, producers look for other brokers.
        options = LiveOptions(config, _READ_AND_WRITE if is_writable else READ)
        pool = WatchedPool(_THREADS, "reput-serve")
        serial = WatchedPool(1, "reput-serve-turn")
        writer = ThreadPoolExecutor(1, "reput-serve-put")
        topics = TopicTable(
            store,
            plugin,
            _now,
            options,
            is_writable,
            built_in_topics(config.cluster, plugin.config.broker_name),
        )
        statistics = BrokerStatistics(config.cluster, store.log.max_physical_offset)
        context = BrokerContext(
            store,
            plugin,
            options,
            loop,
            pool,
            serial,
            _now,
            is_writable,
            topics,
            statistics,
            address,
            packed_host,
            replicas,
        )
        executors: list[ThreadPoolExecutor] = [pool, serial, writer]
        log_grew = None if replicas is None else replicas.log_grew
        durable = None
        if store.config.flush == "sync":
            durable = DurableAnswers(
                loop,
                FlushWaiters.of(store.log, loop),
                lambda: store.log.max_physical_offset,
                store.config.flush_timeout_ms,
                statistics.sends,
                lambda: sends.clock(),
                log_grew,
            )
        sends = SendBatcher(
            RoundPut(
                store.put,
                store.put_many,
                None if replicas is None else lambda: store.log.max_physical_offset,
            ),
            loop,
            writer,
            options,
            statistics.sends,
            durable=durable,
            replication=None if replicas is None else replicas.waits,
            log_grew=log_grew,
        )
        held = PullLongPolling(context, begin)
        # Each uses the other, but not before a client exists.
        groups = GroupRegistry(context, lambda group: transactions.watch(group))
        transactions = TransactionHandlers(context, groups)
        polls = PopLongPolling(context)
        return cls(context, sends, groups, held, polls, transactions, durable, tuple(executors))

    def _by_code(self, pulls: PullHandlers) -> Mapping[int, Handler]:
        """Return the handlers by request code."""
        context, filters, marks = self.context, pulls.filters, self.marks
        sends, pops = SendHandlers(context, self.sends), PopHandlers(context, filters, self.polls)
        rooms = (
            sends,
            ReplyHandlers(context, self.groups, sends),
            SendBackHandlers(context),
            QueryHandlers(context),
            self.transactions,
            TopicHandlers(context, self.groups),
            GroupHandlers(context, self.groups),
            StatusHandlers(context, self.sends, context.clock()),
            StatisticsHandlers(context, self.groups),
            ConfigurationHandlers(context),
            ReplicationHandlers(context),
            DeleteHandlers(context, marks),
            ResetHandlers(context, self.groups, self.move_group),
            ForwardHandlers(context, self.groups),
            InspectionHandlers(context, self.groups),
            pulls,
            pops,
            LiteHandlers(context, pops, self.lite),
            LiteAdminHandlers(context, self.lite.subscriptions),
            AckHandlers(context),
            AssignHandlers(context, self.groups),
            MemberHandlers(context, self.groups, filters),
            OffsetHandlers(context, marks),
        )
        return {code: handler for room in rooms for code, handler in room.by_code().items()}

    def handlers(self, access_keys: Mapping[str, str]) -> RequestDispatcher:
        """Return what answers requests, in three ways: from bytes, at once, and by a task."""
        context = self.context
        topics = FastPathTopics(context)
        filters = Filters(context, self.groups)
        pulls = PullHandlers(context, filters, self.held, self.marks, context.config.limits)
        sends = FastPathSwitch(context, self.sends, topics, self.durable)
        return RequestDispatcher(
            self._by_code(pulls),
            access_keys,
            SynchronousSends(context, self.sends, topics).by_code(),
            (sends.take, PullFastPath(pulls).take),
            # The fast path takes no sends whose answers wait for replicas.
            sends.take_sockets if self.sends.replication is None else None,
            PULL_CODES,
        )

    async def move_group(self, group: str, offsets: Mapping[MessageQueue, int]) -> None:
        """Have a group go on at other offsets, as `_moving` says.

        Raises:
            ReputError: the offsets cannot be committed.
            OSError: they cannot be written.
        """
        await self.context.run(self.context.plugin.move_group, group, offsets)

    @contextlib.contextmanager
    def _moving(self, group: str, offsets: Mapping[MessageQueue, int]) -> Iterator[None]:
        """Surround a move of a group: its members elsewhere learn it by their next pull."""
        with self.marks.moving(group, offsets):
            yield
        for queue in offsets:
            self.context.loop.call_soon_threadsafe(self.held.look_again, queue)

    def close(self) -> None:
        """Finish what was begun."""
        self.context.plugin.watch(None)
        self.transactions.close()
        for executor in self._executors:
            executor.shutdown(wait=True, cancel_futures=True)

    # ------------------------------------------------------------------ for the name server

    @property
    def data(self) -> BrokerData:
        """Its name, its cluster and its address."""
        return self.context.data

    @property
    def ha_address(self) -> str:
        """``HOST:PORT`` at which its slaves get the log; empty if they get it nowhere."""
        return self.context.ha_address

    def topics(self) -> Mapping[str, TopicSettings]:
        """Return all its topics, as far as was looked."""
        found = self.context.topics.all()
        return {name: self._permitted(each) for name, each in found.items()}

    async def topic(self, name: str) -> TopicSettings | None:
        """Return one of its topics; None if it has no such topic."""
        found = self.context.topics.known(name)
        found = found or await self.context.run(self.context.topics.find, name)
        return None if found is None else self._permitted(found)

    async def look(self) -> Mapping[str, TopicSettings]:
        """Return all its topics, including the newest ones."""
        await self.context.run(self.context.topics.look)
        return self.topics()

    def _permitted(self, topic: TopicSettings) -> TopicSettings:
        allowed = self.context.options.permissions | ~_READ_AND_WRITE
        if topic.permissions & ~allowed == 0:
            return topic
        return attrs.evolve(topic, permissions=topic.permissions & allowed)


def _consumers_of(store: Store) -> ConsumerPlugin:
    try:
        store.queues()
        return store.plugin(ConsumerPlugin)
    except PluginError as error:
        advice = 'open the store with plugins={"consumequeue", "consumer", …}'
        raise ServerError(f"{error}; {advice}") from None
    except ReputError as error:
        raise ServerError(str(error)) from None


def _now() -> int:
    return time.time_ns() // 1_000_000
