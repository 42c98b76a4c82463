"""Ends transactions as their producers request (37), and sends check-backs (39).

Source: RocketMQ ``EndTransactionProcessor``, ``AbstractTransactionalMessageCheckListener``.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import attrs

from reput.errors import CorruptFileError, OffsetOutOfRangeError
from reput_client.remoting import (
    CheckTransaction,
    Command,
    EndTransaction,
    RequestCode,
    ResponseCode,
)
from reput_server.broker.transaction.halfmessage import with_destination
from reput_server.broker.transaction.transactionends import TransactionEnds
from reput_server.errors import Refusal

if TYPE_CHECKING:
    from reput.record import MessageView
    from reput_server.broker.brokercontext import BrokerContext
    from reput_server.broker.clients.groupregistry import GroupRegistry
    from reput_server.wire.interfaces import Request
    from reput_server.wire.requestdispatcher import Handler

logger = logging.getLogger(__name__)

_COMMIT: Final = 8
_ROLLBACK: Final = 12
_UNKNOWN: Final = 0


@attrs.define(eq=False, repr=False)
class TransactionHandlers:
    """The request that ends transactions, and the question for transactions that nobody ends."""

    context: BrokerContext
    groups: GroupRegistry
    _ends: TransactionEnds = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self._ends = TransactionEnds(self.context, self._tell)

    def by_code(self) -> Mapping[int, Handler]:
        """Return the handlers by request code."""
        return {RequestCode.END_TRANSACTION: self.end}

    async def end(self, request: Request) -> Command | None:
        """Commit a half message, or roll it back."""
        asked: EndTransaction = request.command.header(EndTransaction)
        self.context.check_writable()
        self._ends.checked()
        if asked.commit_or_rollback == _UNKNOWN:
            logger.debug("a producer does not know group=%s", asked.producer_group)
            return None
        if asked.commit_or_rollback not in (_COMMIT, _ROLLBACK):
            text = f"commitOrRollback is {asked.commit_or_rollback}; 8, 12 or 0 expected"
            raise Refusal(ResponseCode.SYSTEM_ERROR, text)
        commits = asked.commit_or_rollback == _COMMIT
        await self._ends.end(lambda: self._half_of(asked), commits=commits)
        # A replica that has the half message alone sends check-backs for it.
        await self.context.replicated()
        return request.command.answer(ResponseCode.SUCCESS)

    def _half_of(self, asked: EndTransaction) -> int:
        """Return the physical offset of the half message that a request means."""
        try:
            half = self.context.store.get(asked.commit_log_offset)
        except (OffsetOutOfRangeError, CorruptFileError, ValueError):
            text = "Find prepared transaction message failed"
            raise Refusal(ResponseCode.SYSTEM_ERROR, text) from None
        group = half.properties.get("PGROUP")
        if group != asked.producer_group:
            text = f"The producer group wrong: the message's is {group!r}"
            raise Refusal(ResponseCode.SYSTEM_ERROR, text)
        if half.queue_offset != asked.tran_state_table_offset:
            text = f"The transaction state table offset wrong: the message's is {half.queue_offset}"
            raise Refusal(ResponseCode.SYSTEM_ERROR, text)
        return half.physical_offset

    # ------------------------------------------------------------------ check-back

    def watch(self, group: str) -> None:
        """Send check-backs for half messages to the clients of a producer group."""
        self._ends.watch(group)

    def close(self) -> None:
        """Send no more check-backs."""
        self._ends.close()

    def _tell(self, half: Any) -> None:
        """Send a check-back to one client of the half message's group; it answers by 37."""
        clients = list(self.groups.producers.get(half.group, {}).values())
        if clients:
            clients[self._ends.next(len(clients))].peer.tell(_question(self.context, half))


def _question(context: BrokerContext, half: Any) -> Command:
    message: MessageView = half.record
    header = CheckTransaction(
        tran_state_table_offset=message.queue_offset,
        commit_log_offset=message.physical_offset,
        msg_id=message.unique_key,
        transaction_id=message.unique_key,
        offset_msg_id=context.message_id(message.physical_offset),
    )
    topic, queue_id = half.topic or message.topic, half.queue_id or 0
    return Command.request(
        RequestCode.CHECK_TRANSACTION_STATE,
        header,
        body=with_destination(message, topic, queue_id),
        one_way=True,
    )
