"""Errors of the plugin ``transaction``."""

from __future__ import annotations

import attrs

from reput.errors import PutError, ReputError


class TransactionError(ReputError):
    """Base of the errors of the plugin ``transaction``."""


@attrs.define(eq=False, repr=False, slots=False)
class UnknownTransactionError(TransactionError, LookupError):
    """No half message of the log has this id."""

    transaction: str
    reason: str

    def __str__(self) -> str:
        return f"transaction {self.transaction!r}: {self.reason}"


@attrs.define(eq=False, repr=False, slots=False)
class TransactionEndedError(TransactionError):
    """The transaction was committed or rolled back before, or is being ended just now."""

    transaction: str
    physical_offset: int  # of the half message
    reason: str

    def __str__(self) -> str:
        return (
            f"transaction {self.transaction!r}, half message at physical offset "
            f"{self.physical_offset}: {self.reason}"
        )


@attrs.define(eq=False, repr=False, slots=False)
class CommitRefusedError(TransactionError, PutError):
    """The store refuses a message of the transaction, so no commit can succeed: roll it back.

    `status` and the fields are those of the error with which the store refused the message.
    """

    transaction_id: str

    def __str__(self) -> str:
        return (
            f"{super().__str__()}; no commit of transaction {self.transaction_id} can succeed, so "
            f"roll it back (`reput transactions PATH --roll-back {self.transaction_id}`)"
        )


@attrs.define(eq=False, repr=False, slots=False)
class OpenTransactionsError(TransactionError):
    """There are more open half messages than the plugin may keep in memory."""

    count: int
    limit: int
    queue_offset: int  # of the half message above the limit

    def __str__(self) -> str:
        return (
            f"{self.count} half messages are open at queue offset {self.queue_offset} of the half "
            f"topic, the option max_open allows {self.limit}; raise it and resume the plugin"
        )
