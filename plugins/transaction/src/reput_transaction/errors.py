"""What goes wrong with transactions."""

from __future__ import annotations

import attrs

from reput.errors import ReputError

__all__ = [
    "OpenTransactionsError",
    "TransactionEndedError",
    "TransactionError",
    "UnknownTransactionError",
]


class TransactionError(ReputError):
    """Base of the errors of the plugin ``transaction``."""


@attrs.define(eq=False, slots=False)
class UnknownTransactionError(TransactionError, LookupError):
    """An id that no half message of the log has."""

    transaction: str
    reason: str

    def __str__(self) -> str:
        return f"transaction {self.transaction!r}: {self.reason}"


@attrs.define(eq=False, slots=False)
class TransactionEndedError(TransactionError):
    """A transaction that was committed or rolled back before, or is just being so."""

    transaction: str
    physical_offset: int  # of its half message
    reason: str

    def __str__(self) -> str:
        return (
            f"transaction {self.transaction!r}, half message at physical offset "
            f"{self.physical_offset}: {self.reason}"
        )


@attrs.define(eq=False, slots=False)
class OpenTransactionsError(TransactionError):
    """More half messages that nobody ended than the plugin may keep in mind."""

    count: int
    limit: int
    queue_offset: int  # of the half message that was one too many

    def __str__(self) -> str:
        return (
            f"{self.count} half messages are open at queue offset {self.queue_offset} of the half "
            f"topic, the option max_open allows {self.limit}; raise it and resume the plugin"
        )
