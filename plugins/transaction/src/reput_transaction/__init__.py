"""Transactional messages for reput, as RocketMQ keeps them: half messages, commit, rollback."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reput.lazyexports import lazy_exports

if TYPE_CHECKING:
    from reput_transaction.completion.transaction import Transaction as Transaction
    from reput_transaction.config import TransactionConfig as TransactionConfig
    from reput_transaction.errors import CommitRefusedError as CommitRefusedError
    from reput_transaction.errors import OpenTransactionsError as OpenTransactionsError
    from reput_transaction.errors import TransactionEndedError as TransactionEndedError
    from reput_transaction.errors import TransactionError as TransactionError
    from reput_transaction.errors import UnknownTransactionError as UnknownTransactionError
    from reput_transaction.messages.halfmessage import HalfMessage as HalfMessage
    from reput_transaction.plugin import TransactionPlugin as TransactionPlugin
else:
    __getattr__, __dir__ = lazy_exports(__name__)
