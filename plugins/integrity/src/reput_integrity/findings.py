"""`SumFinding`: what a comparison of the log with its sums has found."""

from __future__ import annotations

from typing import Any

import attrs


@attrs.frozen(kw_only=True)
class SumFinding:
    """One difference between the log and the sums of its records; plain values, which pickle."""

    kind: str
    """``"record"``: a record's bytes are not those that were summed. ``"missing"``: the log does
    not have the bytes. ``"damage"``: no sound record stands there. ``"uncovered"``: records have no
    sum. ``"sums"``: the file of sums is damaged."""
    physical_offset: int
    """Of the first record concerned."""
    size: int
    """Bytes of the log concerned."""
    path: str
    """Damaged file, relative to the store's directory."""
    position: int
    """File position, bytes."""
    expected: str
    found: str
    origin: str = "unknown"
    """``"written"``: the sum was made when the record was written. ``"later"``: it was made from
    what was read then. ``"unknown"``: nobody knows."""
    made: int | None = None
    """When the sum was made, ms, if that was later."""
    topic: str | None = None
    """Topic as the damaged record has it, None if it is unreadable; likewise the next three."""
    queue_id: int | None = None
    queue_offset: int | None = None
    key: str | None = None

    @property
    def is_damage(self) -> bool:
        """Whether messages may be lost; if not, only the means to notice it are missing."""
        return self.kind in ("record", "missing", "damage")

    def to_json(self) -> dict[str, Any]:
        """Return all fields, as JSON can hold them."""
        return attrs.asdict(self)

    def __str__(self) -> str:
        queue = ""
        if self.topic is not None:
            queue = f", {self.topic} queue {self.queue_id} offset {self.queue_offset}"
        where = f"{self.path}, byte {self.position}{queue}"
        return f"{where}: {_WORDS[self.kind]} (expected {self.expected}, found {self.found})"


_WORDS = {
    "record": "the record is not what was summed",
    "missing": "the record is gone",
    "damage": "no sound record",
    "uncovered": "records without a sum",
    "sums": "the file of sums is damaged",
}
