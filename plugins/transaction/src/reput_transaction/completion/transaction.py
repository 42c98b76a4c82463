"""`Transaction`: messages that become visible together, or never."""

from __future__ import annotations

from collections.abc import Iterable
from types import TracebackType
from typing import TYPE_CHECKING, Self

import attrs

from reput.record import Message, parse_properties
from reput.record.layout import PROPERTY_UNIQ_KEY
from reput_transaction.errors import TransactionEndedError
from reput_transaction.layout import (
    PROPERTY_GROUP,
    PROPERTY_MEMBER_OF,
    PROPERTY_TRANSACTIONAL,
)
from reput_transaction.messages.halfmessage import HalfMessage
from reput_transaction.messages.messageforms import with_properties

if TYPE_CHECKING:
    from reput.log import BatchReceipt
    from reput_transaction.completion.transactionengine import TransactionEngine
    from reput_transaction.messages.uniquekeys import UniqueKeys


@attrs.define(eq=False)
class Transaction:
    """What ``plugin.transaction()`` returns: a context manager that commits at its end.

    A block that raises rolls back. Not thread-safe.
    """

    id: str
    """Id that all its messages share (property ``REPUT_TRANSACTION``)."""
    group: str
    """The producer group of its messages."""
    halves: list[HalfMessage] = attrs.field(init=False, factory=list)
    """The half messages put so far."""
    receipt: BatchReceipt | None = attrs.field(init=False, default=None)
    """Receipt of the committed messages, in the order of `halves`; None before the commit."""
    is_ended: bool = attrs.field(init=False, default=False)
    """Whether it was committed or rolled back."""
    _engine: TransactionEngine
    _keys: UniqueKeys

    def put(self, message: Message) -> HalfMessage:
        """Store a message that becomes visible when the transaction is committed.

        Raises:
            TransactionEndedError: the transaction is ended.
            PutError: as for `reput.Store.put`; also if its commit would be refused.
        """
        return self.put_many([message])[0]

    def put_many(self, messages: Iterable[Message]) -> list[HalfMessage]:
        """Store messages in their order; see `put`."""
        self._check_open()
        marked = [as_transactional(each, self.group, self._keys, self.id) for each in messages]
        halves = self._engine.prepare(marked) if marked else []
        self.halves += halves
        return halves

    def commit(self) -> BatchReceipt | None:
        """Make all messages visible; may be tried again after an error.

        Returns:
            Receipt of the committed messages; None without messages.

        Raises:
            FlushDiskTimeoutError: the half messages are not on disk yet; nothing was committed.
            CommitRefusedError: a plugin refuses a message; only `roll_back` can end this.
            PutError: the disk is full, for example. If some of the messages were stored, the rest
                follow as soon as that is possible, also after a crash.
        """
        self._check_open()
        if self.halves:
            self.receipt = self._engine.commit(self.halves)
        self.is_ended = True
        return self.receipt

    def roll_back(self) -> None:
        """Roll back: none of the messages will ever be visible."""
        self._check_open()
        if self.halves:
            self._engine.roll_back(self.halves)
        self.is_ended = True

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self.is_ended:
            return
        if kind is None:
            self.commit()
        else:
            self.roll_back()

    def _check_open(self) -> None:
        if self.is_ended:
            offset = self.halves[0].physical_offset if self.halves else -1
            raise TransactionEndedError(self.id, offset, "it was ended before")


def as_transactional(
    message: Message, group: str, keys: UniqueKeys, member_of: str | None = None
) -> Message:
    """Return ``message`` with the property that makes it transactional, and a key to end it by."""
    properties = message.properties
    if isinstance(properties, bytes):
        properties = parse_properties(properties)
    known = properties or {}
    added = {PROPERTY_TRANSACTIONAL: "true", PROPERTY_GROUP: group}
    if not known.get(PROPERTY_UNIQ_KEY):
        added[PROPERTY_UNIQ_KEY] = keys.next()
    if member_of is not None:
        added[PROPERTY_MEMBER_OF] = member_of
    return with_properties(message, added)
