"""Plan a write: look at its store before the first task begins."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import reput
from reput.errors import ReputError, UnsafePathError
from reput.files import Disk, system_clock
from reput.log import LOG_SECTION, CommitLogConfig
from reput.plugin import build_config
from reput.record import pack_host
from reput_arrow.codederrors import CodedError
from reput_arrow.localpaths import local_path
from reput_arrow.logwriter.publication.journal import load_writes
from reput_arrow.logwriter.publication.refusals import (
    refuse_damaged,
    refuse_foreign,
    refuse_open,
    refuse_overwriting,
)
from reput_arrow.logwriter.staging.writetasks import WritePlan
from reput_arrow.logwriter.stagingdirectories import is_vacant, make, new_name
from reput_arrow.logwriter.writeoptions import WriteOptions
from reput_tools.offline import inspect_store

if TYPE_CHECKING:
    from collections.abc import Callable

    from reput.plugin import PluginSet, PutInterest


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
        CodedError: a path, an option or a store that cannot be written.
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
    staging = new_name()
    plan = WritePlan(
        root=root,
        made_root=made_root,
        is_new=is_new,
        overwrite=overwrite,
        staging=staging,
        options=options,
        file_size=config.file_size,
        store_host=pack_host(*config.store_host),
        max_message_size=config.max_message_size,
        record_crc=config.record_crc,
        light_queues=config.max_light_queues > 0,
        store_timestamp=max(clock(), facts["last"]),
        is_done=options.write_id in load_writes(root, disk),
        # Only what is copied without asking plugins is held against what they look for.
        interests=_understood(facts["interests"]) if options.keep and not options.raw else {},
    )
    outer.make_directory(root, durable=True)  # with those above it, which are not the store's
    make(root, staging, disk)
    return plan


def _of_new(root: str, options: WriteOptions, disk: Disk) -> dict[str, Any]:
    size: Mapping[str, Any] = {}
    if options.has_small_files:
        size = CommitLogConfig.small_sizes
    elif options.file_size is not None:
        size = {"file_size": options.file_size}
    interests = _interests(inspect_store(root, disk=disk).plugins())
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
        interests = _interests(inspect_store(root, disk=disk).plugins())
    except (CodedError, UnsafePathError):
        raise
    except (ReputError, OSError) as error:
        raise CodedError("DAMAGED", f"{root}: {error}") from error
    if options.file_size not in (None, config.file_size):
        raise CodedError(
            "OPTION",
            f"option 'file_size' is {options.file_size}; the files of {root} have "
            f"{config.file_size} bytes: leave the option out",
        )
    return {"config": config, "last": last, "interests": interests}


def _interests(plugins: PluginSet) -> dict[str, PutInterest | None]:
    """Return which messages the plugins of a store would act on, were they put."""
    hooked = [name for name, _ in plugins.having("put")]
    return {name: plugins.plugins[name].put_interest for name in hooked}


def _understood(interests: Mapping[str, PutInterest | None]) -> dict[str, PutInterest]:
    found = {}
    for name, interest in interests.items():
        if interest is None:
            raise CodedError(
                "OPTION",
                f"plugin {name!r} of the store looks at every message that is put, and Spark does "
                "not ask it; raw=true writes them as they are",
            )
        found[name] = interest
    return found
