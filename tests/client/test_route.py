"""Routes, as name servers tell them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reput_client.remoting import TopicRoute, parse_body, write_body
from reput_client.route.route import Route
from reput_consumer import MessageQueue

_LOOSE = (
    b'{"brokerDatas":[{"brokerAddrs":{0:"10.0.0.1:10911",1:"10.0.0.2:10911"},"brokerName":"b",'
    b'"cluster":"c"},{"brokerAddrs":{1:"10.0.0.4:10911"},"brokerName":"a","cluster":"c"}],'
    b'"filterServerTable":{},"queueDatas":[{"brokerName":"b","perm":6,"readQueueNums":2,'
    b'"topicSynFlag":0,"writeQueueNums":3},{"brokerName":"a","perm":6,"readQueueNums":1,'
    b'"topicSynFlag":0,"writeQueueNums":1}]}'
)


def route_of(body: dict[str, Any]) -> Route:
    return Route.of(TopicRoute.decode(write_body(body)))


def route(**changes: Any) -> Route:
    return route_of({**parse_body(_LOOSE, "route"), **changes})


def queues(*places: tuple[str, int]) -> list[MessageQueue]:
    return [MessageQueue("t", broker, queue_id) for broker, queue_id in places]


def test_messages_go_to_write_queues_of_brokers_with_a_master() -> None:
    assert route().publish_queues("t") == queues(("b", 0), ("b", 1), ("b", 2))


def test_messages_are_read_from_read_queues_of_all_brokers() -> None:
    assert route().subscribe_queues("t") == queues(("a", 0), ("b", 0), ("b", 1))


def test_permissions_are_minded() -> None:
    one = {"brokerName": "b", "readQueueNums": 1, "writeQueueNums": 1}

    read_only, write_only = (route(queueDatas=[{**one, "perm": perm}]) for perm in (4, 2))

    assert read_only.publish_queues("t") == []
    assert read_only.subscribe_queues("t") == queues(("b", 0))
    assert write_only.publish_queues("t") == queues(("b", 0))
    assert write_only.subscribe_queues("t") == []


def test_a_topic_in_global_order_has_the_queues_of_its_configuration() -> None:
    ordered = route(orderTopicConf="x:2;b:1")

    assert ordered.publish_queues("t") == queues(("x", 0), ("x", 1), ("b", 0))


def test_a_new_topic_gets_no_more_queues_than_its_template() -> None:
    template = route()

    assert len(template.as_template(8).publish_queues("t")) == 2
    assert len(template.as_template(1).publish_queues("t")) == 1


def test_a_route_is_equal_to_itself_in_another_order() -> None:
    body = parse_body(_LOOSE, "route")
    turned = {name: each[::-1] if isinstance(each, list) else each for name, each in body.items()}

    assert route_of(turned) == route_of(body)


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"queueDatas": 5}, "queueDatas"),
        ({"queueDatas": [{"perm": 6}]}, "brokerName"),
        ({"brokerDatas": [{"brokerName": "b", "brokerAddrs": {"x": "y"}}]}, "broker id"),
        ({"orderTopicConf": "b"}, "orderTopicConf"),
        ({"orderTopicConf": "b:-1"}, "orderTopicConf"),
    ],
)
def test_what_is_wrong_in_a_route_is_named(changes: dict[str, Any], named: str) -> None:
    with pytest.raises(ValueError, match=named):
        route(**changes)


@pytest.mark.costly
def test_a_huge_number_of_queues_is_not_believed() -> None:
    data = {"brokerName": "b", "perm": 6, "readQueueNums": (1 << 31) - 1, "writeQueueNums": 1}

    assert len(route(queueDatas=[data]).subscribe_queues("t")) == 100_000


_names = st.sampled_from(
    ["queueDatas", "brokerDatas", "brokerName", "brokerAddrs", "perm", "0", "orderTopicConf"]
)
_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_names, inner, max_size=3),
    max_leaves=10,
)


@given(st.dictionaries(_names, _values, max_size=5))
def test_any_body_is_a_route_or_a_value_error(body: dict[str, Any]) -> None:
    try:
        found = route_of(body)
    except ValueError:
        return
    assert isinstance(found.subscribe_queues("t"), list)
