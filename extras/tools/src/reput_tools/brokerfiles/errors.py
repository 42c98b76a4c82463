"""Why a document of a broker is not written: it cannot be read, or is in a database."""

from __future__ import annotations

import attrs

from reput.errors import ReputError


@attrs.define(eq=False, repr=False, slots=False)
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


@attrs.define(eq=False, repr=False, slots=False)
class DatabaseDocumentError(ReputError, OSError):
    """A broker keeps a document in RocksDB, where reput does not write; nothing was changed."""

    path: str

    def __str__(self) -> str:
        return (
            f"{self.path} is a database in RocksDB, which reput does not write; no file beside it "
            "counts; reput convert makes a store with files"
        )


@attrs.define(eq=False, repr=False, slots=False)
class RocksDBError(ReputError):
    """Settings in RocksDB cannot be read here."""

    path: str
    reason: str

    def __str__(self) -> str:
        return f"{self.path}: {self.reason}"
