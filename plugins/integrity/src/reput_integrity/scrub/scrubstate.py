"""`ScrubState`: how far a scrub has come, and what it has found; ``<store>/reput/scrub``.

One JSON object. An unusable file is not damage: the scrub begins at the log's beginning.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import attrs

from reput_integrity.findings import SumFinding

if TYPE_CHECKING:
    from reput.files import Disk

FINDINGS_MAX = 1_000
"""Findings that are kept, the oldest ones; others are counted."""
_VERSION = 1
_SIZE_MAX = 8 << 20


@attrs.frozen(kw_only=True)
class ScrubState:
    """A scrub between two reads; times are ms since the epoch."""

    position: int = 0
    """Physical offset at which it goes on."""
    began: int | None = None
    """When the round under way began; None between two rounds."""
    read_size: int = 0
    """Bytes of the log that were read in the round under way, or in the last one."""
    rounds: int = 0
    """Rounds that have ended."""
    last_began: int | None = None
    """When the last round that has ended began."""
    last_ended: int | None = None
    finding_count: int = 0
    """Findings of the round under way, or of the last one."""
    findings: tuple[SumFinding, ...] = ()
    """The first of these."""

    def with_findings(self, found: list[SumFinding]) -> ScrubState:
        """Return the state with more findings."""
        kept = (*self.findings, *found)[:FINDINGS_MAX]
        return attrs.evolve(self, findings=kept, finding_count=self.finding_count + len(found))

    def encode(self) -> bytes:
        """Return the file's bytes."""
        text = json.dumps({"version": _VERSION, **self.to_json()}, ensure_ascii=False, indent=1)
        return text.encode("utf-8", "backslashreplace") + b"\n"

    def to_json(self) -> dict[str, Any]:
        """Return all fields, as JSON can hold them."""
        return attrs.asdict(self)

    @classmethod
    def load(cls, path: str, disk: Disk) -> ScrubState:
        """Read the file; a new state without it, or if it cannot be used."""
        if not disk.exists(path):
            return cls()
        try:
            document = json.loads(disk.read_file(path, _SIZE_MAX))
            if document.pop("version") != _VERSION:
                return cls()
            findings = tuple(SumFinding(**each) for each in document.pop("findings"))
            state = cls(**document, findings=findings)
            numbers = (state.position, state.read_size, state.rounds, state.finding_count)
            times = (state.began, state.last_began, state.last_ended)
            sound = all(type(each) is int and each >= 0 for each in numbers)
            sound &= all(each is None or type(each) is int for each in times)
        except (ValueError, TypeError, KeyError, AttributeError):
            return cls()
        return state if sound else cls()
