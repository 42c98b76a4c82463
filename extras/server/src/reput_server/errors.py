"""Errors of the server, and what a handler raises to refuse a request."""

from __future__ import annotations

import attrs

from reput.errors import ReputError


class ServerError(ReputError):
    """The server cannot carry out a request."""


@attrs.define(eq=False, repr=False, slots=False)
class CertificateError(ServerError):
    """A file for encrypted connections cannot be used."""

    path: str
    reason: str
    advice: str

    def __str__(self) -> str:
        return f"{self.path}: {self.reason}; {self.advice}"


@attrs.define(eq=False, repr=False, slots=False)
class Refusal(ServerError):
    """A request is answered with a code that says no, and a remark that says why."""

    code: int
    remark: str
    header: object = None
    """Fields that the answer carries all the same; None for no fields."""

    def __str__(self) -> str:
        return self.remark
