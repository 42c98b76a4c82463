"""The table of routes: what is asked for once, kept, and asked for again."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from reput_client import BrokerError, ClientError, ConnectError, RouteNotFoundError
from reput_client.remoting import BrokerData, Command, QueueData, RequestCode, TopicRoute
from reput_client.route.routetable import RouteTable
from reput_consumer import MessageQueue


class Names:
    """A name server that tells what the test has put into `routes`."""

    def __init__(self) -> None:
        self.routes: dict[str, TopicRoute] = {}
        self.asked: list[str] = []
        self.error: ClientError | None = None
        self.code: int | None = None
        self.body: bytes | None = None

    async def request(self, command: Command) -> tuple[str, Command]:
        assert command.code == RequestCode.GET_ROUTEINFO_BY_TOPIC
        topic = command.fields["topic"]
        self.asked.append(topic)
        await asyncio.sleep(0)
        if self.error is not None:
            raise self.error
        if self.code is not None:
            return "names:1", command.answer(self.code, remark="as told")
        if self.body is not None:
            return "names:1", command.answer(0, body=self.body)
        if topic not in self.routes:
            return "names:1", command.answer(17, remark="no topic route info")
        return "names:1", command.answer(0, body=self.routes[topic].encode())


def route(*, master: str | None = "m:1", slaves: int = 0, queue_count: int = 2) -> TopicRoute:
    addresses = {number: f"s{number}:1" for number in range(1, slaves + 1)}
    if master is not None:
        addresses[0] = master
    queues = QueueData(broker="b", read_queues=queue_count, write_queues=queue_count, permissions=6)
    return TopicRoute(
        queues=(queues,), brokers=(BrokerData(cluster="c", broker="b", addresses=addresses),)
    )


def run(test: Callable[[Names, RouteTable, list[set[str]]], Awaitable[None]]) -> None:
    names, changed = Names(), list[set[str]]()
    table: Any = RouteTable(names, changed.append)  # type: ignore[arg-type]
    asyncio.run(test(names, table, changed))  # type: ignore[arg-type]


_QUEUE = MessageQueue("t", "b", 0)


def test_callers_at_the_same_time_ask_once_and_later_ones_not_at_all() -> None:
    async def test(names: Names, table: RouteTable, changed: list[set[str]]) -> None:
        names.routes["t"] = route()
        found = await asyncio.gather(*(table.queues("t") for _ in range(10)))
        await table.queues("t")

        assert {len(each) for each in found} == {2}
        assert names.asked == ["t"]
        assert changed == [{"t"}]

    run(test)


def test_a_refresh_tells_of_what_is_another_now() -> None:
    async def test(names: Names, table: RouteTable, changed: list[set[str]]) -> None:
        names.routes["t"] = names.routes["u"] = route()
        await table.find("t")
        await table.find("u")
        changed.clear()
        names.routes["t"] = route(queue_count=3)
        await table.refresh()

        assert changed == [{"t"}]
        assert len(await table.queues("t")) == 3

    run(test)


def test_a_topic_that_is_waited_for_is_asked_for_until_it_is_there() -> None:
    async def test(names: Names, table: RouteTable, changed: list[set[str]]) -> None:
        table.want("t")
        await table.look_for_missing()
        await table.look_for_missing()
        names.routes["t"] = route()
        await table.look_for_missing()
        await table.look_for_missing()

        assert names.asked == ["t"] * 3
        assert changed == [{"t"}]

    run(test)


def test_routes_stay_while_no_name_server_answers() -> None:
    async def test(names: Names, table: RouteTable, changed: list[set[str]]) -> None:
        names.routes["t"] = route()
        await table.find("t")
        names.error = ConnectError("names:1", "away")
        table.want("u")
        await table.refresh()
        await table.look_for_missing()

        assert len(await table.queues("t")) == 2
        with pytest.raises(ConnectError):
            await table.queues("v")

    run(test)


@pytest.mark.parametrize(("code", "body"), [(1, None), (None, b"[1]"), (None, b"{nonsense")])
def test_an_answer_that_is_no_route_is_an_error(code: int | None, body: bytes | None) -> None:
    async def test(names: Names, table: RouteTable, changed: list[set[str]]) -> None:
        names.code, names.body = code, body
        with pytest.raises(BrokerError, match="names:1"):
            await table.find("t")

    run(test)


def test_a_slave_is_asked_where_one_was_suggested() -> None:
    async def test(names: Names, table: RouteTable, changed: list[set[str]]) -> None:
        names.routes["t"] = route(slaves=2)

        assert await table.broker(_QUEUE, 0) == "m:1"
        assert await table.broker(_QUEUE, 2) == "s2:1"
        assert await table.broker(_QUEUE, 7) == "m:1"
        assert await table.master(_QUEUE) == "m:1"

    run(test)


def test_without_a_master_slaves_are_read_and_nothing_is_sent() -> None:
    async def test(names: Names, table: RouteTable, changed: list[set[str]]) -> None:
        names.routes["t"] = route(master=None, slaves=1)

        assert await table.broker(_QUEUE, 0) == "s1:1"
        with pytest.raises(RouteNotFoundError, match="no master"):
            await table.master(_QUEUE)
        assert table.one_broker({"t"}) == "s1:1"
        assert table.one_broker({"u"}) is None

    run(test)


def test_a_topic_is_sent_to_by_the_template_until_it_has_a_route() -> None:
    async def test(names: Names, table: RouteTable, changed: list[set[str]]) -> None:
        with pytest.raises(RouteNotFoundError, match="autoCreateTopicEnable"):
            await table.for_sending("t", 4)
        names.routes["TBW102"] = route(queue_count=8)
        assert len((await table.for_sending("t", 4)).publish_queues("t")) == 4
        names.routes["t"] = route(queue_count=1)
        await table.refresh()
        assert len((await table.for_sending("t", 4)).publish_queues("t")) == 1

    run(test)
