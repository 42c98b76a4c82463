"""`UnreadableDocumentError`: neither a file nor its backup can be read."""

from __future__ import annotations

import attrs

from reput.errors import ReputError

__all__ = ["UnreadableDocumentError"]


@attrs.define(eq=False, slots=False)
class UnreadableDocumentError(ReputError, OSError):
    """A file of a broker cannot be read, nor can its backup; nothing was changed.

    What the file says is needed, or would be lost by the change.
    """

    path: str
    reason: str

    def __str__(self) -> str:
        return (
            f"{self.path} cannot be read, and is not overwritten: {self.reason}; correct it, "
            "restore it from a copy, or rename it to go on without it"
        )
