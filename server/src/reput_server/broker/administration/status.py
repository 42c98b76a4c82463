"""Answers how the broker is (28), as ``mqadmin clusterList`` and ``brokerStatus`` print it.

Source: RocketMQ ``AdminBrokerProcessor.prepareRuntimeInfo``.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from typing import TYPE_CHECKING

import attrs

from reput_remoting import VERSION, Command, RequestCode, ResponseCode, version_name, write_body

if TYPE_CHECKING:
    from reput_server.broker.context import BrokerContext
    from reput_server.broker.rates import Rate
    from reput_server.wire.answering import Handler
    from reput_server.wire.contract import Request

__all__ = ["StatusHandlers"]

_TIMER = (
    "timerCongestNum",
    "timerDequeueTps",
    "timerEnqueueTps",
    "timerOffsetBehind",
    "timerReadBehind",
)
"""Of a timer that is on time; the tool wants them."""
_POOLS = ("send", "pull", "query", "litePull", "ack")


@attrs.frozen(eq=False)
class StatusHandlers:
    """The request about the broker itself."""

    context: BrokerContext
    puts: Rate
    gets: Rate
    since: int
    """When the broker started, ms."""

    def by_code(self) -> Mapping[int, Handler]:
        """Return the handlers by request code."""
        return {RequestCode.GET_BROKER_RUNTIME_INFO: self.runtime}

    async def runtime(self, request: Request) -> Command:
        """Answer names and texts, as a broker does."""
        table = await self.context.run(self._table)
        body = write_body({"table": dict(sorted(table.items()))})
        return request.command.answer(ResponseCode.SUCCESS, body=body)

    def _table(self) -> dict[str, str]:
        context = self.context
        log, now = context.store.log, context.clock()
        disk = shutil.disk_usage(context.store.root)
        start, end = log.min_physical_offset, log.max_physical_offset
        first = next(iter(context.store.scan(start)), None) if end > start else None
        earliest = -1 if first is None or not len(first) else int(first.store_timestamp[0])
        table = {
            "bootTimestamp": self.since,
            "brokerActive": "true",
            "brokerVersion": VERSION,
            "brokerVersionDesc": version_name(VERSION),
            "commitLogDirCapacity": f"Total : {disk.total} bytes, Free : {disk.free} bytes.",
            "commitLogDiskRatio": disk.used / disk.total,
            "commitLogMaxOffset": end,
            "commitLogMinOffset": start,
            "consumeQueueDiskRatio": disk.used / disk.total,
            "earliestMessageTimeStamp": earliest,
            "getTransferedTps": self.gets.text(now),
            "getTransferredTps": self.gets.text(now),
            "msgGetTotalTodayNow": self.gets.total,
            "msgPutTotalTodayNow": self.puts.total,
            "pageCacheLockTimeMills": 0,
            "putTps": self.puts.text(now),
            "remainHowManyDataToFlush": f"{max(end - log.flushed_offset, 0)} bytes",
            "runtime": f"[ {(now - self.since) // 1000} seconds ]",
        }
        for name in ("msgPutTotalYesterdayMorning", "msgPutTotalTodayMorning"):
            table[name] = 0
            table[name.replace("Put", "Get")] = 0
        for name in _TIMER:
            table[name] = 0
        for pool in _POOLS:
            table[f"{pool}ThreadPoolQueueSize"] = 0
            table[f"{pool}ThreadPoolQueueCapacity"] = context.config.limits.waiting_sends
            table[f"{pool}ThreadPoolQueueHeadWaitTimeMills"] = 0
        return {name: str(value) for name, value in table.items()}
