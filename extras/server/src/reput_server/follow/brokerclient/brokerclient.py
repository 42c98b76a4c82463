"""`BrokerClient`: requests to one broker or name server, one at a time."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable
from typing import Any, Final, Self

from reput_client.remoting import (
    Address,
    AddressError,
    ClusterInfo,
    Command,
    FrameReader,
    RemotingError,
    RequestCode,
    ResponseCode,
    address_text,
    encode_frame,
    parse_address,
    parse_body,
)
from reput_server.follow.addresses import connect
from reput_server.follow.brokerclient.brokerfacts import BrokerFacts, LogRange, facts_of, range_of
from reput_server.follow.errors import BrokerError

_RECEIVE_SIZE: Final = 1 << 18
_HEADER_SIZE_MAX: Final = 1 << 20
_MASTER_ID: Final = 0


class BrokerClient:
    """A broker, or a name server, that answers questions. Thread-safe."""

    def __init__(
        self,
        address: Address,
        timeout: float = 5.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Connect nothing yet.

        Args:
            address: of the broker.
            timeout: seconds for one question, the connection included.
            clock: seconds, monotonic.
        """
        self.address = address
        self.name = address_text(address)
        self._timeout = timeout
        self._clock = clock
        self._lock = threading.Lock()
        self._socket: socket.socket | None = None
        self._reader = FrameReader()
        self._opaque = 0
        self._is_closed = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection; a further question is refused."""
        with self._lock:
            self._is_closed = True
            self._disconnect()

    # ------------------------------------------------------------------ questions

    def facts(self) -> BrokerFacts:
        """Return the broker's configuration.

        Raises:
            BrokerError: it cannot be reached, or gives no valid answer.
        """
        return facts_of(self.name, self.ask(RequestCode.GET_BROKER_CONFIG))

    def log_range(self) -> LogRange:
        """Return the extent of the broker's log.

        Raises:
            BrokerError: it cannot be reached, or gives no valid answer.
        """
        found = self._object(RequestCode.GET_BROKER_RUNTIME_INFO, "runtime information")
        table = found.get("table")
        return range_of(self.name, table if isinstance(table, dict) else {})

    def document(self, code: int, name: str) -> bytes | None:
        """Return the JSON that answers a request, which the broker keeps as ``config/name``.

        Raises:
            BrokerError: it cannot be reached, or it refuses.
        """
        return self.ask(code)

    def _object(self, code: int, what: str) -> dict[str, Any]:
        try:
            found = parse_body(self.ask(code), what)
        except RemotingError as error:
            raise BrokerError(self.name, str(error)) from error
        if not isinstance(found, dict):
            raise BrokerError(self.name, f"its {what} is not an object")
        return found

    def ask(self, code: int) -> bytes:
        """Send a request without fields, and return the body of its answer.

        Raises:
            BrokerError: there is no connection, no answer in time, or the broker refuses.
        """
        with self._lock:
            if self._is_closed:
                raise BrokerError(self.name, "it is asked no more: the master has moved")
            try:
                answer = self._exchange(Command.request(code))
            except (OSError, RemotingError) as error:
                self._disconnect()
                raise BrokerError(self.name, _reason_of(error, self._timeout)) from error
        if answer.code != ResponseCode.SUCCESS:
            remark = (answer.remark or "no remark").partition("\n")[0]
            text = f"it refuses request {int(code)} with code {answer.code}: {remark[:300]}"
            raise BrokerError(self.name, text)
        return answer.body

    # ------------------------------------------------------------------ the connection

    def _exchange(self, command: Command) -> Command:
        deadline = self._clock() + self._timeout
        if self._socket is None:
            self._reader = FrameReader(header_size_max=_HEADER_SIZE_MAX)
            self._socket = connect(self.address, self._timeout)
        self._opaque = self._opaque % 0x7FFF_FFFF + 1
        self._socket.settimeout(self._left(deadline))
        frame = Command(command.code, command.fields, command.body, self._opaque)
        self._socket.sendall(encode_frame(frame))
        while True:
            while (found := self._reader.next_command()) is not None:
                if found.is_response and found.opaque == self._opaque:
                    return found
            self._socket.settimeout(self._left(deadline))
            data = self._socket.recv(_RECEIVE_SIZE)
            if not data:
                raise ConnectionResetError("the broker closed the connection")
            self._reader.feed(data)

    def _left(self, deadline: float) -> float:
        left = deadline - self._clock()
        if left <= 0:
            raise TimeoutError
        return left

    def _disconnect(self) -> None:
        held, self._socket = self._socket, None
        if held is not None:
            held.close()


def master_address(name_servers: tuple[Address, ...], broker: str, timeout: float = 5.0) -> Address:
    """Return the address of a broker's master, which one of several name servers knows.

    Args:
        name_servers: tried in this order, until one answers.
        broker: name of the broker.
        timeout: seconds for each name server.

    Raises:
        BrokerError: no name server answers, or it does not know such a master, or not its address.
    """
    failed: BrokerError | None = None
    for address in name_servers:
        with BrokerClient(address, timeout) as server:
            try:
                body = server.ask(RequestCode.GET_BROKER_CLUSTER_INFO)
                known = ClusterInfo.decode(body).brokers
            except RemotingError as error:
                failed = BrokerError(server.name, str(error))
                continue
            except BrokerError as error:
                failed = error
                continue
        found = known.get(broker)
        if found is None:
            names = ", ".join(sorted(known)[:20]) or "none"
            text = f"the name server does not know a broker {broker!r}; it knows {names}"
            raise BrokerError(server.name, text)
        master = found.addresses.get(_MASTER_ID)
        if master is None:
            text = f"broker {broker!r} has no master at the moment, only slaves"
            raise BrokerError(server.name, text)
        try:
            return parse_address(master)
        except AddressError as error:  # its next answer may be another one
            raise BrokerError(server.name, f"the master of broker {broker!r}: {error}") from error
    assert failed is not None
    raise failed


def _reason_of(error: Exception, seconds: float) -> str:
    if isinstance(error, TimeoutError):
        return f"no answer in {seconds:.3g} s"
    return str(getattr(error, "strerror", None) or error)
