"""Checks that the disk has room for a repair, before the repair starts."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

import attrs

from reput.errors import ReputError
from reput.files import OWN_DIRECTORY, Disk
from reput_tools.doctor.repair.filecopy import tree_size
from reput_tools.offline import inspect_store

if TYPE_CHECKING:
    from reput_tools.doctor.repair.repairplan import RepairPlan

_SPARE: Final = 16 << 20
_BUILT_TIMES: Final = 2
"""A rebuild has its parts beside the files that it makes of them."""


@attrs.define(eq=False, slots=False)
class NoSpaceError(ReputError, OSError):
    """There is too little space for what is to be made; nothing was made."""

    path: str
    needed: int
    available: int

    def __str__(self) -> str:
        return (
            f"{self.path}: {self.needed:,} bytes are needed, {self.available:,} are free; "
            "name a directory on another disk, or make room"
        )


def needed_space(plan: RepairPlan, *, has_log: bool) -> int:
    """Return the bytes that a repair needs at most, unless the file system shares blocks.

    Args:
        plan: the repair.
        has_log: whether the log's files stay where they are, so that they are not copied.
    """
    disk = inspect_store(plan.root).disk
    derived = 0
    for entry in disk.list(plan.root):
        if entry.name not in ("commitlog", OWN_DIRECTORY):
            derived += tree_size(disk, entry.path)
    lost = sum(part.size for part in (*plan.lost, *plan.cut))
    if has_log:
        return derived * _BUILT_TIMES + 2 * lost + _SPARE  # lost bytes: backup and lost+found
    log = sum(min(part.size, plan.layout.file_size) for part in plan.layout.parts)
    return min(log, plan.size) + derived * _BUILT_TIMES + lost + _SPARE


def check_space(plan: RepairPlan, directory: str, *, has_log: bool) -> None:
    """Check that ``directory``, or the nearest one above it that exists, has enough free space.

    Raises:
        NoSpaceError: there is too little.
    """
    require_space(directory, needed_space(plan, has_log=has_log))


def require_space(directory: str, needed: int) -> None:
    """Check that ``directory``, or the nearest one above it that exists, has ``needed`` bytes free.

    Raises:
        NoSpaceError: there is too little.
    """
    while not os.path.isdir(directory) and os.path.dirname(directory) != directory:
        directory = os.path.dirname(directory)
    _, available = Disk().usage(directory)
    if needed > available:
        raise NoSpaceError(directory, needed, available)
