"""Refuse stores that a write cannot go into, before it begins and before it is published."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from reput_arrow.codederrors import CodedError
from reput_arrow.logwriter.publication.journal import load_writes
from reput_arrow.logwriter.stagingdirectories import is_vacant
from reput_tools.offline import inspect_store

if TYPE_CHECKING:
    import reput
    from reput.files import Disk


def refuse_overwriting(root: str, name: str | None, disk: Disk) -> None:
    """Refuse a place where something is, unless a write called ``name`` has made it."""
    if not is_vacant(root, disk) and name not in load_writes(root, disk):
        raise CodedError(
            "OPTION",
            f"{root}: something is there, and a store is never overwritten; remove it first, name "
            'another place, or, with Spark, add to the store with mode("append")',
        )


def refuse_foreign(root: str, disk: Disk) -> None:
    """Refuse a directory that is not a store."""
    if not disk.exists(os.path.join(root, "commitlog")):
        raise CodedError("NO_LOG", f"{root}: not a store: it does not hold a directory commitlog")


def refuse_open(root: str, disk: Disk) -> None:
    """Refuse a store that is open for writing."""
    if inspect_store(root, disk=disk).is_open:
        raise CodedError(
            "LOCKED", f"{root}: the store is open for writing; close it, then write again"
        )


def refuse_damaged(store: reput.Store) -> None:
    """Refuse a store that an opening would have to repair, which loses what is damaged.

    Also refuse a replica, whose messages come from its master.
    """
    if store.master is not None:
        raise CodedError(
            "OPTION",
            f"{store.root}: the store is a replica of {store.master}; write to another store, or "
            "end this with reput promote",
        )
    found = store.recovery.finding
    if store.recovery.damages:
        found = store.recovery.damages[0].finding
    if found is not None:
        raise CodedError(
            "DAMAGED",
            f"{store.root}: damaged at {found}; open the store once with reput.open, which repairs "
            "it and reports what is lost, then write again",
        )
