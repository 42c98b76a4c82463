"""Takes what consumers say of messages that they were handed.

Source: RocketMQ ``AckMessageActivity``, ``ChangeInvisibleDurationActivity``,
``ForwardMessageToDLQActivity``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import attrs

from reput_consumer import Handle
from reput_grpc.calls.receiving import checked_invisible_ms
from reput_grpc.naming import group_of, topic_of
from reput_grpc.types import Code, Refused, m, status

if TYPE_CHECKING:
    from reput_consumer import Popper
    from reput_grpc.caller import Caller
    from reput_grpc.clients import Clients
    from reput_server.broker.context import BrokerContext

__all__ = ["AckCalls"]

_ENTRIES_MAX: Final = 4_096
_VOID: Final = "the receipt handle is void: the message was handed out again, or is done"


@attrs.define(eq=False)
class AckCalls:
    """The calls about one message."""

    context: BrokerContext
    clients: Clients

    @property
    def _popper(self) -> Popper:
        return self.context.plugin.popper

    async def ack(self, caller: Caller, request: Any) -> Any:
        """Count messages as consumed; each has a status of its own."""
        self.clients.find(caller.client_id)
        group, topic = group_of(request.group), topic_of(request.topic)
        if len(request.entries) > _ENTRIES_MAX:
            raise Refused(
                Code.BAD_REQUEST, f"{len(request.entries)} entries; {_ENTRIES_MAX} at most"
            )
        handles = [Handle.parse(each.receipt_handle) for each in request.entries]
        done = await self.context.run(self._ack, group, topic, handles)
        response = m.AckMessageResponse()
        for each, is_done in zip(request.entries, done, strict=True):
            found = status() if is_done else status(Code.INVALID_RECEIPT_HANDLE, _VOID)
            response.entries.add(
                message_id=each.message_id, receipt_handle=each.receipt_handle, status=found
            )
        codes = {each.status.code for each in response.entries}
        if len(codes) > 1:
            response.status.CopyFrom(status(Code.MULTIPLE_RESULTS, "the entries have other codes"))
        elif codes:
            response.status.CopyFrom(response.entries[0].status)
        else:
            response.status.CopyFrom(status(Code.BAD_REQUEST, "no entries"))
        return response

    def _ack(self, group: str, topic: str, handles: list[Handle | None]) -> list[bool]:
        popper = self._popper
        return [each is not None and popper.ack(group, topic, each) for each in handles]

    async def change(self, caller: Caller, request: Any) -> Any:
        """Move a message's deadline; the handle is another one then."""
        self.clients.find(caller.client_id)
        group, topic = group_of(request.group), topic_of(request.topic)
        invisible_ms = checked_invisible_ms(request.invisible_duration, 0)
        handle = Handle.parse(request.receipt_handle)
        renewed = handle and await self.context.run(
            self._popper.renew, group, topic, handle, invisible_ms
        )
        if renewed is None:
            raise Refused(Code.INVALID_RECEIPT_HANDLE, _VOID)
        return m.ChangeInvisibleDurationResponse(status=status(), receipt_handle=str(renewed))

    async def forward(self, caller: Caller, request: Any) -> Any:
        """Put a message to the dead letters of its group."""
        self.clients.find(caller.client_id)
        group, topic = group_of(request.group), topic_of(request.topic)
        handle = Handle.parse(request.receipt_handle)
        is_done = handle is not None and await self.context.run(
            self._popper.give_up, group, topic, handle
        )
        if not is_done:
            raise Refused(Code.INVALID_RECEIPT_HANDLE, _VOID)
        return m.ForwardMessageToDeadLetterQueueResponse(status=status())
