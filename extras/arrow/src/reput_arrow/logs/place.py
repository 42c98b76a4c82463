"""Where one log is: plain values, which do not know how a log is found or opened."""

from __future__ import annotations

import attrs

__all__ = ["COMMIT_LOG", "LEDGER", "LogPlace"]

COMMIT_LOG = "commitlog"
"""Kind of a log: records one after another."""
LEDGER = "dledger"
"""Kind of a log: each record is the body of a DLedger entry."""


@attrs.frozen
class LogPlace:
    """Where one log is; plain values, made to be sent to executors."""

    store: str
    """What the user called it: the path that was given, or that of one of the stores below it."""
    directory: str
    """Where its files are, a URI where the path was one; else an absolute path."""
    file_size: int
    """Bytes of one file."""
    only_base: int | None = None
    """The one file to be read, where a file was named: the physical offset of its first byte."""
    kind: str = COMMIT_LOG
    """`COMMIT_LOG` or `LEDGER`."""
