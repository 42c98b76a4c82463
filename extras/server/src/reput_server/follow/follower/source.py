"""Sources of a log: a broker at an address, one that name servers know, or a broker's directory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, Self

import attrs

from reput_client.remoting import Address, address_text, parse_address
from reput_server.follow.addresses import parse_addresses
from reput_server.follow.brokerclient.brokerclient import BrokerClient, master_address
from reput_server.follow.localmaster.master import DirectoryMaster
from reput_server.follow.replication.connection import HaConnection

if TYPE_CHECKING:
    from collections.abc import Callable

    from reput_client.remoting import Transfer
    from reput_server.follow.brokerclient.brokerfacts import BrokerFacts, LogRange
    from reput_server.follow.config import FollowConfig


class Connection(Protocol):
    """Brings the bytes of a log. Used by one thread, but for `abort`."""

    name: str

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...

    def send(self, data: bytes) -> None:
        """Send a report."""
        ...

    def read(self, seconds: float) -> list[Transfer] | None:
        """Return the transfers that are there now; None if no byte came in time."""
        ...

    def abort(self, reason: str = "") -> None:
        """End the connection; a `read` on another thread raises ``reason``."""
        ...


class Master(Protocol):
    """Answers questions about a log; its methods raise `BrokerError`. Thread-safe."""

    name: str
    """Where it is, for errors."""

    def facts(self) -> BrokerFacts:
        """Return what has to be known before it is followed."""
        ...

    def log_range(self) -> LogRange:
        """Return the extent of its log."""
        ...

    def document(self, code: int, name: str) -> bytes | None:
        """Return the JSON of a request, its file ``config/name``; None if it does not exist yet."""
        ...

    def connect(self, facts: BrokerFacts, config: FollowConfig) -> Connection:
        """Connect to what brings the bytes of the log."""
        ...

    def close(self) -> None:
        """Close what it has opened, for good."""
        ...


class _HaMaster(BrokerClient):
    """A broker whose log comes over its HA port."""

    def connect(self, facts: BrokerFacts, config: FollowConfig) -> HaConnection:
        if config.ha_address is not None:
            return HaConnection(parse_address(config.ha_address), config.ask_timeout)
        assert facts.ha_port is not None  # others are refused by `check_broker`
        return HaConnection((self.address[0], facts.ha_port), config.ask_timeout)


@attrs.frozen(kw_only=True)
class Source:
    """A broker that is followed. Its address is looked up for each connection, as it may move."""

    address: Address | None = None
    name_servers: tuple[Address, ...] = ()
    broker: str = ""
    """The broker's name, for name servers."""

    @classmethod
    def at(cls, address: str) -> Self:
        """Return the broker at ``HOST:PORT``.

        Raises:
            AddressError: ``address`` is not an address.
        """
        return cls(address=parse_address(address))

    @classmethod
    def named(cls, name_servers: str, broker: str) -> Self:
        """Return the broker of a name, which name servers at ``HOST:PORT;HOST:PORT`` know.

        Raises:
            AddressError: ``name_servers`` are not addresses.
        """
        return cls(name_servers=parse_addresses(name_servers), broker=broker)

    def find(self, timeout: float) -> Address:
        """Return the broker's address.

        Raises:
            BrokerError: no name server answers, or it does not know the broker.
        """
        if self.address is not None:
            return self.address
        return master_address(self.name_servers, self.broker, timeout)

    def reach(self, timeout: float, clock: Callable[[], float], before: Master | None) -> Master:
        """Return the broker at the address that it has now.

        Args:
            timeout: seconds for each question.
            clock: seconds, monotonic.
            before: what this returned the last time; it is returned again unless it has moved.

        Raises:
            BrokerError: no name server answers, or it does not know the broker.
        """
        address = self.find(timeout)
        if isinstance(before, _HaMaster) and before.address == address:
            return before
        return _HaMaster(address, timeout, clock)

    def __str__(self) -> str:
        if self.address is not None:
            return address_text(self.address)
        return f"{self.broker} of {';'.join(map(address_text, self.name_servers))}"


@attrs.frozen
class DirectorySource:
    """The directory of a broker on this machine (``storePathRootDir``), which is only read."""

    path: str

    def reach(self, timeout: float, clock: Callable[[], float], before: Master | None) -> Master:
        """Return what reads the directory; see `Source.reach`."""
        return DirectoryMaster(self.path) if before is None else before

    def __str__(self) -> str:
        return self.path


AnySource = Source | DirectorySource
