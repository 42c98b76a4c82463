"""`Client`: producers and consumers of brokers that name servers know.

from reput import Message
from reput_client import Client

with Client("127.0.0.1:9876") as client:
    with client.producer("shop") as producer:
        producer.send(Message("orders", b"one book"))
    with client.consumer("billing", {"orders": "*"}, idle=5) as consumer:
        for message in consumer:
            ...
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from reput_client.clientruntime import ClientRuntime
from reput_client.config import ClientOptions
from reput_client.errors import ClientClosedError
from reput_client.producer.producer import Producer
from reput_client.producer.requestreply import RequestReplies
from reput_client.producer.sender import Sender
from reput_consumer import ConsumerFactory, checked_group

if TYPE_CHECKING:
    # By its whole name, as another distribution has a class of this name, too: the reference links.
    import reput_consumer
    from reput_client.consumer.consumers import Consumers
    from reput_client.producer.transactionproducer import Check, Checks, TransactionProducer


def _now() -> int:
    return time.time_ns() // 1_000_000


class Client(ConsumerFactory):
    """A client of one cluster; a context manager. Thread-safe.

    Nothing is connected until it is needed. Producers share connections, each consumer has its own,
    as brokers distinguish members of a group by them.
    """

    def __init__(
        self,
        name_servers: str | Iterable[str],
        *,
        clock: Callable[[], int] = _now,
        **options: Any,
    ) -> None:
        """Make a client.

        Args:
            name_servers: ``host:port``; several of them, or one text with ``;`` between them.
            clock: returns the time, ms.
            options: those of `reput_client.ClientOptions`.

        Raises:
            ValueError: an address that is not valid, or a value that an option does not allow.
            TypeError: an option that does not exist, or a value of a wrong type.
        """
        self._runtime = ClientRuntime(name_servers, ClientOptions(**options), clock)
        self._sender = Sender(
            self._runtime.options, self._runtime.routes, self._runtime.session.connections, clock
        )
        self._replies = RequestReplies(self._runtime.session)
        self._lock = threading.Lock()
        self._consumers: Consumers | None = None
        self._checks: Checks | None = None
        self._is_closed = False

    def __repr__(self) -> str:
        return f"<Client {self._runtime.session.client_id!r}>"

    # ------------------------------------------------------------------ producers

    def producer(self, group: str) -> Producer:
        """Return a producer of a group.

        Raises:
            ClientClosedError: the client is closed.
            ValueError: a name that no group can have.
        """
        self._check_open()
        return Producer(self._runtime, checked_group(group), self._sender, self._replies)

    def transaction_producer(self, group: str, check: Check) -> TransactionProducer:
        """Return a producer whose messages can become visible with a transaction.

        Args:
            group: the producer's group; brokers send check-backs to any producer of it.
            check: called, on a thread of the client, with a message whose transaction has not
                ended in time; returns True if it was carried out, False if not,
                None if it is still under way.

        Raises:
            GroupTakenError: the client has such a producer of the group already.
            ClientClosedError: the client is closed.
            ValueError: a name that no group can have.
        """
        from reput_client.producer.transactionproducer import Checks, TransactionProducer

        with self._lock:
            self._check_open()
            if self._checks is None:
                self._checks = Checks(self._runtime)
            checks = self._checks
        return TransactionProducer(
            self._runtime, checked_group(group), self._sender, self._replies, checks, check
        )

    # ------------------------------------------------------------------ consumers

    def queues(self, topic: str) -> list[reput_consumer.MessageQueue]:
        """Return the queues that a topic may be read from, sorted; none if no broker has it.

        Raises:
            ClientError: no name server answers.
        """
        self._check_open()
        return self._runtime.call(self._runtime.routes.queues(topic))

    @property
    def _opener(self) -> reput_consumer.LocalMembers:
        with self._lock:
            self._check_open()
            if self._consumers is None:
                from reput_client.consumer.consumers import Consumers

                self._consumers = Consumers(self._runtime, self._sender)
            return self._consumers.members

    # ------------------------------------------------------------------ the end

    def _check_open(self) -> None:
        if self._is_closed:
            raise ClientClosedError

    def close(self) -> None:
        """Close all producers and consumers, and unregister; a second call does nothing."""
        with self._lock:
            if self._is_closed:
                return
            self._is_closed = True
            consumers, self._consumers = self._consumers, None
        if consumers is not None:
            consumers.close()
        self._runtime.close()
        if self._checks is not None:
            self._checks.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
