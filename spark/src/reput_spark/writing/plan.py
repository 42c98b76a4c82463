"""What a write must know of its store before the first task begins."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import attrs

import reput
from reput.errors import ReputError, UnsafePathError
from reput.files import Disk, system_clock
from reput.log import LOG_SECTION, CommitLogConfig
from reput.offline import look
from reput.plugin import build_config
from reput.record import pack_host
from reput_spark.errors import SparkReputError
from reput_spark.logs.localpaths import local_path
from reput_spark.writing.intents import load_writes
from reput_spark.writing.options import WriteOptions
from reput_spark.writing.staging import is_vacant, make, new_name

if TYPE_CHECKING:
    from collections.abc import Callable

    from reput.plugin import PluginSet, PutInterest

__all__ = [
    "WritePlan",
    "plan_write",
    "refuse_damaged",
    "refuse_foreign",
    "refuse_open",
    "refuse_overwriting",
]


@attrs.frozen(kw_only=True)
class WritePlan:
    """How the files of one write are made; plain values, sent to executors."""

    root: str
    """The store's directory, absolute."""
    made_root: bool
    """Whether nothing was there before."""
    is_new: bool
    """Whether there was no store."""
    overwrite: bool
    """Whether there must be no store when it is published, either."""
    staging: str
    """Name of the staging directory."""
    options: WriteOptions
    file_size: int
    store_host: bytes
    max_message_size: int
    record_crc: bool
    light_queues: bool
    store_timestamp: int
    """ms, of every record that does not keep one of its own: that of the plan, and none that is
    before the log's last one by then. What others put until it is published may be later."""
    is_done: bool
    """Whether a write of its name is published, so that no row is looked at."""
    interests: Mapping[str, PutInterest]
    """By plugin, the messages that it acts on; none of those is taken."""


def plan_write(
    options: WriteOptions,
    *,
    overwrite: bool,
    disk: Disk | None = None,
    clock: Callable[[], int] = system_clock,
) -> WritePlan:
    """Look at the store, refuse what cannot be done, and make the staging directory.

    Args:
        options: of the write.
        overwrite: only where nothing is yet; else the store goes on, where there is one.
        disk: file operations; the system's when left out.
        clock: now, in ms.

    Raises:
        SparkReputError: a path, an option or a store that cannot be written.
        UnsafePathError: a link below the store's directory, where none is followed.
    """
    root, outer = local_path(options.path), disk or Disk()
    disk = outer.at(root, follow_links=options.follow_links)
    made_root = not disk.exists(root)
    is_new = is_vacant(root, disk)
    if overwrite:
        refuse_overwriting(root, options.write_id, disk)
    facts = _of_new(root, options, disk) if is_new else _of_store(root, options, disk)
    config: CommitLogConfig = facts["config"]
    staging = options.staged or new_name()
    plan = WritePlan(
        root=root,
        made_root=made_root,
        is_new=is_new,
        overwrite=overwrite,
        staging=staging,
        options=options,
        file_size=config.file_size,
        store_host=pack_host(config.store_address, config.store_port),
        max_message_size=config.max_message_size,
        record_crc=config.record_crc,
        light_queues=config.light_queues,
        store_timestamp=max(clock(), facts["last"]),
        is_done=options.write_id in load_writes(root, disk),
        interests={} if options.raw else _understood(facts["interests"]),
    )
    outer.make_directory(root, durable=True)  # with those above it, which are not the store's
    make(root, staging, disk)
    return plan


def _of_new(root: str, options: WriteOptions, disk: Disk) -> dict[str, Any]:
    size = {} if options.file_size is None else {"file_size": options.file_size}
    interests = _interests(look(root, disk=disk).plugins())
    return {
        "config": build_config(CommitLogConfig, LOG_SECTION, size),
        "last": 0,
        "interests": interests,
    }


def _of_store(root: str, options: WriteOptions, disk: Disk) -> dict[str, Any]:
    refuse_foreign(root, disk)
    refuse_open(root, disk)
    try:
        with reput.open(root, "r", plugins=(), disk=disk) as store:
            refuse_damaged(store)
            config, last = store.config, store.recovery.last_store_timestamp
        interests = _interests(look(root, disk=disk).plugins())
    except (SparkReputError, UnsafePathError):
        raise
    except (ReputError, OSError) as error:
        raise SparkReputError("DAMAGED", f"{root}: {error}") from error
    if options.file_size not in (None, config.file_size):
        raise SparkReputError(
            "OPTION",
            f"option 'file_size' is {options.file_size}; the files of {root} have "
            f"{config.file_size} bytes: leave the option out",
        )
    return {"config": config, "last": last, "interests": interests}


def refuse_overwriting(root: str, name: str | None, disk: Disk) -> None:
    """Refuse a place where something is, unless it is there by a write of that very name."""
    if not is_vacant(root, disk) and name not in load_writes(root, disk):
        raise SparkReputError(
            "OPTION",
            f"{root}: something is there, and a store is never overwritten; remove it first, name "
            'another place, or add to the store with mode("append")',
        )


def refuse_foreign(root: str, disk: Disk) -> None:
    """Refuse a directory of something else."""
    if not disk.exists(os.path.join(root, "commitlog")):
        raise SparkReputError(
            "NO_LOG", f"{root}: no store: a directory that holds commitlog is expected, or none"
        )


def refuse_open(root: str, disk: Disk) -> None:
    """Refuse a store that somebody writes now."""
    if look(root, disk=disk).is_open:
        raise SparkReputError(
            "LOCKED", f"{root}: the store is open for writing; close it, then write again"
        )


def refuse_damaged(store: reput.Store) -> None:
    """Refuse a store that an opening would have to mend, for that loses what is damaged."""
    found = store.recovery.finding
    if store.recovery.holes:
        found = store.recovery.holes[0].finding
    if found is not None:
        raise SparkReputError(
            "DAMAGED",
            f"{store.root}: damaged at {found}; open the store once with reput.open, which mends "
            "it and notes what is lost, then write again",
        )


def _interests(plugins: PluginSet) -> dict[str, PutInterest | None]:
    """Which messages the plugins of a store would act on, were they put."""
    hooked = [name for name, _ in plugins.having(lambda hooks: hooks.put)]
    return {name: plugins.plugins[name].put_interest for name in hooked}


def _understood(interests: Mapping[str, PutInterest | None]) -> dict[str, PutInterest]:
    found = {}
    for name, interest in interests.items():
        if interest is None:
            raise SparkReputError(
                "OPTION",
                f"plugin {name!r} of the store looks at every message that is put, and Spark does "
                "not ask it; raw=true writes them as they are",
            )
        found[name] = interest
    return found
