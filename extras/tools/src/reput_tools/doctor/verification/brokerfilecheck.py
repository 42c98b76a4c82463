"""Files of brokers that reput does not write: which parts of a store cannot be compared then.

What reput would derive differs from what such a broker keeps, so that a difference is not damage,
and advice to rebuild would harm the directory.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs

from reput.storefiles import find_broker_files
from reput_tools.doctor.findings import Finding, Findings, NotChecked, Severity

if TYPE_CHECKING:
    from reput.files import Disk

CHECKPOINT: Final = "checkpoint"
CONFIG: Final = "config"

_HIDDEN: Final[dict[str, frozenset[str]]] = {
    "batch-queues": frozenset({"consumequeue", CONFIG}),
    "dledger": frozenset(),
    "rocksdb-queues": frozenset({"consumequeue"}),
    "rocksdb-data": frozenset({"index"}),
    "rocksdb-settings": frozenset(),
    "rocksdb-tables": frozenset(),
    "wheel-snapshots": frozenset(),
}
"""For each kind of files, the parts that cannot be compared with the log."""
_UNREAD: Final = frozenset({"batch-queues"})
"""Kinds of files that are right, but that readers pass over until another file is restored."""


@attrs.frozen
class NotCompared:
    """Parts of a store that are not compared, each with the reason."""

    reasons: dict[str, str]

    def reason(self, part: str) -> str:
        """Return why a part is not compared; empty if it is."""
        return self.reasons.get(part, "")

    def without(self, parts: tuple[str, ...], not_checked: list[NotChecked]) -> tuple[str, ...]:
        """Return the parts that are compared; the others are added to ``not_checked``."""
        not_checked += [NotChecked(name, self.reason(name)) for name in parts if self.reason(name)]
        return tuple(name for name in parts if not self.reason(name))


def check_broker_files(
    root: str, disk: Disk, findings: Findings, not_checked: list[NotChecked]
) -> NotCompared:
    """Report files beside which reput does not write, or that it cannot read.

    Args:
        root: the store's directory.
        disk: bound to it.
        findings: is added to.
        not_checked: is added to, for links and what may not be read.
    """
    reasons: dict[str, str] = {}
    unread: list[OSError] = []
    for each in find_broker_files(root, disk, disk.list_names(root), unread.append):
        if each.topics:
            continue  # batch queues are read, written and compared
        reason = each.why_refused(root, disk)
        refused = f"not opened for writing: {reason}" if reason else ""
        is_written = each.row.kind == "dledger" and not reason
        step = "reput appends to it if its group has one node" if is_written else each.row.step
        limits = "nothing that reput cannot read or write"
        expected = "; ".join(filter(None, (limits, each.row.unseen, refused)))
        is_unread = each.row.kind in _UNREAD
        findings.add(
            Finding(
                severity=Severity.WARNING if is_unread else Severity.NOTICE,
                kind=f"store.{each.row.kind}",
                part="store",
                file=each.path,
                found=each.row.what,
                expected=expected,
                advice=step if is_unread else f"nothing is wrong with it; {step}",
            )
        )
        hidden = _HIDDEN[each.row.kind]
        reasons |= dict.fromkeys(hidden, f"the directory has {each.row.what}")
    not_checked += [NotChecked("store", text) for text in dict.fromkeys(map(str, unread))]
    return NotCompared(reasons)
