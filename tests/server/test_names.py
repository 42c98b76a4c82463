"""The name server: its own broker, foreign ones, and settings by name."""

from __future__ import annotations

import pytest
from wirepeer import message

from reput_client.remoting import (
    ClusterInfo,
    Entry,
    EntryOf,
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


def test_a_server_is_printed_as_its_addresses(served):
    addresses = served.server.address, served.server.name_server

    assert repr(served.server) == "<Server broker={} names={}>".format(*addresses)
    assert len(repr(served.server.names)) < 200


def test_topics_that_only_the_store_knows_have_routes(serve, tmp_path):
    import reput

    with reput.open(tmp_path / "store", plugins={"consumequeue"}, config=SMALL) as store:
        store.put(reput.Message("old", b"x", 2))
    served = serve()

    assert route(served.names(), "old").queues[0].read_queues == 3


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


def test_a_slave_that_leaves_takes_no_queues_of_its_master_with_it():
    from reput_client.remoting import BrokerData
    from reput_server.nameserver.routetable import RouteTable

    table = RouteTable()
    for key, address in ((0, "x:1"), (1, "x:2")):
        data = BrokerData(cluster="C", broker="b", addresses={key: address})
        table.register(data, REGISTRATION, 1_000)

    table.unregister("b", "x:2")

    assert table.brokers()["b"].addresses == {0: "x:1"}
    assert table.topics() == ["orders", "theirs"]


def test_a_topic_is_registered_by_itself(served):
    names = served.names()
    register(names)
    names.ask(RequestCode.DELETE_TOPIC_IN_NAMESRV, TopicOf(topic="theirs"))
    deleted = route(names, "theirs")
    back = TopicRoute(
        queues=(QueueData(broker="broker-b", read_queues=1, write_queues=1, permissions=6),)
    )

    names.ask(RequestCode.REGISTER_TOPIC_IN_NAMESRV, TopicOf(topic="theirs"), body=back.encode())

    assert deleted == 17
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


def test_order_is_part_of_a_route(served):
    names = served.names()
    served.peer().ask(RequestCode.SEND_MESSAGE_V2, message("orders"), body=b"x")
    entry = Entry(namespace="ORDER_TOPIC_CONFIG", key="orders", value="broker-a:4")

    names.ask(RequestCode.PUT_KV_CONFIG, entry)
    given = route(names, "orders").order
    names.ask(RequestCode.DELETE_KV_CONFIG, EntryOf(namespace=entry.namespace, key="orders"))

    assert (given, route(names, "orders").order) == ("broker-a:4", None)


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
