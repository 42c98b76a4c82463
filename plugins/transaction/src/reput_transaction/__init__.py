"""Transactional messages for reput, as RocketMQ keeps them: half messages, commit, rollback."""

from __future__ import annotations

from reput_transaction.config import TransactionConfig
from reput_transaction.errors import (
    OpenTransactionsError,
    TransactionEndedError,
    TransactionError,
    UnknownTransactionError,
)
from reput_transaction.half import HalfMessage
from reput_transaction.plugin import TransactionPlugin
from reput_transaction.transaction import Transaction

__all__ = [
    "HalfMessage",
    "OpenTransactionsError",
    "Transaction",
    "TransactionConfig",
    "TransactionEndedError",
    "TransactionError",
    "TransactionPlugin",
    "UnknownTransactionError",
]
