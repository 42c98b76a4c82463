"""Other stores, each adapted to the same few calls."""

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
    """One other store and its abilities."""

    name: str
    """Part of the cases' names."""
    module: str
    """Module that must be installed."""
    make: type[Peer]
    fast: str | None
    """Its set-up when the system decides on flushing; None if there is no such set-up."""
    durable: str | None
    """Its set-up when every append is on disk before it returns; None if there is none."""
    batches: bool = True
    """Whether it can append many rows at once."""
    full_count: int = 100_000
    """Messages of a full run; fewer for a slow store."""


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
