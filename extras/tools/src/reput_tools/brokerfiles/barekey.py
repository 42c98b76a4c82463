"""`BareKey`: a name of a JSON object that stands, or is to stand, without quotes."""

from __future__ import annotations


class BareKey(str):
    """A key written without quotes; equal to the same key with quotes."""

    __slots__ = ()
