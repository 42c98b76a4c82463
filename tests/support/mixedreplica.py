"""The replica of a mixed store: a process that follows the directory beside its writers."""

from __future__ import annotations

import traceback
import zlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import mixedplan as plan
from mixedreader import Journal, look_later
from mixedserver import address_of, free_port, served

import reput
from reput.errors import ReputError, StoreNotFoundError
from reput_server.follow import (
    BrokerError,
    DirectorySource,
    FollowConfig,
    FollowEndedError,
    Source,
    State,
    following,
    open_replica,
)
from reput_testing import QuickDisk

AnySource = DirectorySource | Source

_PLUGINS: Final = ("consumequeue", "index")
_QUICK: Final = FollowConfig(
    look_interval=0.002, ask_interval=0.02, retry_interval=0.01, settle_time=0.0
)
_HANG_SECONDS: Final = 60.0
_IS_NO_FAULT: Final = (State.FELL_BEHIND, State.STOPPED)
"""Retention removes what a replica does not have yet."""


def replica_of(root: Path) -> Path:
    """Where the replica is that follows a store's directory."""
    return root.with_name(f"{root.name} replica")


def served_replica_of(root: Path) -> Path:
    """Where the replica is that follows the broker of a store."""
    return root.with_name(f"{root.name} served replica")


def follow(root: str, journal: str, address: str = "") -> None:
    """The life of a process that follows; it is killed when nobody needs it any more.

    Args:
        root: the master's directory.
        journal: takes what is wrong.
        address: of the broker that serves the master; empty to follow the directory.
    """
    notes = Journal(journal)
    path = (served_replica_of if address else replica_of)(Path(root))
    source = Source.at(address) if address else DirectorySource(root)
    while True:
        try:
            with (
                open_replica(path, source, _QUICK, plugins=_PLUGINS, disk=QuickDisk()) as store,
                following(store, source, _QUICK) as follower,
            ):
                follower.wait_state()
                follower.raise_end()
        except BrokerError:
            look_later()
        except FollowEndedError as error:
            if error.state in _IS_NO_FAULT:
                notes.note("fell behind")
                return
            notes.note("violation", text=traceback.format_exc())
            return
        except Exception:
            notes.note("violation", text=traceback.format_exc())
            return


def wrong_in_replica(path: Path, records: Mapping[int, int], low: int) -> Iterator[str]:
    """Yield what a replica has that its master, which nobody writes, does not have.

    Args:
        path: the replica.
        records: CRC of each record of the master, by physical offset.
        low: where the master's log begins.
    """
    try:
        with reput.open(path, "r", disk=QuickDisk(), threads=False) as store:
            yield from _wrong_records(store, records, low)
    except StoreNotFoundError:
        return


def catch_up_served(
    path: Path,
    master: Path,
    sections: Mapping[str, Mapping[str, Any]],
    clock: Callable[[], int],
    records: Mapping[int, int],
    low: int,
) -> Iterator[str]:
    """Serve a master, which rests, until the replica has all of its log; yield what is wrong."""
    port = free_port()
    plugins = plan.plugins_of(sections)
    with (
        reput.open(
            master, plugins=plugins, config=sections, disk=QuickDisk(), clock=clock
        ) as store,
        served(store, port),
    ):
        yield from catch_up(path, Source.at(address_of(port)), records, low)


def _wrong_records(store: Any, records: Mapping[int, int], low: int) -> Iterator[str]:
    for batch in store.scan(check_crc=True):
        for row, offset in enumerate(batch.physical_offset.tolist()):
            if offset >= low and records.get(offset) != zlib.crc32(batch.record(row)):
                yield f"a replica has {batch.message(row)!r} at {offset}, its master does not"


def catch_up(path: Path, source: AnySource, records: Mapping[int, int], low: int) -> Iterator[str]:
    """Follow until the replica has all that is in the master's log; yield what is wrong."""
    try:
        with (
            open_replica(path, source, _QUICK, plugins=_PLUGINS, disk=QuickDisk()) as store,
            following(store, source, _QUICK) as follower,
        ):
            if not follower.wait_caught_up(_HANG_SECONDS):
                follower.raise_end()
                yield f"a replica does not catch up: {follower.status()}"
            assert store.wait_dispatched(_HANG_SECONDS)
            yield from _wrong_records(store, records, low)
            found = {offset for batch in store.scan() for offset in batch.physical_offset.tolist()}
            missing = [
                offset
                for offset in records
                if offset >= max(low, store.log.min_physical_offset) and offset not in found
            ]
            if missing:
                yield f"a replica has caught up and lacks {len(missing)}, first {missing[0]}"
    except FollowEndedError as error:
        if error.state not in _IS_NO_FAULT:
            yield f"a replica has ended: {error}"
    except (BrokerError, ReputError) as error:
        yield f"a replica cannot follow: {error}"
