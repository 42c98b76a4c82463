"""Ends transactions as their producers say (37), and asks silent producers (39).

Source: RocketMQ ``EndTransactionProcessor``, ``AbstractTransactionalMessageCheckListener``.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import attrs

from reput.errors import CorruptFileError, OffsetOutOfRangeError, ReputError
from reput_remoting import CheckTransaction, Command, EndTransaction, RequestCode, ResponseCode
from reput_server.broker.ending.halves import with_destination
from reput_server.errors import Refusal

if TYPE_CHECKING:
    from reput.record import MessageView
    from reput_server.broker.context import BrokerContext
    from reput_server.broker.members.groups import Groups
    from reput_server.wire.answering import Handler
    from reput_server.wire.contract import Request

logger = logging.getLogger(__name__)

__all__ = ["TransactionHandlers"]

PLUGIN: Final = "transaction"
_COMMIT: Final = 8
_ROLLBACK: Final = 12
_UNKNOWN: Final = 0
_ATTEMPTS: Final = 40
_PAUSE_SECONDS: Final = 0.05


@attrs.define(eq=False)
class TransactionHandlers:
    """The request that ends transactions, and the question for transactions that nobody ends."""

    context: BrokerContext
    groups: Groups
    _watched: set[str] = attrs.field(init=False, factory=set)
    """Producer groups that are asked; a function of the store's own program goes first."""
    _turn: int = attrs.field(init=False, default=0)

    def by_code(self) -> Mapping[int, Handler]:
        """Return the handlers by request code."""
        return {RequestCode.END_TRANSACTION: self.end}

    @property
    def _plugin(self) -> Any:
        return self.context.store.plugin_objects.get(PLUGIN)

    async def end(self, request: Request) -> Command | None:
        """Commit a half message, or roll it back."""
        asked: EndTransaction = request.command.header(EndTransaction)
        self.context.check_writable()
        if self._plugin is None:
            raise self.context.missing(PLUGIN, "transactions")
        if asked.commit_or_rollback == _UNKNOWN:
            logger.debug("a producer does not know group=%s", asked.producer_group)
            return None
        if asked.commit_or_rollback not in (_COMMIT, _ROLLBACK):
            text = f"commitOrRollback is {asked.commit_or_rollback}; 8, 12 or 0 expected"
            raise Refusal(ResponseCode.SYSTEM_ERROR, text)
        await self._end_patiently(asked)
        # A replica that has the half message alone asks for its end.
        await self.context.replicated()
        return request.command.answer(ResponseCode.SUCCESS)

    async def _end_patiently(self, asked: EndTransaction) -> None:
        """End a transaction, also one that the plugin is just putting a copy of, to ask about it.

        Until the copy is in the half message's place, the plugin lets nobody end either. An answer
        to the question comes after that; what a producer says by itself may come at any time.
        """
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                await self.context.run_in_turn(self._end, asked)
                return
            except ReputError as error:
                # Only the plugin's own errors name a transaction.
                if attempt == _ATTEMPTS or not hasattr(error, "transaction"):
                    raise
            await asyncio.sleep(_PAUSE_SECONDS)

    def _end(self, asked: EndTransaction) -> None:
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
        ends = self._plugin.commit if asked.commit_or_rollback == _COMMIT else self._plugin.rollback
        ends(half.physical_offset)

    # ------------------------------------------------------------------ asking back

    def watch(self, group: str) -> None:
        """Have the clients of a producer group asked what became of its half messages."""
        plugin = self._plugin
        if plugin is None or not self.context.is_writable or group in plugin.checks:
            return
        self._watched.add(group)
        self.context.serial.submit(plugin.on_check, self._ask, group, answers_later=True)

    def close(self) -> None:
        """Ask nobody any more."""
        for group in self._watched:
            self._plugin.on_check(None, group)

    def _ask(self, half: Any) -> None:
        """Ask one client of the half message's group; on the plugin's thread, it answers by 37."""
        if not self.context.loop.is_closed():
            command = _question(self.context, half)
            self.context.loop.call_soon_threadsafe(self._tell, half.group, command)

    def _tell(self, group: str, command: Command) -> None:
        clients = list(self.groups.producers.get(group, {}).values())
        if clients:
            self._turn += 1
            clients[self._turn % len(clients)].peer.tell(command)


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
