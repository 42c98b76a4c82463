"""Producers and consumers at brokers of RocketMQ, and at reput's server."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reput.lazyexports import lazy_exports

if TYPE_CHECKING:
    from reput_client.client import Client as Client
    from reput_client.config import ClientOptions as ClientOptions
    from reput_client.errors import BrokerError as BrokerError
    from reput_client.errors import ClientClosedError as ClientClosedError
    from reput_client.errors import ClientError as ClientError
    from reput_client.errors import ConnectError as ConnectError
    from reput_client.errors import ConnectionLostError as ConnectionLostError
    from reput_client.errors import GroupTakenError as GroupTakenError
    from reput_client.errors import NoReplyError as NoReplyError
    from reput_client.errors import RequestTimeoutError as RequestTimeoutError
    from reput_client.errors import RouteNotFoundError as RouteNotFoundError
    from reput_client.errors import SendError as SendError
    from reput_client.errors import TransactionOverError as TransactionOverError
    from reput_client.producer.producer import Producer as Producer
    from reput_client.producer.requestreply import Reply as Reply
    from reput_client.producer.sendresult import SendResult as SendResult
    from reput_client.producer.sendresult import SendStatus as SendStatus
    from reput_client.producer.transactionproducer import Transaction as Transaction
    from reput_client.producer.transactionproducer import TransactionProducer as TransactionProducer
else:
    __getattr__, __dir__ = lazy_exports(__name__)
