"""The name server: its own broker, foreign ones, and settings by name."""

from __future__ import annotations

import json
import zlib

import pytest
from wirepeer import message

from reput_client.remoting import (
    BrokerAlive,
    BrokerNamed,
    ClusterInfo,
    ClusterOf,
    Entry,
    EntryOf,
    MemberGroup,
    NamespaceOf,
    QueueData,
    RegisterBroker,
    Registration,
    RequestCode,
    ResponseCode,
    TopicOf,
    TopicRoute,
    TopicRouteOf,
    TopicSettings,
    UnregisterBroker,
    parse_body,
)
from reput_server import ServerConfig, serving

SMALL = {"commitlog": {"file_size": 1 << 20}, "consumequeue": {"units_per_file": 1_000}}
FOREIGN = RegisterBroker(
    broker_name="broker-b", broker_addr="10.0.0.2:10911", cluster_name="C", broker_id=0
)
REGISTRATION = Registration(
    topics={
        "orders": TopicSettings(topic="orders", read_queues=8, write_queues=6),
        "theirs": TopicSettings(topic="theirs"),
    },
    version={"counter": 1, "timestamp": 5},
)


def register(names, header=FOREIGN, registration=REGISTRATION):
    return names.ask(RequestCode.REGISTER_BROKER, header, body=registration.encode())


def with_topics(**flags):
    topics = {name: TopicSettings(topic=name, sys_flag=flag) for name, flag in flags.items()}
    return Registration(topics=topics, version={"counter": 1, "timestamp": 5})


def route(names, topic):
    answer = names.ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, TopicRouteOf(topic=topic))
    return TopicRoute.decode(answer.body) if answer.code == 0 else answer.code


def unregistered(broker_id=0):
    return UnregisterBroker(
        broker_name="broker-b",
        broker_addr="10.0.0.2:10911",
        cluster_name="C",
        broker_id=broker_id,
    )


def test_a_topic_that_was_sent_to_has_a_route_at_once(served):
    names = served.names()
    before = route(names, "orders")

    served.peer().ask(RequestCode.SEND_MESSAGE_V2, message("orders"), body=b"x")

    found = route(names, "orders")
    assert before == 17
    assert found.queues == (
        QueueData(broker="broker-a", read_queues=4, write_queues=4, permissions=6),
    )
    host, port = served.server.address
    assert found.brokers[0].addresses == {0: f"{host}:{port}"}


def test_topics_that_only_the_store_knows_have_routes(serve, tmp_path):
    import reput

    with reput.open(tmp_path / "store", plugins={"consumequeue"}, config=SMALL) as store:
        store.put(reput.Message("old", b"x", 2))
    served = serve()

    assert route(served.names(), "old").queues[0].read_queues == 3


def test_the_template_by_which_clients_make_topics_has_a_route(served):
    assert route(served.names(), "TBW102").queues[0].permissions == 7


def test_go_gets_bare_keys_and_new_clients_get_json(served):
    names = served.names()
    served.peer().ask(RequestCode.SEND_MESSAGE_V2, message("orders"), body=b"x")
    old = old_request(names, "orders")

    new = names.ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, TopicRouteOf(topic="orders")).body

    assert b'"brokerAddrs":{0:"' in old
    assert json.loads(new)["brokerDatas"][0]["brokerAddrs"].keys() == {"0"}


def old_request(names, topic):
    import attrs

    from reput_client.remoting import Command

    command = Command.request(RequestCode.GET_ROUTEINFO_BY_TOPIC, TopicRouteOf(topic=topic))
    names.send(attrs.evolve(command, version=317))
    return names.receive().body


def test_a_foreign_broker_is_in_routes_until_it_leaves(served):
    names = served.names()
    served.peer().ask(RequestCode.SEND_MESSAGE_V2, message("orders"), body=b"x")

    answer = register(names)
    together = route(names, "orders")
    info = ClusterInfo.decode(names.ask(RequestCode.GET_BROKER_CLUSTER_INFO).body)
    names.ask(RequestCode.UNREGISTER_BROKER, unregistered())

    assert parse_body(answer.body, "entries") == {"table": {}}
    assert sorted(each.broker for each in together.queues) == ["broker-a", "broker-b"]
    assert info.clusters == {"C": ("broker-b",), "DefaultCluster": ("broker-a",)}
    assert [each.broker for each in route(names, "orders").queues] == ["broker-a"]
    assert route(names, "theirs") == 17


def test_a_broker_whose_connection_closes_is_gone(served):
    names, broker = served.names(), served.names()
    register(broker)
    assert isinstance(route(names, "theirs"), TopicRoute)

    broker.socket.close()

    for _ in range(1_000):
        if route(names, "theirs") == 17:
            break
    assert route(names, "theirs") == 17


def test_a_registration_that_was_damaged_is_refused(served):
    import attrs

    names = served.names()
    body = REGISTRATION.encode()
    header = attrs.evolve(FOREIGN, body_crc32=zlib.crc32(body) & 0x7FFFFFFF)

    good = names.ask(RequestCode.REGISTER_BROKER, header, body=body)
    bad = names.ask(RequestCode.REGISTER_BROKER, header, body=body + b" ")

    assert (good.code, bad.code, bad.remark) == (0, 1, "crc32 not match")


def test_a_slave_is_told_where_its_master_is(served):
    import attrs

    names = served.names()
    register(names, attrs.evolve(FOREIGN, ha_server_addr="10.0.0.2:10912"))

    answer = register(names, attrs.evolve(FOREIGN, broker_id=1, broker_addr="10.0.0.3:10911"))

    assert answer.fields == {"haServerAddr": "10.0.0.2:10912", "masterAddr": "10.0.0.2:10911"}
    assert route(names, "theirs").brokers[0].addresses == {
        0: "10.0.0.2:10911",
        1: "10.0.0.3:10911",
    }
    group = names.ask(
        RequestCode.GET_BROKER_MEMBER_GROUP, MemberGroup(cluster_name="C", broker_name="broker-b")
    )
    assert len(parse_body(group.body, "group")["brokerMemberGroup"]["brokerAddrs"]) == 2


def test_a_broker_asks_whether_its_topics_are_known(served):
    names = served.names()
    register(names)

    same = names.ask(
        RequestCode.QUERY_DATA_VERSION, unregistered(), body=b'{"counter":1,"timestamp":5}'
    )
    other = names.ask(RequestCode.QUERY_DATA_VERSION, unregistered(), body=b'{"counter":2}')

    assert (same.fields["changed"], other.fields["changed"]) == ("false", "true")
    alive = BrokerAlive(cluster_name="C", broker_addr="10.0.0.2:10911", broker_name="broker-b")
    assert names.ask(RequestCode.BROKER_HEARTBEAT, alive).code == 0


def test_a_broker_that_is_silent_is_forgotten():
    from reput_client.remoting import BrokerData
    from reput_server.nameserver.routetable import RouteTable

    table = RouteTable()
    data = BrokerData(cluster="C", broker="b", addresses={0: "x:1"})
    table.register(data, REGISTRATION, 1_000)
    table.register(
        BrokerData(cluster="C", broker="c", addresses={0: "y:1"}), REGISTRATION, 1_000,
        timeout_ms=5_000,
    )  # fmt: skip

    table.touch("x:1", 100_000)
    table.expire(121_001)
    assert list(table.brokers()) == ["b"]
    table.expire(220_001)

    assert table.brokers() == {}
    assert table.topics() == []


def test_topics_are_listed_and_deleted(served):
    names = served.names()
    register(names)

    def listed(code, header=None):
        return parse_body(names.ask(code, header).body, "topics")["topicList"]

    every = listed(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER)
    assert every == sorted(every)
    assert {"DefaultCluster_REPLY_TOPIC", "TBW102", "orders", "theirs"} <= set(every)
    assert listed(RequestCode.GET_TOPICS_BY_CLUSTER, ClusterOf(cluster="C")) == ["orders", "theirs"]
    assert set(listed(RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NS)) >= {"C", "broker-a", "broker-b"}
    names.ask(RequestCode.DELETE_TOPIC_IN_NAMESRV, TopicOf(topic="theirs"))
    assert route(names, "theirs") == 17
    back = TopicRoute(
        queues=(QueueData(broker="broker-b", read_queues=1, write_queues=1, permissions=6),)
    )
    names.ask(RequestCode.REGISTER_TOPIC_IN_NAMESRV, TopicOf(topic="theirs"), body=back.encode())
    assert route(names, "theirs").queues == back.queues


def test_topics_of_units_are_listed_by_what_they_are(served):
    names = served.names()
    flags = {"plain": 0, "unit": 1, "read": 2, "both": 3}
    register(names, registration=with_topics(**flags))

    found = {
        code: parse_body(names.ask(code).body, "topics")["topicList"] for code in (311, 312, 313)
    }

    assert found == {311: ["both", "unit"], 312: ["both", "read"], 313: ["read"]}


def test_a_broker_that_brings_one_topic_first_is_refused_as_long_as_it_is_not_known(served):
    names = served.names()

    first = register(names, registration=with_topics(lonely=0))
    register(names, registration=with_topics(lonely=0, second=0))
    later = register(names, registration=with_topics(lonely=0))

    assert (first.code, later.code) == (ResponseCode.SYSTEM_ERROR, ResponseCode.SUCCESS)


def test_the_permission_to_write_is_taken_and_given(served):
    names = served.names()
    register(names)

    wiped = names.ask(RequestCode.WIPE_WRITE_PERM_OF_BROKER, BrokerNamed(broker_name="broker-b"))
    without = route(names, "theirs").queues[0].permissions
    given = names.ask(RequestCode.ADD_WRITE_PERM_OF_BROKER, BrokerNamed(broker_name="broker-b"))

    assert wiped.fields == {"wipeTopicCount": "2"}
    assert given.fields == {"addTopicCount": "2"}
    assert (without, route(names, "theirs").queues[0].permissions) == (4, 6)


def test_settings_by_name_are_kept_and_order_is_part_of_a_route(served):
    names = served.names()
    served.peer().ask(RequestCode.SEND_MESSAGE_V2, message("orders"), body=b"x")
    space = "ORDER_TOPIC_CONFIG"

    missing = names.ask(RequestCode.GET_KV_CONFIG, EntryOf(namespace=space, key="orders"))
    none = names.ask(RequestCode.GET_KVLIST_BY_NAMESPACE, NamespaceOf(namespace=space))
    entry = Entry(namespace=space, key="orders", value="broker-a:4")
    names.ask(RequestCode.PUT_KV_CONFIG, entry)

    assert (missing.code, none.code) == (22, 22)
    found = names.ask(RequestCode.GET_KV_CONFIG, EntryOf(namespace=space, key="orders"))
    assert found.fields == {"value": "broker-a:4"}
    assert route(names, "orders").order == "broker-a:4"
    listed = names.ask(RequestCode.GET_KVLIST_BY_NAMESPACE, NamespaceOf(namespace=space))
    assert parse_body(listed.body, "entries") == {"table": {"orders": "broker-a:4"}}
    names.ask(RequestCode.DELETE_KV_CONFIG, EntryOf(namespace=space, key="orders"))
    assert route(names, "orders").order is None


def test_a_name_server_stands_alone_and_a_broker_does():
    config = ServerConfig(listen=("127.0.0.1", 0), name_server=("127.0.0.1", 0))
    with serving(None, config) as server:
        assert server.address is None
        assert server.name_server is not None


def test_a_port_that_is_taken_is_told_and_nothing_listens(tmp_path):
    import reput

    config = ServerConfig(listen=("127.0.0.1", 0), name_server=("127.0.0.1", 0))
    with serving(None, config) as other:
        taken = ServerConfig(listen=("127.0.0.1", 0), name_server=other.name_server)
        with reput.open(tmp_path, plugins={"consumequeue", "consumer"}) as store:
            with pytest.raises(OSError, match="Address already in use"):
                with serving(store, taken):
                    pass
