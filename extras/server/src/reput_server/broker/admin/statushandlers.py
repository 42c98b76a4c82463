"""Answers how the broker is (28), and since when it has its access keys (52).

``mqadmin clusterList``, ``brokerStatus`` and ``clusterAclConfigVersion`` print it.

What a broker of RocketMQ has and this one does not (buffers other than the page cache, pops) is
0 here, as it is there on a broker that does not use it.

Source: RocketMQ ``AdminBrokerProcessor.prepareRuntimeInfo``, ``StoreStatsService.getRuntimeInfo``.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import attrs

from reput_client.remoting import (
    MASTER_ID,
    VERSION,
    AclVersionAnswer,
    Command,
    RequestCode,
    ResponseCode,
    version_name,
    write_body,
)

if TYPE_CHECKING:
    from reput_server.broker.brokercontext import BrokerContext
    from reput_server.broker.send.sendbatcher import SendBatcher
    from reput_server.wire.interfaces import Request
    from reput_server.wire.requestdispatcher import Handler

_TOTALS: Final = (
    "msgPutTotalYesterdayMorning",
    "msgPutTotalTodayMorning",
    "msgPutTotalTodayNow",
)
_NOTHING: Final = (
    "ackThreadPoolQueueHeadWaitTimeMills",
    "ackThreadPoolQueueSize",
    "dispatchMaxBuffer",
    "remainTransientStoreBufferNumbs",
    "startAcceptSendRequestTimeStamp",
)
"""Of parts that this broker does not have."""
_KEYS_FILE: Final = "access-keys"
_KIB: Final = 1024
_UNITS: Final = ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")
_DELAYED: Final = "SCHEDULE_TOPIC_XXXX"


@attrs.frozen(eq=False)
class StatusHandlers:
    """The requests about the broker itself."""

    context: BrokerContext
    sends: SendBatcher
    since: int
    """When the broker started, ms."""

    def by_code(self) -> Mapping[int, Handler]:
        """Return the handlers by request code."""
        return {
            RequestCode.GET_BROKER_RUNTIME_INFO: self.runtime,
            RequestCode.GET_BROKER_CLUSTER_ACL_INFO: self.keys,
        }

    async def keys(self, request: Request) -> Command:
        """Answer since when the broker has its access keys: they do not change while it runs."""
        data = self.context.data
        version = {"counter": 0, "stateVersion": 0, "timestamp": self.since}
        files = {_KEYS_FILE: version} if self.context.config.access_keys else {}
        header = AclVersionAnswer(
            version=write_body(version).decode(),
            all_acl_file_version=write_body(files).decode(),
            broker_name=data.broker,
            broker_addr=data.addresses[MASTER_ID],
            cluster_name=data.cluster,
        )
        return request.command.answer(ResponseCode.SUCCESS, header)

    async def runtime(self, request: Request) -> Command:
        """Answer names and texts, as a broker does."""
        of_loop = {**self._of_times(), **self._of_pools()}
        table = {**of_loop, **await self.context.run(self._of_store), **self._of_counts()}
        texts = {name: str(table[name]) for name in sorted(table)}
        return request.command.answer(ResponseCode.SUCCESS, body=write_body({"table": texts}))

    # ------------------------------------------------------------------ on the event loop

    def _of_times(self) -> dict[str, Any]:
        now, times = self.sends.clock(), self.sends.times
        minute = times.last_minute(now)
        return {
            "getMessageEntireTimeMax": _ms(self.context.statistics.reads.longest),
            "pageCacheLockTimeMills": self.sends.put_ms,
            "putLatency99": f"{minute.quantile(0.99) * 1000:.2f}",
            "putLatency999": f"{minute.quantile(0.999) * 1000:.2f}",
            "putMessageDistributeTime": times.text(now),
            "putMessageEntireTimeMax": _ms(times.answers.longest),
        }

    def _of_pools(self) -> dict[str, Any]:
        capacity = self.context.config.limits.waiting_sends
        pool, turn = self.context.pool, self.context.serial
        table: dict[str, Any] = dict.fromkeys(_NOTHING, 0)
        found = {
            "send": (self.sends.waiting_count, self.sends.head_wait_ms),
            # One pool of threads reads for all of them.
            "pull": (pool.waiting_count, pool.head_wait_ms),
            "litePull": (pool.waiting_count, pool.head_wait_ms),
            "query": (pool.waiting_count, pool.head_wait_ms),
        }
        for name, (size, wait) in found.items():
            table[f"{name}ThreadPoolQueueSize"] = size
            table[f"{name}ThreadPoolQueueHeadWaitTimeMills"] = wait
        for name in (*found, "ack", "EndTransaction"):
            table[f"{name}ThreadPoolQueueCapacity"] = capacity
        table["EndTransactionQueueSize"] = turn.waiting_count
        return table

    def _of_counts(self) -> dict[str, Any]:
        found = self.context.statistics
        now, tick = self.context.clock(), found.ticks()
        count, size, failed = found.put_totals()
        table: dict[str, Any] = {
            "getFoundTps": found.found_rate.text(tick),
            "getMissTps": found.missed_rate.text(tick),
            "getTotalTps": found.pull_rate.text(tick),
            "getTransferedTps": found.get_rate.text(tick),
            "getTransferredTps": found.get_rate.text(tick),
            "putMessageAverageSize": size / max(count, 1),
            "putMessageFailedTimes": failed,
            "putMessageSizeTotal": size,
            "putMessageTimesTotal": max(count, 1),  # as a broker that has none says
            "putTps": found.put_rate.text(tick),
        }
        for name, day in (("Put", found.puts_today), ("Get", found.gets_today)):
            day.turn(now)
            totals = (day.yesterday_morning, day.today_morning, day.total)
            for each, total in zip(_TOTALS, totals, strict=True):
                table[each.replace("Put", name)] = total
        return table

    # ------------------------------------------------------------------ on a thread that may wait

    def _of_store(self) -> dict[str, Any]:
        context = self.context
        store, log, now = context.store, context.store.log, context.clock()
        disk = shutil.disk_usage(store.root)
        ratio = disk.used / max(disk.used + disk.free, 1)
        start, end = log.min_physical_offset, log.max_physical_offset
        first = next(iter(store.scan(start)), None) if end > start else None
        earliest = -1 if first is None or not len(first) else int(first.store_timestamp[0])
        return {
            **self._of_delays(),
            "bootTimestamp": self.since,
            "brokerActive": "true",
            "brokerVersion": VERSION,
            "brokerVersionDesc": version_name(VERSION),
            "commitLogDirCapacity": f"Total : {_size(disk.total)}, Free : {_size(disk.free)}.",
            "commitLogDiskRatio": ratio,
            "commitLogMaxOffset": end,
            "commitLogMinOffset": start,
            "consumeQueueDiskRatio": ratio,
            "dispatchBehindBytes": max((each.lag_size for each in store.plugins()), default=0),
            "earliestMessageTimeStamp": earliest,
            "remainHowManyDataToFlush": _size(max(end - log.flushed_offset, 0)),
            "runtime": _age(now - self.since),
        }

    def _of_delays(self) -> dict[str, Any]:
        """Return how far delays are: those of levels, and those of the timer."""
        table: dict[str, Any] = {
            "timerCongestNum": 0,
            "timerDequeueTps": 0.0,
            "timerEnqueueTps": 0.0,
            "timerOffsetBehind": 0,
            "timerReadBehind": 0,
        }
        plugin = self.context.store.plugin_objects.get("schedule")
        if plugin is None:
            return table
        if plugin.timer is not None:
            table["timerCongestNum"] = plugin.timer.report()["pending"]
        if plugin.delivery is not None:
            reaches = {
                each.queue_id: each.max_queue_offset
                for each in self.context.store.queues()
                if each.topic == _DELAYED
            }
            for level, offset in sorted(plugin.delivery.offsets().items()):
                reach = reaches.get(level - 1, 0)
                table[f"scheduleMessageOffset_{level}"] = f"{offset},{reach}"
        return table


def _ms(seconds: float) -> int:
    return int(seconds * 1000)


def _age(milliseconds: int) -> str:
    minutes, seconds = divmod(max(milliseconds, 0) // 1000, 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    return f"[ {days} days, {hours} hours, {minutes} minutes, {seconds} seconds ]"


def _size(count: int) -> str:
    """Return a number of bytes as a broker prints it: ``12 B``, ``1.5 MiB``."""
    if count < _KIB:
        return f"{count} B"
    size, power = float(count), 0
    while size >= _KIB and power < len(_UNITS) - 1:
        size, power = size / _KIB, power + 1
    return f"{size:.1f} {_UNITS[power]}"
