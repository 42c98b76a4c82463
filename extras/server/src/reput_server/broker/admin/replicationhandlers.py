"""Requests of slaves other than for the log (60, 61, 402, 906), and their offsets (907).

The timer's checkpoint and its counts, and the modes of requests, are RocketMQ's files in
``config``; they are handed out as they are on disk. Topics, groups and offsets are in memory, and
answered as for operators.

Source: RocketMQ ``AdminBrokerProcessor``, ``QueryAssignmentProcessor``, ``SlaveSynchronize``,
``DefaultHAService.getRuntimeInfo``.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import attrs

from reput_client.remoting import (
    MASTER_ID,
    Command,
    HaInfo,
    RequestCode,
    ResponseCode,
    write_body,
)
from reput_server.errors import Refusal

if TYPE_CHECKING:
    from reput_server.broker.brokercontext import BrokerContext
    from reput_server.wire.interfaces import Request
    from reput_server.wire.requestdispatcher import Handler

_CHECK_FILE: Final = "timercheck"
_CHECK_SIZE: Final = 56
"""Seven numbers of eight bytes: ``TimerCheckpoint.encode``."""
_METRICS_FILE: Final = "timermetrics"
_MODES_FILE: Final = "messageRequestMode.json"
_FILE_MAX: Final = 4 << 20


@attrs.frozen(eq=False)
class ReplicationHandlers:
    """The requests of slaves, and of operators about slaves."""

    context: BrokerContext
    begun_at: int = attrs.field(init=False)
    """Where the log ended when the broker started."""

    @begun_at.default
    def _default_begun_at(self) -> int:
        return self.context.store.log.max_physical_offset

    def by_code(self) -> Mapping[int, Handler]:
        """Return the handlers by request code."""
        return {
            RequestCode.GET_TIMER_CHECK_POINT: self.timer_check,
            RequestCode.GET_TIMER_METRICS: self.timer_metrics,
            RequestCode.GET_ALL_MESSAGE_REQUEST_MODE: self.request_modes,
            RequestCode.EXCHANGE_BROKER_HA_INFO: self.ha_info,
            RequestCode.GET_BROKER_HA_STATUS: self.ha_status,
        }

    async def timer_check(self, request: Request) -> Command:
        """Answer how far the timer is, as its checkpoint says."""
        self._check_timer("The checkpoint is null")
        found = (await self.context.run(self._file, _CHECK_FILE))[:_CHECK_SIZE]
        return request.command.answer(ResponseCode.SUCCESS, body=found.ljust(_CHECK_SIZE, b"\0"))

    async def timer_metrics(self, request: Request) -> Command:
        """Answer how many messages wait for the timer, by topic."""
        self._check_timer("The timerMessageStore is null")
        found = await self.context.run(self._file, _METRICS_FILE)
        none = {"dataVersion": self.context.data_version(), "timingCount": {}}
        return request.command.answer(ResponseCode.SUCCESS, body=found or write_body(none))

    def _check_timer(self, remark: str) -> None:
        plugin = self.context.store.plugin_objects.get("schedule")
        if plugin is None or plugin.timer is None:
            raise Refusal(ResponseCode.SYSTEM_ERROR, remark)

    async def request_modes(self, request: Request) -> Command:
        """Answer which groups take messages by pull and which by pop; here none does by pop."""
        found = await self.context.run(self._file, _MODES_FILE)
        body = found or write_body({"messageRequestModeMap": {}})
        return request.command.answer(ResponseCode.SUCCESS, body=body)

    def _file(self, name: str) -> bytes:
        """Return a file in ``config``; nothing if it does not exist.

        Raises:
            Refusal: it is too long. A part of it would not be valid at the slave.
        """
        path = os.path.join(self.context.store.root, "config", name)
        try:
            with open(path, "rb") as file:
                found = file.read(_FILE_MAX + 1)
        except FileNotFoundError:
            return b""
        if len(found) > _FILE_MAX:
            text = (
                f"{path} has more than {_FILE_MAX} bytes, so it is not handed out; compare it with "
                "what a broker writes, and repair it while the server is stopped"
            )
            raise Refusal(ResponseCode.SYSTEM_ERROR, text)
        return found

    async def ha_info(self, request: Request) -> Command:
        """Answer where slaves get the log, and where it ended when the broker started."""
        asked: HaInfo = request.command.header(HaInfo)
        if asked.master_ha_address is not None:
            text = "this broker is a master, and follows none"
            raise Refusal(ResponseCode.INVALID_PARAMETER, text)
        header = HaInfo(
            master_ha_address=self.context.ha_address or None,
            master_flush_offset=self.begun_at,
            master_address=self.context.data.addresses[MASTER_ID],
        )
        return request.command.answer(ResponseCode.SUCCESS, header)

    async def ha_status(self, request: Request) -> Command:
        """Answer how far each replica is."""
        replicas, end = self.context.replicas, self.context.store.log.max_physical_offset
        connections: list[dict[str, Any]] = [
            {
                "addr": "{}:{}".format(*each.address),
                "diff": end - each.reported_offset,
                "inSync": each.is_in_sync,
                "slaveAckOffset": each.reported_offset,
                "transferFromWhere": each.begin_offset,
                "transferredByteInSecond": int(each.rate),
            }
            for each in ([] if replicas is None else replicas.states())
        ]
        found = {
            "haClientRuntimeInfo": {},
            "haConnectionInfo": connections,
            "inSyncSlaveNums": sum(each["inSync"] for each in connections),
            "master": True,
            "masterCommitLogMaxOffset": end,
        }
        return request.command.answer(ResponseCode.SUCCESS, body=write_body(found))
