"""Ends transactions as their producers request, and sends check-backs.

Source: RocketMQ ``EndTransactionActivity``, ``ProxyClientRemotingProcessor.checkTransactionState``.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

import attrs

from reput.errors import ReputError
from reput_server.broker.transaction.transactionends import TransactionEnds
from reput_server.grpc.messageproperties import shown_half
from reput_server.grpc.messagetypes import Code, Refused, m, status
from reput_server.grpc.namespaces import topic_of

if TYPE_CHECKING:
    from reput_server.broker.brokercontext import BrokerContext
    from reput_server.grpc.caller import Caller
    from reput_server.grpc.clients import Clients

_COMMIT: Final = 1
_ROLLBACK: Final = 2


@attrs.define(eq=False, repr=False)
class TransactionCalls:
    """The call that ends transactions, and the question for transactions that nobody ends."""

    context: BrokerContext
    clients: Clients
    _ends: TransactionEnds = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self._ends = TransactionEnds(self.context, self._tell)

    async def end(self, caller: Caller, request: Any) -> Any:
        """Commit a message, or roll it back."""
        if self._ends.plugin is None:
            missing = self.context.missing("transaction", "transactions")
            raise Refused(Code.NOT_IMPLEMENTED, str(missing))
        topic_of(request.topic)
        if not request.transaction_id.strip():
            raise Refused(Code.INVALID_TRANSACTION_ID, "the transaction id is empty")
        if request.resolution in (_COMMIT, _ROLLBACK):
            try:
                commits = request.resolution == _COMMIT
                await self._ends.end(request.transaction_id, commits=commits)
            except (ReputError, ValueError) as error:
                raise Refused(Code.INVALID_TRANSACTION_ID, str(error)) from None
        return m.EndTransactionResponse(status=status())

    # ------------------------------------------------------------------ check-back

    def watch(self, topics: Iterable[str]) -> None:
        """Send check-backs for half messages to the producers of topics."""
        for topic in topics:
            self._ends.watch(topic)

    def close(self) -> None:
        """Send no more check-backs."""
        self._ends.close()

    def _tell(self, half: Any) -> None:
        """Send a check-back to a producer of the topic."""
        topic = half.topic or half.group
        producers = self.clients.producers_of(topic)
        if not producers:
            return
        at = self._ends.next(len(producers))
        command = m.TelemetryCommand()
        recover = command.recover_orphaned_transaction_command
        recover.transaction_id = half.transaction_id
        for client in producers[at:] + producers[:at]:
            resource = _resource_of(client, topic)
            recover.message.CopyFrom(shown_half(half.record, resource))
            if client.tell(command):
                return


def _resource_of(client: Any, topic: str) -> Any:
    """Return a topic as a client named it."""
    for each in client.settings.publishing.topics:
        space = each.resource_namespace
        if (f"{space}%{each.name}" if space else each.name) == topic:
            return each
    return m.Resource(name=topic)
