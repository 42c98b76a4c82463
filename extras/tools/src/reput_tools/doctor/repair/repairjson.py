"""A plan, and what a repair has done, as plain values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs

if TYPE_CHECKING:
    from collections.abc import Sequence

    from reput_tools.doctor.repair.fieldrepair import FieldRepair
    from reput_tools.doctor.repair.lostandfound import Doubt
    from reput_tools.doctor.repair.lostmessages import LostPart
    from reput_tools.doctor.repair.repairplan import RepairPlan
    from reput_tools.doctor.repair.repairrun import Repaired
    from reput_tools.offline import Difference


def plan_document(plan: RepairPlan) -> dict[str, Any]:
    """Return what a repair does."""
    found = plan.searched
    return {
        "path": plan.root,
        "is_needed": plan.is_needed,
        "was_closed": plan.was_closed,
        "log": {
            "start_offset": found.start_offset,
            "end_offset": found.end_offset,
            "file_size": plan.layout.file_size,
            "message_count": plan.message_count,
        },
        "lost_message_count": plan.lost_message_count,
        "lost": [_lost(part, "filled") for part in plan.lost]
        + [_lost(part, "cut") for part in plan.cut],
        "gone": [
            {
                "topic": each.topic,
                "queue_id": each.queue_id,
                "queue_offset": each.queue_offset,
                "queue_end_offset": each.queue_end_offset,
            }
            for each in plan.gone
        ],
        "head": None
        if plan.head is None
        else {"start_offset": plan.head.start_offset, "end_offset": plan.head.end_offset},
        "mended": [_mend(mend) for mend in plan.mends],
        "files": [attrs.asdict(notice) for notice in plan.notices],
        "not_covered": plan.not_covered,
        "plugins": list(plan.plugins.plugins),
        "plugins_missing": dict(plan.plugins.missing),
    }


def repaired_document(done: Repaired) -> dict[str, Any]:
    """Return what a repair has done."""
    built = done.built
    return {
        **plan_document(done.plan),
        "is_repaired": built is not None,
        "target": done.target,
        "backup": done.backup or None,
        "differences": plain_differences(done.differences),
        "doubts": plain_doubts(done.doubts),
        "was_compared": done.was_compared,
        "rebuilt": [
            {"plugin": each.plugin, "message_count": each.message_count, "seconds": each.seconds}
            for each in (built.rebuilt if built is not None else ())
        ],
        "left": [attrs.asdict(notice) for notice in (built.notices if built is not None else ())],
    }


def plain_differences(differences: Sequence[Difference]) -> list[dict[str, Any]]:
    """Return where derived files differ from what the log gives."""
    return [
        {"path": each.path, "position": each.position, "reason": each.reason}
        for each in differences
    ]


def plain_doubts(doubts: Sequence[Doubt]) -> list[dict[str, Any]]:
    """Return where nothing says whether the log or a derived file is wrong."""
    return [
        {
            "plugin": each.plugin,
            "path": each.difference.path,
            "position": each.difference.position,
            "found": each.difference.found or each.difference.reason,
            "expected": each.difference.expected,
            "messages": [attrs.asdict(message) for message in each.difference.messages],
        }
        for each in doubts
    ]


def _lost(part: LostPart, action: str) -> dict[str, Any]:
    facts = attrs.asdict(part)
    facts["keys"] = part.keys.split()
    facts["time_before"] = facts.pop("store_timestamp")
    facts["store_timestamp"] = facts.pop("indexed_timestamp")
    facts["key_hashes"] = list(part.key_hashes)
    return {**facts, "size": part.size, "action": action}


def _mend(mend: FieldRepair) -> dict[str, Any]:
    return {**attrs.asdict(mend), "old": mend.old.hex(), "new": mend.new.hex()}
