"""`Source`: where the broker is: at an address, or where name servers say."""

from __future__ import annotations

from typing import Self

import attrs

from reput_follow.asking.broker import master_address
from reput_follow.peers import Address, address_text, parse_address, parse_addresses

__all__ = ["Source"]


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

    def __str__(self) -> str:
        if self.address is not None:
            return address_text(self.address)
        return f"{self.broker} of {';'.join(map(address_text, self.name_servers))}"
