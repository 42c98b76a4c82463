"""Errors in bytes or fields that a peer has sent, and in addresses."""

from __future__ import annotations

import attrs

from reput.errors import ReputError


class RemotingError(ReputError):
    """A peer has sent what the protocol does not allow, or a caller tries to send it."""


@attrs.define(eq=False, slots=False)
class AddressError(RemotingError, ValueError):
    """A text is not the address of a host and a port."""

    text: str

    def __str__(self) -> str:
        found = self.text[:100]
        return f"{found!r} is not an address; expected HOST:PORT, such as 127.0.0.1:10911"


@attrs.define(eq=False, slots=False)
class FrameError(RemotingError):
    """Bytes are not a frame; nothing after them on the connection can be read."""

    position: int
    """Bytes from the beginning of the frame."""
    found: str
    expected: str

    def __str__(self) -> str:
        return (
            f"frame, byte {self.position}: found {self.found}, expected {self.expected}; "
            "close the connection"
        )


@attrs.define(eq=False, slots=False)
class HeaderError(RemotingError, ValueError):
    """A field of a request or an answer is missing, or its text is not a value of its type."""

    header: str
    """Name of the header's class."""
    field: str
    """Name of the field on the wire."""
    found: str | None
    """The field's text; None if it is missing."""
    expected: str

    def __str__(self) -> str:
        found = "is missing" if self.found is None else f"is {self.found[:80]!r}"
        return f"{self.header}: the field {self.field!r} {found}; expected {self.expected}"


@attrs.define(eq=False, slots=False)
class BodyError(RemotingError, ValueError):
    """The body of a request or an answer is not what its code says."""

    body: str
    """What the body was to be."""
    position: int
    """Bytes or characters from the beginning of the body."""
    reason: str

    def __str__(self) -> str:
        return f"body ({self.body}), position {self.position}: {self.reason}"


@attrs.define(eq=False, slots=False)
class TransferError(RemotingError):
    """Bytes of a replication's connection are not those of a master; it is to be closed."""

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
