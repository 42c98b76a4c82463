"""Answers a broker's options (26), changes them (25), and hands out what slaves copy (43, 45).

Source: RocketMQ ``AdminBrokerProcessor``, ``Configuration``.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import attrs

from reput_client.remoting import Command, RequestCode, ResponseCode, VersionAnswer, write_body
from reput_server.broker.admin.configuration.brokeroptions import change, settings_of
from reput_server.errors import Refusal
from reput_server.javaproperties import parse_properties_text, properties_text

if TYPE_CHECKING:
    from reput_server.broker.brokercontext import BrokerContext
    from reput_server.wire.interfaces import Request
    from reput_server.wire.requestdispatcher import Handler

logger = logging.getLogger(__name__)


@attrs.define(eq=False, repr=False)
class ConfigurationHandlers:
    """The requests of operators about a broker's options."""

    context: BrokerContext
    _change_count: int = attrs.field(init=False, default=0)
    _changed_at: int = attrs.field(init=False, default=0)
    """When, ms."""

    def __attrs_post_init__(self) -> None:
        self._changed_at = self.context.clock()

    def by_code(self) -> Mapping[int, Handler]:
        """Return the handlers by request code."""
        return {
            RequestCode.GET_BROKER_CONFIG: self.all,
            RequestCode.UPDATE_BROKER_CONFIG: self.change,
            RequestCode.GET_ALL_CONSUMER_OFFSET: self.offsets,
            RequestCode.GET_ALL_DELAY_OFFSET: self.delays,
        }

    async def all(self, request: Request) -> Command:
        """Answer all options, as lines of ``name=value``."""
        text = properties_text(settings_of(self.context))
        version = {
            "counter": self._change_count,
            "stateVersion": 0,
            "timestamp": self._changed_at,
        }
        header = VersionAnswer(version=write_body(version).decode())
        return request.command.answer(ResponseCode.SUCCESS, header, body=text.encode())

    async def change(self, request: Request) -> Command:
        """Change options until the broker ends, all that are given or none."""
        try:
            wanted = parse_properties_text(request.command.body)
            change(self.context, wanted)
        except ValueError as error:
            raise Refusal(ResponseCode.INVALID_PARAMETER, str(error)) from None
        self._change_count += 1
        self._changed_at = self.context.clock()
        peer = "{}:{}".format(*request.peer.address)
        logger.info("options changed names=%s peer=%s", ",".join(sorted(wanted)), peer)
        return request.command.answer(ResponseCode.SUCCESS)

    async def offsets(self, request: Request) -> Command:
        """Answer how far all groups are, by topic and queue."""
        table = await self.context.run(self._offsets)
        return self._dump(request, table)

    def _offsets(self) -> dict[str, dict[int, int]]:
        table: dict[str, dict[int, int]] = {}
        for group, offsets in self.context.plugin.offsets().items():
            for (topic, queue_id), offset in offsets.items():
                table.setdefault(f"{topic}@{group}", {})[queue_id] = offset
        return table

    async def delays(self, request: Request) -> Command:
        """Answer which message of each delay level is delivered next."""
        plugin = self.context.store.plugin_objects.get("schedule")
        delivery = None if plugin is None else plugin.delivery
        return self._dump(request, {} if delivery is None else dict(delivery.offsets()))

    def _dump(self, request: Request, table: Mapping[Any, Any]) -> Command:
        version = self.context.data_version()
        body = write_body({"dataVersion": version, "offsetTable": table})
        return request.command.answer(ResponseCode.SUCCESS, body=body)
