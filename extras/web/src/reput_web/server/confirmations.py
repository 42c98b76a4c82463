"""`Confirmations`: tokens of forms, and actions that wait for somebody's yes.

A page of another site can send a form, but cannot read these pages, so it has no token. An
action that waits is kept here and not in the page: it is the one that was shown, and is done once.
"""

from __future__ import annotations

import hmac
import secrets
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import attrs

from reput_web.errors import BadRequestError, WebError

if TYPE_CHECKING:
    from reput_web.actions.action import Action

_WAITING_MAX: Final = 100
_WAITING_S: Final = 600.0


class ForbiddenError(WebError):
    """A form does not come from these pages."""

    status = 403


@attrs.define(eq=False)
class Confirmations:
    """Of one server; thread-safe."""

    token: str = attrs.field(factory=lambda: secrets.token_urlsafe(32), repr=False)
    """Each form of these pages has it."""
    clock: Callable[[], float] = time.monotonic
    _waiting: dict[str, tuple[float, Action]] = attrs.field(factory=dict, repr=False)
    _lock: threading.Lock = attrs.field(factory=threading.Lock)

    def check(self, given: str) -> None:
        """Check the token of a form.

        Raises:
            ForbiddenError: it is not this server's.
        """
        if not hmac.compare_digest(given.encode(), self.token.encode()):
            raise ForbiddenError("This form is not from these pages, or from before a restart.")

    def ask(self, action: Action) -> str:
        """Keep an action until it is confirmed, and return the word that confirms it."""
        word = secrets.token_urlsafe(32)
        with self._lock:
            while len(self._waiting) >= _WAITING_MAX:
                del self._waiting[next(iter(self._waiting))]
            self._waiting[word] = self.clock(), action
        return word

    def take(self, word: str) -> Action:
        """Return the action that a word confirms, once, and for ten minutes.

        Raises:
            BadRequestError: no action waits for that word.
        """
        with self._lock:
            asked_at, found = self._waiting.pop(word, (0.0, None))
        if found is None or self.clock() - asked_at > _WAITING_S:
            text = "This question was answered already, or is too old. Begin with the form again."
            raise BadRequestError(text)
        return found
