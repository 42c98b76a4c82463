"""Where one log is: plain values, which do not know how a log is found or opened."""

from __future__ import annotations

import attrs

from reput.files import is_file_name

COMMIT_LOG = "commitlog"
"""Kind of a log: records one after another."""
LEDGER = "dledger"
"""Kind of a log: each record is the body of a DLedger entry."""
_INSIDE = frozenset({"commitlog", "data", "store"})


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
    grows: bool = False
    """Whether the last file may be shorter (`reput.CommitLogConfig.grows`)."""

    @property
    def broker(self) -> str:
        """Name of the directory that is the broker's: that of the store, or the one above it.

        A broker's own name is in none of its files; ``store``, as RocketMQ calls the directory of
        every broker, and names inside of it are not one.
        """
        names = [each for each in self.store.partition("?")[0].split("/") if each]
        while len(names) > 1 and (names[-1] in _INSIDE or is_file_name(names[-1])):
            names.pop()
        return names[-1] if names else self.store
