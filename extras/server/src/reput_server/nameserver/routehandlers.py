"""What a name server answers.

Source: RocketMQ ``DefaultRequestProcessor`` and ``ClientRequestProcessor`` of the name server.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

import attrs

from reput_client.remoting import (
    BodyObject,
    BrokerAlive,
    BrokerData,
    BrokerNamed,
    ClusterInfo,
    ClusterOf,
    Command,
    DataVersionAnswer,
    Entry,
    EntryAnswer,
    EntryOf,
    MemberGroup,
    NamespaceOf,
    RegisterAnswer,
    RegisterBroker,
    Registration,
    RequestCode,
    ResponseCode,
    TopicOf,
    TopicRoute,
    TopicRouteOf,
    UnregisterBroker,
    WipedAnswer,
    WritableAnswer,
    data_version_of,
    version_number,
    write_body,
)
from reput_server.errors import Refusal
from reput_server.nameserver.routetable import ORDER_NAMESPACE, RouteTable

if TYPE_CHECKING:
    from reput_server.wire.interfaces import Request
    from reput_server.wire.requestdispatcher import Handler

_STRICT_FROM: Final = version_number(4, 9, 4)
_CRC_MASK: Final = 0x7FFFFFFF
_ENTRIES_MAX: Final = 100_000
_TEXT_MAX: Final = 1 << 20
_UNIT: Final = 1  # bits of a topic's flag
_UNIT_SUBSCRIBED: Final = 2
_UNITS: Final = {
    RequestCode.GET_UNIT_TOPIC_LIST: (_UNIT, 0),
    RequestCode.GET_HAS_UNIT_SUB_TOPIC_LIST: (_UNIT_SUBSCRIBED, 0),
    RequestCode.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST: (_UNIT_SUBSCRIBED, _UNIT),
}
"""Bits that a topic has to have, and must not have, by request code."""


@attrs.frozen(eq=False)
class NameHandlers:
    """The requests of a name server, over one table."""

    table: RouteTable
    clock: Callable[[], int]

    def by_code(self) -> Mapping[int, Handler]:
        """Return the handlers by request code."""
        return {
            RequestCode.GET_ROUTEINFO_BY_TOPIC: self.route,
            RequestCode.REGISTER_BROKER: self.register,
            RequestCode.UNREGISTER_BROKER: self.unregister,
            RequestCode.QUERY_DATA_VERSION: self.data_version,
            RequestCode.BROKER_HEARTBEAT: self.broker_heartbeat,
            RequestCode.GET_BROKER_CLUSTER_INFO: self.clusters,
            RequestCode.GET_BROKER_MEMBER_GROUP: self.member_group,
            RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER: self.topics,
            RequestCode.GET_TOPICS_BY_CLUSTER: self.topics_of_cluster,
            RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NS: self.system_topics,
            RequestCode.GET_UNIT_TOPIC_LIST: self.unit_topics,
            RequestCode.GET_HAS_UNIT_SUB_TOPIC_LIST: self.unit_topics,
            RequestCode.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST: self.unit_topics,
            RequestCode.DELETE_TOPIC_IN_NAMESRV: self.delete_topic,
            RequestCode.REGISTER_TOPIC_IN_NAMESRV: self.add_topic,
            RequestCode.PUT_KV_CONFIG: self.put_entry,
            RequestCode.GET_KV_CONFIG: self.get_entry,
            RequestCode.DELETE_KV_CONFIG: self.delete_entry,
            RequestCode.GET_KVLIST_BY_NAMESPACE: self.entries,
            RequestCode.WIPE_WRITE_PERM_OF_BROKER: self.wipe_write,
            RequestCode.ADD_WRITE_PERM_OF_BROKER: self.add_write,
        }

    # ------------------------------------------------------------------ routes

    async def route(self, request: Request) -> Command:
        """Answer where a topic is."""
        command = request.command
        asked: TopicRouteOf = command.header(TopicRouteOf)
        self.table.expire(self.clock())
        route = await self.table.route(asked.topic)
        if route is None:
            text = f"No topic route info in name server for the topic: {asked.topic}"
            raise Refusal(ResponseCode.TOPIC_NOT_EXIST, text)
        # Go's client reads keys without quotes only, and never is so new.
        is_strict = bool(asked.accept_standard_json_only) or command.version >= _STRICT_FROM
        return command.answer(ResponseCode.SUCCESS, body=route.encode(is_strict=is_strict))

    async def clusters(self, request: Request) -> Command:
        """Answer the list of brokers."""
        self.table.expire(self.clock())
        info = ClusterInfo(brokers=self.table.brokers(), clusters=self.table.clusters())
        return request.command.answer(ResponseCode.SUCCESS, body=info.encode())

    async def member_group(self, request: Request) -> Command:
        """Answer the master and slaves of one name."""
        asked: MemberGroup = request.command.header(MemberGroup)
        data = self.table.brokers().get(asked.broker_name)
        is_there = data is not None and data.cluster == asked.cluster_name
        addresses = dict(data.addresses) if data is not None and is_there else {}
        members = {
            "brokerAddrs": addresses,
            "brokerName": asked.broker_name,
            "cluster": asked.cluster_name,
        }
        body = write_body({"brokerMemberGroup": members})
        return request.command.answer(ResponseCode.SUCCESS, body=body)

    async def topics(self, request: Request) -> Command:
        """Answer all topics."""
        body = write_body({"topicList": self.table.topics()})
        return request.command.answer(ResponseCode.SUCCESS, body=body)

    async def topics_of_cluster(self, request: Request) -> Command:
        """Answer the topics of one cluster."""
        asked: ClusterOf = request.command.header(ClusterOf)
        body = write_body({"topicList": self.table.topics(asked.cluster)})
        return request.command.answer(ResponseCode.SUCCESS, body=body)

    async def unit_topics(self, request: Request) -> Command:
        """Answer the topics of units, the topics that units subscribe to, or these alone."""
        wanted, unwanted = _UNITS[RequestCode(request.command.code)]
        flags = self.table.sys_flags()
        names = [name for name, flag in flags.items() if flag & wanted and not flag & unwanted]
        return request.command.answer(
            ResponseCode.SUCCESS, body=write_body({"topicList": sorted(names)})
        )

    async def system_topics(self, request: Request) -> Command:
        """Answer names that count as topics and are none of the users': clusters and brokers."""
        brokers = self.table.brokers()
        names = sorted({*self.table.clusters(), *brokers})
        addresses = [each for data in brokers.values() for each in data.addresses.values()]
        body = write_body({"brokerAddr": next(iter(addresses), ""), "topicList": names})
        return request.command.answer(ResponseCode.SUCCESS, body=body)

    async def delete_topic(self, request: Request) -> Command:
        """Forget a topic of registered brokers."""
        asked: TopicOf = request.command.header(TopicOf)
        self.table.delete_topic(asked.topic, request.command.fields.get("clusterName"))
        return request.command.answer(ResponseCode.SUCCESS)

    async def add_topic(self, request: Request) -> Command:
        """Note a topic's queues."""
        asked: TopicOf = request.command.header(TopicOf)
        self.table.add_route(asked.topic, TopicRoute.decode(request.command.body))
        return request.command.answer(ResponseCode.SUCCESS)

    # ------------------------------------------------------------------ brokers

    async def register(self, request: Request) -> Command:
        """Note a broker and its topics."""
        command = request.command
        asked: RegisterBroker = command.header(RegisterBroker)
        if asked.body_crc32 and zlib.crc32(command.body) & _CRC_MASK != asked.body_crc32:
            raise Refusal(ResponseCode.SYSTEM_ERROR, "crc32 not match")
        registration = Registration.decode(command.body, is_packed=asked.compressed)
        # One topic alone is an update of a known broker; here it came before the registration.
        if len(registration.topics) == 1 and not self.table.has(asked.broker_name, asked.broker_id):
            raise Refusal(ResponseCode.SYSTEM_ERROR, "register broker failed")
        data = BrokerData(
            cluster=asked.cluster_name,
            broker=asked.broker_name,
            addresses={asked.broker_id: asked.broker_addr},
        )
        self.table.register(
            data,
            registration,
            self.clock(),
            timeout_ms=asked.heartbeat_timeout_millis,
            ha_address=asked.ha_server_addr,
        )

        def leave() -> None:
            self.table.unregister(asked.broker_name, asked.broker_addr)

        # A broker that dies takes its connection with it; it registers again on another one.
        request.peer.remember(("broker", asked.broker_addr), leave)
        header = RegisterAnswer()
        master = self.table.master_of(asked.broker_name) if asked.broker_id else None
        if master is not None:
            header = RegisterAnswer(master_addr=master[0], ha_server_addr=master[1])
        body = write_body({"table": self.table.entries.get(ORDER_NAMESPACE, {})})
        return command.answer(ResponseCode.SUCCESS, header, body=body)

    async def unregister(self, request: Request) -> Command:
        """Forget a broker."""
        asked: UnregisterBroker = request.command.header(UnregisterBroker)
        self.table.unregister(asked.broker_name, asked.broker_addr)
        request.peer.forget(("broker", asked.broker_addr))
        return request.command.answer(ResponseCode.SUCCESS)

    async def data_version(self, request: Request) -> Command:
        """Answer whether a broker's topics are other ones than it has registered."""
        asked: UnregisterBroker = request.command.header(UnregisterBroker)
        found = data_version_of(BodyObject.of(request.command.body, "data version"))
        live = self.table.touch(asked.broker_addr, self.clock())
        is_changed = live is None or dict(live.version) != found
        body = b"" if live is None else write_body(live.version)
        header = DataVersionAnswer(changed=is_changed)
        return request.command.answer(ResponseCode.SUCCESS, header, body=body)

    async def broker_heartbeat(self, request: Request) -> Command:
        """Note that a broker is still there."""
        asked: BrokerAlive = request.command.header(BrokerAlive)
        self.table.touch(asked.broker_addr, self.clock())
        return request.command.answer(ResponseCode.SUCCESS)

    async def wipe_write(self, request: Request) -> Command:
        """Let nobody write to a broker's topics."""
        asked: BrokerNamed = request.command.header(BrokerNamed)
        count = self.table.set_writable(asked.broker_name, is_writable=False)
        return request.command.answer(ResponseCode.SUCCESS, WipedAnswer(count=count))

    async def add_write(self, request: Request) -> Command:
        """Let everybody write to a broker's topics again."""
        asked: BrokerNamed = request.command.header(BrokerNamed)
        count = self.table.set_writable(asked.broker_name, is_writable=True)
        return request.command.answer(ResponseCode.SUCCESS, WritableAnswer(count=count))

    # ------------------------------------------------------------------ settings by name

    async def put_entry(self, request: Request) -> Command:
        """Note a setting."""
        asked: Entry = request.command.header(Entry)
        count = sum(map(len, self.table.entries.values()))
        if count >= _ENTRIES_MAX or len(asked.value) > _TEXT_MAX:
            raise Refusal(ResponseCode.SYSTEM_ERROR, f"{count} settings; the table is full")
        self.table.entries.setdefault(asked.namespace, {})[asked.key] = asked.value
        return request.command.answer(ResponseCode.SUCCESS)

    async def get_entry(self, request: Request) -> Command:
        """Answer a setting."""
        asked: EntryOf = request.command.header(EntryOf)
        value = self.table.entries.get(asked.namespace, {}).get(asked.key)
        if value is None:
            text = f"No config item, Namespace: {asked.namespace} Key: {asked.key}"
            raise Refusal(ResponseCode.QUERY_NOT_FOUND, text)
        return request.command.answer(ResponseCode.SUCCESS, EntryAnswer(value=value))

    async def delete_entry(self, request: Request) -> Command:
        """Forget a setting."""
        asked: EntryOf = request.command.header(EntryOf)
        self.table.entries.get(asked.namespace, {}).pop(asked.key, None)
        return request.command.answer(ResponseCode.SUCCESS)

    async def entries(self, request: Request) -> Command:
        """Answer all settings of a namespace."""
        asked: NamespaceOf = request.command.header(NamespaceOf)
        found = self.table.entries.get(asked.namespace)
        if found is None:
            text = f"No config item, Namespace: {asked.namespace}"
            raise Refusal(ResponseCode.QUERY_NOT_FOUND, text)
        return request.command.answer(ResponseCode.SUCCESS, body=write_body({"table": found}))
