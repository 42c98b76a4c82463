"""Errors of following a broker."""

from __future__ import annotations

import attrs

from reput.errors import ReputError

__all__ = ["BrokerError", "FollowError"]


class FollowError(ReputError):
    """A broker cannot be followed."""


@attrs.define(eq=False, slots=False)
class BrokerError(FollowError):
    """A broker or a name server cannot be reached, or its answer cannot be used."""

    address: str
    reason: str

    def __str__(self) -> str:
        return f"{self.address}: {self.reason}"
