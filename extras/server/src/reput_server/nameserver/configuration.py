"""Answers a name server's options (319), and says that they do not change while it runs (318).

Source: RocketMQ ``DefaultRequestProcessor``, ``NamesrvConfig``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import attrs

from reput_client.remoting import Command, RequestCode, ResponseCode
from reput_server.errors import Refusal
from reput_server.javaproperties import parse_properties_text, properties_text

if TYPE_CHECKING:
    from reput_client.remoting import Address
    from reput_server.config import Limits
    from reput_server.wire.interfaces import Request
    from reput_server.wire.requestdispatcher import Handler


@attrs.frozen(eq=False)
class NameConfiguration:
    """The requests of operators about a name server's options."""

    address: Address
    """Where it listens."""
    limits: Limits

    def by_code(self) -> Mapping[int, Handler]:
        """Return the handlers by request code."""
        return {
            RequestCode.GET_NAMESRV_CONFIG: self.all,
            RequestCode.UPDATE_NAMESRV_CONFIG: self.change,
        }

    def _settings(self) -> dict[str, str]:
        host, port = self.address
        return {
            "bindAddress": host,
            "enableAllTopicList": "true",
            "listenPort": str(port),
            "orderMessageEnable": "true",
            "returnOrderTopicConfigToBroker": "true",
            "serverChannelMaxIdleTimeSeconds": str(self.limits.idle_seconds),
        }

    async def all(self, request: Request) -> Command:
        """Answer all options, as lines of ``name=value``."""
        body = properties_text(self._settings()).encode()
        return request.command.answer(ResponseCode.SUCCESS, body=body)

    async def change(self, request: Request) -> Command:
        """Refuse a change; do nothing if all options have the given values already."""
        try:
            wanted = parse_properties_text(request.command.body)
        except ValueError as error:
            raise Refusal(ResponseCode.INVALID_PARAMETER, str(error)) from None
        known = self._settings()
        for name, text in wanted.items():
            if known.get(name) != text:
                raise Refusal(
                    ResponseCode.INVALID_PARAMETER,
                    f"{name[:80]}={text[:80]}: no option of this name server changes while it "
                    "runs; start reput serve with other options",
                )
        return request.command.answer(ResponseCode.SUCCESS)
