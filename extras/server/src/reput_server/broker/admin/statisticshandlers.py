"""Answers statistics by name (315), and how far all groups are (317).

Source: RocketMQ ``AdminBrokerProcessor.viewBrokerStatsData``, ``fetchAllConsumeStatsInBroker``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import attrs

from reput_client.remoting import (
    Command,
    QueueName,
    RequestCode,
    ResponseCode,
    StatsOf,
    write_body,
)
from reput_server.errors import Refusal

if TYPE_CHECKING:
    from reput_server.broker.brokercontext import BrokerContext
    from reput_server.broker.clients.groupregistry import GroupRegistry
    from reput_server.broker.statistics.slidingwindows import WindowSum
    from reput_server.wire.interfaces import Request
    from reput_server.wire.requestdispatcher import Handler

_Stats = dict[str, Any]

_SHOWN_MAX: Final = 200


@attrs.frozen(eq=False)
class StatisticsHandlers:
    """The requests of operators about what the broker has done."""

    context: BrokerContext
    groups: GroupRegistry

    def by_code(self) -> Mapping[int, Handler]:
        """Return the handlers by request code."""
        return {
            RequestCode.VIEW_BROKER_STATS_DATA: self.data,
            RequestCode.GET_BROKER_CONSUME_STATS: self.progress,
        }

    async def data(self, request: Request) -> Command:
        """Answer what was counted in the last minute, hour and day."""
        asked: StatsOf = request.command.header(StatsOf)
        found = self.context.statistics.data(asked.stats_name, asked.stats_key)
        if found is None:
            name, key = asked.stats_name[:_SHOWN_MAX], asked.stats_key[:_SHOWN_MAX]
            text = f"The stats <{name}> <{key}> not exist"
            raise Refusal(ResponseCode.SYSTEM_ERROR, text)
        minute, hour, day = map(_members, found)
        body = write_body({"statsDay": day, "statsHour": hour, "statsMinute": minute})
        return request.command.answer(ResponseCode.SUCCESS, body=body)

    async def progress(self, request: Request) -> Command:
        """Answer how far each group is in each queue, perhaps only of topics that are in order."""
        only_ordered = request.command.fields.get("isOrder", "").lower() == "true"
        wanted = {name: self.groups.get(name) for name in self._names()}
        subscribed = {
            name: set(each.subscriptions) if each else set() for name, each in wanted.items()
        }
        tables = await self.context.run(self._progress, subscribed, only_ordered)
        queues = [
            queue
            for table in tables
            for stats in next(iter(table.values()))
            for queue in stats["offsetTable"].values()
        ]
        body = write_body(
            {
                "brokerAddr": next(iter(self.context.data.addresses.values())),
                "consumeStatsList": tables,
                "totalDiff": sum(each["brokerOffset"] - each["consumerOffset"] for each in queues),
                "totalInflightDiff": 0,  # clients do not report what they hold
            }
        )
        return request.command.answer(ResponseCode.SUCCESS, body=body)

    def _names(self) -> list[str]:
        return self.context.plugin.subscription_groups.names()

    # ------------------------------------------------------------------ on a thread that may wait

    def _progress(
        self, subscribed: Mapping[str, set[str]], only_ordered: bool
    ) -> list[dict[str, list[_Stats]]]:
        ends = {
            (each.topic, each.queue_id): each.max_queue_offset
            for each in self.context.store.queues()
        }
        known = self.context.plugin.offsets()
        tables = []
        for group, topics in subscribed.items():
            offsets = known.get(group, {})
            found = []
            for topic in sorted({topic for topic, _ in offsets}):
                settings = self.context.topics.find(topic)
                if settings is None or (only_ordered and not settings.is_ordered):
                    continue
                if topics and topic not in topics:
                    continue  # none of the group's clients wants it any more
                queues = range(settings.write_queues)
                found.append(
                    {
                        "consumeTps": self.context.statistics.get_rate_of(group, [topic]),
                        "offsetTable": {
                            QueueName(topic, self.context.name, each): self._of_queue(
                                topic,
                                each,
                                ends.get((topic, each), 0),
                                offsets.get((topic, each), 0),
                            )
                            for each in queues
                        },
                    }
                )
            tables.append({group: found})
        return tables

    def _of_queue(self, topic: str, queue_id: int, end: int, offset: int) -> dict[str, int]:
        return {
            "brokerOffset": end,
            "consumerOffset": offset,
            "lastTimestamp": self._stored_at(topic, queue_id, offset - 1),
            "pullOffset": offset,
        }

    def _stored_at(self, topic: str, queue_id: int, offset: int) -> int:
        """Return when the message that a group has consumed last was stored; 0 without one."""
        if offset < 0:
            return 0
        messages = self.context.store.read(topic, queue_id, offset, 1).messages
        is_it = bool(messages) and messages[0].queue_offset == offset
        return messages[0].store_timestamp if is_it else 0


def _members(found: WindowSum) -> dict[str, float]:
    return {"avgpt": found.mean, "sum": found.sum, "tps": found.rate}
