"""Errors of following a broker."""

from __future__ import annotations

import attrs

from reput.errors import ReputError

__all__ = ["AddressError", "BrokerError", "FollowError", "RefusedError", "TransferError"]


class FollowError(ReputError):
    """A broker cannot be followed."""


@attrs.define(eq=False, slots=False)
class AddressError(FollowError, ValueError):
    """A text is not an address."""

    text: str

    def __str__(self) -> str:
        return f"{self.text!r} is not an address; expected HOST:PORT, such as 127.0.0.1:10911"


@attrs.define(eq=False, slots=False)
class BrokerError(FollowError):
    """A broker or a name server cannot be reached, or its answer cannot be used."""

    address: str
    reason: str

    def __str__(self) -> str:
        return f"{self.address}: {self.reason}"


@attrs.define(eq=False, slots=False)
class TransferError(FollowError):
    """Bytes of the HA connection are not those of a master; the connection is closed."""

    address: str
    position: int
    """Bytes from the beginning of the frame."""
    found: str
    expected: str

    def __str__(self) -> str:
        return (
            f"{self.address}, byte {self.position} of a frame: found {self.found}, expected "
            f"{self.expected}; is this the HA port of a broker?"
        )


@attrs.define(eq=False, slots=False)
class RefusedError(FollowError):
    """A broker that cannot be followed, or not in the way that was asked for."""

    broker: str
    reason: str
    advice: str

    def __str__(self) -> str:
        return f"{self.broker}: {self.reason}; {self.advice}"
