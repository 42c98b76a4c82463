"""What a page cannot show, and why: texts for people."""

from __future__ import annotations

from reput.errors import ReputError


class WebError(ReputError):
    """A page that cannot be shown; its text says why."""

    status = 500
    """Status of HTTP."""


class BadRequestError(WebError):
    """A part of the address means nothing."""

    status = 400


class NotThereError(WebError):
    """The store has no such thing."""

    status = 404


class BusyError(WebError):
    """More requests are under way than this server answers at once."""

    status = 503
