"""`RepairPlan`: what a repair of one store does."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

import attrs

from reput.log import CUT, FILLED, CheckedRanges, Loss
from reput_tools.doctor.checksumcoverage import coverage_of

if TYPE_CHECKING:
    from reput_tools.doctor.repair.brokerconfigrepair import ConfigFile
    from reput_tools.doctor.repair.fieldrepair import FieldRepair
    from reput_tools.doctor.repair.loglayout import LogLayout, Notice
    from reput_tools.doctor.repair.lostmessages import LostPart
    from reput_tools.doctor.repair.recordsearch import RecordSearch
    from reput_tools.doctor.repair.storeplugins import StorePlugins

_NO_DAMAGE: Final = frozenset({"plugin.missing", "checkpoint.missing"})


@attrs.frozen(kw_only=True, eq=False)
class RepairPlan:
    """What a repair of a store does."""

    root: str
    layout: LogLayout
    plugins: StorePlugins
    searched: RecordSearch
    lost: tuple[LostPart, ...]
    """Damaged parts of the log before its end, which are filled."""
    cut: tuple[LostPart, ...]
    """What stood after the log's end, or queues led to there; ``kept`` copies have its bytes."""
    gone: tuple[Loss, ...]
    """Messages that only queues know, whose bytes the log does not have."""
    head: Loss | None
    """What the log has lost before its first file; None if nothing is known to be."""
    mends: tuple[FieldRepair, ...]
    notices: tuple[Notice, ...]
    """Files that are not taken over as they are, but for the log's content."""
    misplaced: tuple[str, ...]
    """Paths of directories, pipes and devices in place of files, which are left out."""
    config: tuple[ConfigFile, ...]
    queue_floors: Mapping[tuple[str, int], int]
    """Queue offsets below which none is given again, of queues whose last messages are lost."""
    known_losses: tuple[Loss, ...]
    """The ledger of the store, as far as it can be read."""
    was_closed: bool
    checksummed: int
    """Messages with a checksum of all bytes of their records."""
    filler_count: int
    """Records of the log that take the place of lost ones."""
    checked: CheckedRanges
    """Ranges of the log in which each record has such a checksum."""

    @property
    def not_covered(self) -> str:
        """Which bytes of the log no checksum covers, as a sentence."""
        return coverage_of(self.searched.message_count, self.checksummed, has_sums=False)

    @property
    def lost_config(self) -> tuple[ConfigFile, ...]:
        """Files of ``config/`` that cannot be read, and are left out or come from a backup."""
        return tuple(each for each in self.config if not each.is_readable)

    @property
    def is_log_sound(self) -> bool:
        """Whether nothing of the log and its files changes."""
        changes = self.lost or self.cut or self.gone or self.mends or self.head
        return not changes and self.layout.is_tidy

    @property
    def has_losses(self) -> bool:
        """Whether bytes of the log, or messages that only queues know, are lost."""
        return bool(self.lost_message_count or self.lost or self.cut or self.head)

    @property
    def is_needed(self) -> bool:
        """Whether anything is wrong beside derived files, which are compared by rebuilding them."""
        found = any(each.kind not in _NO_DAMAGE for each in self.notices)
        return found or not self.is_log_sound or not self.was_closed

    @property
    def message_count(self) -> int:
        """Messages of the log that can be read, without the records that fill losses."""
        return self.searched.message_count - self.filler_count

    @property
    def size(self) -> int:
        """Bytes of the log that are kept."""
        return self.searched.end_offset - self.searched.start_offset

    @property
    def lost_message_count(self) -> int:
        """Messages that are lost, as far as known."""
        parts = sum(each.message_count or 0 for each in (*self.lost, *self.cut))
        return parts + sum(
            each.queue_end_offset - each.queue_offset
            for each in self.gone
            if each.queue_end_offset is not None and each.queue_offset is not None
        )


def loss_of(part: LostPart, *, is_filled: bool, kept: str = "") -> Loss:
    """Return the ledger's entry for a lost part."""
    loss = Loss.of(part, FILLED if is_filled else CUT)
    return attrs.evolve(loss, kept=kept, keys=part.keys)
