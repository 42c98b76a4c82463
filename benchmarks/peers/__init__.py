"""Other stores, each behind the same few calls."""

from __future__ import annotations

import attrs

from benchmarks.peers.disk_cache import CachedDeque
from benchmarks.peers.file_queue import FileQueue
from benchmarks.peers.lightning import Lightning
from benchmarks.peers.peer import Peer
from benchmarks.peers.sql_queue import SqlQueue
from benchmarks.peers.sqlite import Sqlite

__all__ = ["PEERS", "Peer", "PeerKind"]


@attrs.frozen(kw_only=True)
class PeerKind:
    """One other store and what it can do."""

    name: str
    """Part of the cases' names."""
    module: str
    """What must be installed."""
    make: type[Peer]
    fast: str | None
    """How it is set up to leave flushing to the system; None where it cannot."""
    durable: str | None
    """How it is set up to have every append on disk before it returns; None where it cannot."""
    batches: bool = True
    """Whether it can append many in one go."""
    full_count: int = 100_000
    """Messages of a full run; a slow store is given fewer."""


PEERS = (
    PeerKind(
        name="sqlite",
        module="sqlite3",
        make=Sqlite,
        fast="SQLite, WAL, NORMAL",
        durable="SQLite, WAL, FULL",
    ),
    PeerKind(
        name="lmdb",
        module="lmdb",
        make=Lightning,
        fast="LMDB, sync=False",
        durable="LMDB, sync=True",
        full_count=200_000,
    ),
    PeerKind(
        name="diskcache",
        module="diskcache",
        make=CachedDeque,
        fast="diskcache Deque, NORMAL",
        durable="diskcache Deque, FULL",
        full_count=20_000,
    ),
    PeerKind(
        name="filequeue",
        module="persistqueue",
        make=FileQueue,
        fast="persist-queue Queue (files)",
        durable=None,
        batches=False,
        full_count=20_000,
    ),
    PeerKind(
        name="sqlqueue",
        module="persistqueue",
        make=SqlQueue,
        fast=None,
        durable="persist-queue SQLiteQueue",
        batches=False,
        full_count=10_000,
    ),
)
