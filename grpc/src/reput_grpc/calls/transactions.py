"""Ends transactions as their producers say, and asks producers that have not said.

Source: RocketMQ ``EndTransactionActivity``, ``ProxyClientRemotingProcessor.checkTransactionState``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

import attrs

from reput.errors import ReputError
from reput_grpc.properties import shown_half
from reput_grpc.types import Code, Refused, m, status

if TYPE_CHECKING:
    from reput_grpc.caller import Caller
    from reput_grpc.clients import Clients
    from reput_server.broker.context import BrokerContext

__all__ = ["TransactionCalls"]

_COMMIT: Final = 1
_ROLLBACK: Final = 2
_ATTEMPTS: Final = 40
_PAUSE_SECONDS: Final = 0.05
_WATCHED_MAX: Final = 10_000


@attrs.define(eq=False)
class TransactionCalls:
    """The call that ends transactions, and the question for transactions that nobody ends."""

    context: BrokerContext
    clients: Clients
    _watched: set[str] = attrs.field(init=False, factory=set)
    """Topics, which are the producer groups of their half messages."""
    _turn: int = attrs.field(init=False, default=0)

    @property
    def _plugin(self) -> Any:
        return self.context.store.plugin_objects.get("transaction")

    async def end(self, caller: Caller, request: Any) -> Any:
        """Commit a message, or roll it back."""
        if self._plugin is None:
            missing = self.context.missing("transaction", "transactions")
            raise Refused(Code.NOT_IMPLEMENTED, str(missing))
        if not request.transaction_id:
            raise Refused(Code.INVALID_TRANSACTION_ID, "the transaction id is empty")
        if request.resolution in (_COMMIT, _ROLLBACK):
            await self._end_patiently(request.transaction_id, request.resolution == _COMMIT)
        return m.EndTransactionResponse(status=status())

    async def _end_patiently(self, transaction_id: str, commits: bool) -> None:
        """End a transaction, also while the plugin puts a copy of it to ask about it."""
        plugin = self._plugin
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                await self.context.run_in_turn(
                    plugin.commit if commits else plugin.rollback, transaction_id
                )
                return
            except (ReputError, ValueError) as error:
                if attempt == _ATTEMPTS or not hasattr(error, "transaction"):
                    raise Refused(Code.INVALID_TRANSACTION_ID, str(error)) from None
            await asyncio.sleep(_PAUSE_SECONDS)

    # ------------------------------------------------------------------ asking back

    def watch(self, topics: Iterable[str]) -> None:
        """Have producers of topics asked what became of their half messages."""
        plugin = self._plugin
        if plugin is None or not self.context.is_writable:
            return
        for topic in topics:
            if topic not in plugin.checks and len(self._watched) < _WATCHED_MAX:
                self._watched.add(topic)
                self.context.serial.submit(plugin.on_check, self._ask, topic, answers_later=True)

    def close(self) -> None:
        """Ask nobody any more."""
        for topic in self._watched:
            self._plugin.on_check(None, topic)

    def _ask(self, half: Any) -> None:
        """Ask a producer of the topic; on the plugin's thread."""
        if not self.context.loop.is_closed():
            self.context.loop.call_soon_threadsafe(self._tell, half)

    def _tell(self, half: Any) -> None:
        topic = half.topic or half.group
        producers = self.clients.producers_of(topic)
        if not producers:
            return
        self._turn += 1
        at = self._turn % len(producers)
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
