"""Keeps what a repair would discard although it may be right: in ``reput/lost+found``.

Derived files are rebuilt from the log. Where they said other than the log, and no checksum covers
the bytes in question, either may be wrong; so the old files are kept beside what the log has lost.
Files of ``config/`` that cannot be read are kept, too.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final

import attrs

from reput.files import OWN_DIRECTORY
from reput_tools.doctor.checksumcoverage import SUMS
from reput_tools.doctor.contradictions import contradicts, vouches
from reput_tools.doctor.repair.filecopy import copy_tree

if TYPE_CHECKING:
    from reput.files import Disk
    from reput_tools.doctor.repair.repairplan import RepairPlan
    from reput_tools.offline import Difference, Rebuilt

DIRECTORY: Final = os.path.join(OWN_DIRECTORY, "lost+found")


@attrs.frozen
class Doubt:
    """A place at which the log and a derived file contradict each other; either may be wrong."""

    plugin: str
    path: str
    """The derived file, or directory, relative to the store's directory."""
    difference: Difference


def doubts_of(plan: RepairPlan, compared: Sequence[Rebuilt]) -> tuple[Doubt, ...]:
    """Return where nothing says whether the log or the derived file is wrong.

    Args:
        plan: of a store whose log can be read as a whole.
        compared: how its derived files compare with the log.
    """
    is_vouched = plan.checksummed == plan.searched.message_count or any(
        each.plugin == SUMS and vouches(each) for each in compared
    )
    doubts = []
    for each in compared:
        for difference in each.differences or ():
            if difference.path.startswith("commitlog/"):  # sums that say that the log has changed
                doubts.append(Doubt(each.plugin, each.plugin, difference))
            elif contradicts(difference) and not is_vouched:
                doubts.append(Doubt(each.plugin, difference.path, difference))
    return tuple(doubts)


def keep_evidence(
    plan: RepairPlan, doubts: Iterable[Doubt], source: Disk, root: str, disk: Disk
) -> None:
    """Copy files of the damaged store that are not taken over; on disk when this returns.

    Args:
        plan: the repair.
        doubts: what contradicts the log.
        source: disk of the damaged store.
        root: the store that is made.
        disk: of that store.
    """
    kept = {each.path: os.path.join("derived", each.path) for each in doubts}
    for config in plan.lost_config:
        name = os.path.join("config", config.name)
        kept[name] = name
    for name, aside in kept.items():
        path = os.path.join(plan.root, name)
        if source.exists(path):
            target = os.path.join(root, DIRECTORY, aside)
            disk.make_directory(os.path.dirname(target), durable=True)
            copy_tree(source, path, disk, target)
