"""Takes what consumers subscribe to of lite topics, and names the messages that they are handed.

Source: RocketMQ 5.5 ``LiteSubscriptionActivity``.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

import attrs

from reput_consumer import Handle
from reput_server.broker.lite.litechanges import ACTIONS, LiteAskError, LiteChange, OffsetOption
from reput_server.broker.lite.litesubscriptions import LiteQuotaError
from reput_server.broker.litenames import is_light, light_queue_of, lite_topic_of
from reput_server.grpc.messagetypes import Code, Refused, m, status
from reput_server.grpc.namespaces import group_of, topic_of

if TYPE_CHECKING:
    from reput_consumer import Popped
    from reput_server.broker.lite.litechanges import LiteChanges
    from reput_server.grpc.caller import Caller
    from reput_server.grpc.clients import Clients

_BETWEEN: Final = "~"
_SET_MAX: Final = 10_000
_OPTIONS: Final = {
    "policy": "POLICY",
    "offset": "OFFSET",
    "tail_n": "TAIL_N",
    "timestamp": "TIMESTAMP",
}


@attrs.frozen(eq=False)
class LiteCalls:
    """The call by which consumers subscribe."""

    clients: Clients
    changes: LiteChanges

    async def sync(self, caller: Caller, request: Any) -> Any:
        """Take what a consumer subscribes to."""
        self.clients.known(caller.client_id)
        given = request.lite_topic_set
        if len(given) > _SET_MAX or not 0 <= request.action < len(ACTIONS):
            text = f"action {request.action} with {len(given)} lite topics; {_SET_MAX} at most"
            raise Refused(Code.BAD_REQUEST, text)
        change = LiteChange(
            action=ACTIONS[request.action],
            client_id=caller.client_id,
            group=group_of(request.group),
            topic=topic_of(request.topic),
            lite_topics=list(given),
            option=_option_of(request),
        )
        try:
            await self.changes.take(change, partial(self._tell, caller.client_id))
        except LiteQuotaError as error:
            raise Refused(Code.LITE_SUBSCRIPTION_QUOTA_EXCEEDED, str(error)) from None
        except LiteAskError as error:
            raise Refused(Code.FORBIDDEN, str(error)) from None
        return m.SyncLiteSubscriptionResponse(status=status())

    def _tell(self, client_id: str, light_queue: str) -> None:
        """Have a client forget a lite topic that another client has now."""
        client = self.clients.by_id.get(client_id)
        if client is not None:
            command = m.TelemetryCommand()
            command.notify_unsubscribe_lite_command.lite_topic = lite_topic_of(light_queue)
            client.tell(command)


def receipt_of(popped: Popped) -> str:
    """Return the receipt handle of a message; of a lite topic it names that, too."""
    handle, queue = str(popped.handle), popped.topic
    return f"{handle}{_BETWEEN}{lite_topic_of(queue)}" if is_light(queue) else handle


def renewed_receipt(receipt: str, handle: Handle) -> str:
    """Return a receipt handle with another handle."""
    _, between, lite_topic = receipt.partition(_BETWEEN)
    return f"{handle}{between}{lite_topic}"


def named_handle(topic: str, receipt: str) -> tuple[str, Handle | None]:
    """Return the topic to which a receipt handle belongs as the store pops it, and the handle.

    The handle is None if the text is none of ours.
    """
    text, _, lite_topic = receipt.partition(_BETWEEN)
    try:
        return light_queue_of(topic, lite_topic) if lite_topic else topic, Handle.parse(text)
    except ValueError:
        return topic, None


def _option_of(request: Any) -> OffsetOption | None:
    kind = request.offset_option.WhichOneof("offset_type")
    if kind is None:
        return None
    return OffsetOption(_OPTIONS[kind], getattr(request.offset_option, kind))
