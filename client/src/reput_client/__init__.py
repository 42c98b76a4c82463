"""Producers and consumers at brokers of RocketMQ, and at reput's server."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reput.doors import door

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
    from reput_client.sending.producer import Producer as Producer
    from reput_client.sending.replies import Reply as Reply
    from reput_client.sending.results import SendResult as SendResult
    from reput_client.sending.results import SendStatus as SendStatus
    from reput_client.sending.transactions import Transaction as Transaction
    from reput_client.sending.transactions import TransactionProducer as TransactionProducer

_HOMES = {
    "BrokerError": "errors",
    "Client": "client",
    "ClientClosedError": "errors",
    "ClientError": "errors",
    "ClientOptions": "config",
    "ConnectError": "errors",
    "ConnectionLostError": "errors",
    "GroupTakenError": "errors",
    "NoReplyError": "errors",
    "Producer": "sending.producer",
    "Reply": "sending.replies",
    "RequestTimeoutError": "errors",
    "RouteNotFoundError": "errors",
    "SendError": "errors",
    "SendResult": "sending.results",
    "SendStatus": "sending.results",
    "Transaction": "sending.transactions",
    "TransactionOverError": "errors",
    "TransactionProducer": "sending.transactions",
}

__all__ = [*_HOMES]

if not TYPE_CHECKING:  # a name that is not listed is an error for mypy, too
    __getattr__, __dir__ = door(__name__, _HOMES)
