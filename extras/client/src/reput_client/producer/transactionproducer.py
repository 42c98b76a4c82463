"""`TransactionProducer`: messages that become visible with a transaction of their producer's.

Source: RocketMQ ``DefaultMQProducerImpl#sendMessageInTransaction``, ``#endTransaction`` and
``#checkTransactionState``.
"""

from __future__ import annotations

import concurrent.futures
import enum
import logging
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self

import attrs

from reput.record import Message, MessageView, parse_message_id
from reput_client.errors import (
    BrokerError,
    ClientError,
    GroupTakenError,
    SendError,
    TransactionOverError,
)
from reput_client.producer.outgoingmessage import (
    TRANSACTIONAL,
    Delay,
    OutgoingMessage,
    without_delay,
)
from reput_client.producer.producer import Producer
from reput_client.producer.sendresult import SendStatus
from reput_client.remoting import CheckTransaction, Command, EndTransaction, RequestCode

if TYPE_CHECKING:
    from reput_client.clientruntime import ClientRuntime
    from reput_client.producer.requestreply import RequestReplies
    from reput_client.producer.sender import Sender
    from reput_client.producer.sendresult import SendResult
    from reput_client.session.brokersession import BrokerSession

logger = logging.getLogger(__name__)

Check = Callable[[MessageView], bool | None]
"""Returns whether the transaction of a message was carried out; None if that is not known yet."""

GROUP: Final = "PGROUP"


class Outcome(enum.IntEnum):
    """The outcome of a message, with the numbers of RocketMQ."""

    UNKNOWN = 0
    COMMIT = 8
    ROLLBACK = 12


class Checks:
    """Answers check-backs of brokers, for the producers of a session."""

    def __init__(self, runtime: ClientRuntime) -> None:
        """Answer the check-backs of the session of all producers."""
        self._runtime = runtime
        self._checks: dict[str, Check] = {}
        self._threads = concurrent.futures.ThreadPoolExecutor(1, "reput-client-check")
        runtime.session.answerers[RequestCode.CHECK_TRANSACTION_STATE] = self._take

    def add(self, group: str, check: Check) -> None:
        """Have ``check`` answer for the transactions of a group.

        Raises:
            GroupTakenError: another producer of this client answers for the group.
        """
        if self._checks.setdefault(group, check) is not check:
            raise GroupTakenError(group)

    def remove(self, group: str) -> None:
        """Answer no more for a group; check-backs then go to its other producers."""
        self._checks.pop(group, None)

    async def _take(self, address: str, command: Command) -> None:
        header: CheckTransaction = command.header(CheckTransaction)
        message = MessageView(command.body)
        group = message.properties.get(GROUP, "")
        check = self._checks.get(group)
        if check is None:
            logger.warning("transaction not checked group=%s: no producer here", group)
            return
        self._threads.submit(self._check, check, group, address, header, message)

    def _check(
        self,
        check: Check,
        group: str,
        address: str,
        header: CheckTransaction,
        message: MessageView,
    ) -> None:
        """Call the program's function, on a thread that may wait, and answer the broker."""
        remark = None
        try:
            found = check(message)
        except Exception as error:  # a program's function may raise anything: a check-back follows
            logger.exception("check of a transaction failed group=%s message=%r", group, message)
            found, remark = None, f"check failed: {error}"
        outcome = Outcome.UNKNOWN if found is None else _outcome(is_committed=found)
        ending = EndTransaction(
            producer_group=group,
            tran_state_table_offset=header.tran_state_table_offset,
            commit_log_offset=header.commit_log_offset,
            commit_or_rollback=outcome,
            from_transaction_check=True,
            msg_id=message.unique_key or header.msg_id,
            transaction_id=header.transaction_id,
            topic=message.topic,
        )
        command = attrs.evolve(
            Command.request(RequestCode.END_TRANSACTION, ending, one_way=True), remark=remark
        )
        try:
            self._runtime.call(self._runtime.session.connections.send(address, command))
        except ClientError as error:
            logger.warning("transaction not ended, so the broker asks again: %s", error)

    def close(self) -> None:
        """Answer nothing more."""
        self._threads.shutdown(wait=False, cancel_futures=True)


def _outcome(*, is_committed: bool) -> Outcome:
    return Outcome.COMMIT if is_committed else Outcome.ROLLBACK


class TransactionProducer(Producer):
    """A producer whose messages can become visible with a transaction, or never."""

    def __init__(
        self,
        runtime: ClientRuntime,
        group: str,
        sender: Sender,
        replies: RequestReplies,
        checks: Checks,
        check: Check,
    ) -> None:
        """Make a producer; see `reput_client.Client.transaction_producer`."""
        checks.add(group, check)
        try:
            super().__init__(runtime, group, sender, replies)
        except BaseException:
            checks.remove(group)
            raise
        self._checks = checks

    def transaction(self, message: Message, *, timeout: float | None = None) -> Transaction:
        """Send a message that nobody sees before its transaction is committed.

        Args:
            message: the message; its delay is left out.
            timeout: as for `send`.

        Returns:
            The transaction: a context manager that commits at its end, and rolls back if its block
            raises. Should the program die in between, or the broker not be reached, the broker
            sends a check-back some time later, which the function ``check`` answers.

        Raises:
            SendError: the message was not stored, or not safely, and nothing is to be done.
            BrokerError: the broker refuses the message.
            ClientError: as for `send`, and so are all others.
        """
        mark = {TRANSACTIONAL: "true", GROUP: self.group}
        outgoing = self._outgoing(without_delay(message), Delay(), mark)
        return self._runtime.call(self._prepare(outgoing, timeout))

    async def _prepare(self, outgoing: OutgoingMessage, timeout: float | None) -> Transaction:
        await self._queues(outgoing.topic)
        # The broker may send a check-back, and so must know this producer.
        await self._runtime.session.visit(outgoing.topic)
        result = await self._send(outgoing, None, timeout)
        address = await self._runtime.routes.master(result.queue)
        transaction = Transaction(self._runtime, self._runtime.session, self.group, result, address)
        if result.status is not SendStatus.OK:
            await transaction.end(Outcome.ROLLBACK)
            tried = f"{result.queue.broker}: {result.status.name}, so it was rolled back"
            raise SendError(outgoing.topic, (tried,), self._seconds(timeout))
        return transaction

    def close(self) -> None:
        """See `Producer.close`; brokers then send check-backs to other producers of the group."""
        self._checks.remove(self.group)
        super().close()


class Transaction:
    """A message that is stored, but not visible yet; a context manager. Not thread-safe."""

    def __init__(
        self,
        runtime: ClientRuntime,
        session: BrokerSession,
        group: str,
        result: SendResult,
        address: str,
    ) -> None:
        """Make the transaction of a message that the broker at ``address`` has stored."""
        self.result = result
        """What the broker said; the queue offset is that of the half message."""
        self._runtime = runtime
        self._session = session
        self._group = group
        self._address = address
        self._over: Outcome | None = None

    @property
    def id(self) -> str:
        """The transaction's id."""
        return self.result.transaction_id or self.result.msg_id

    @property
    def is_over(self) -> bool:
        """Whether it was committed or rolled back."""
        return self._over is not None

    def commit(self) -> None:
        """Make the message visible.

        If the broker cannot be reached, it sends a check-back later: this is logged, and no error.

        Raises:
            TransactionOverError: it was ended before.
            BrokerError: the broker does not have the message any more.
        """
        self._finish(Outcome.COMMIT)

    def roll_back(self) -> None:
        """Have the message never be seen; errors are those of `commit`."""
        self._finish(Outcome.ROLLBACK)

    def _finish(self, outcome: Outcome) -> None:
        if self._over is not None:
            raise TransactionOverError(self.id, self._over.name.lower())
        self._over = outcome
        self._runtime.call(self.end(outcome))

    async def end(self, outcome: Outcome) -> None:
        """Send the end to the broker; on the client's loop."""
        self._over = outcome
        _, physical_offset = parse_message_id(self.result.offset_msg_id)
        header = EndTransaction(
            producer_group=self._group,
            tran_state_table_offset=self.result.queue_offset,
            commit_log_offset=physical_offset,
            commit_or_rollback=outcome,
            from_transaction_check=False,
            msg_id=self.result.msg_id,
            transaction_id=self.result.transaction_id,
            topic=self.result.queue.topic,
        )
        command = Command.request(RequestCode.END_TRANSACTION, header)
        # Answered, unlike the Java client's: a caller learns that the broker has refused.
        try:
            await self._session.connections.ask(
                self._address, command, self._runtime.options.request_timeout
            )
        except BrokerError:
            raise
        except ClientError as error:
            logger.warning(
                "transaction not ended, so the broker asks for it later id=%s: %s", self.id, error
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._over is None:
            self._finish(_outcome(is_committed=kind is None))
