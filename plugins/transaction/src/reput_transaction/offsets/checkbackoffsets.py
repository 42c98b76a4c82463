"""`CheckBackOffsets`: the progress of RocketMQ's check-back, in the file where RocketMQ keeps it.

The file is the broker's, and holds the offsets of all groups. It is written only if this plugin has
ended transactions in the store, and never if it cannot be read.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import attrs

from reput.files import Disk
from reput_tools.brokerfiles import BrokerDocument
from reput_transaction.offsets.offsetfile import HALF_KEY, OP_KEY, check, fill_in, offset_in

DIRECTORY: Final = "config"
FILE_NAME: Final = "consumerOffset.json"


@attrs.define(eq=False, repr=False)
class CheckBackOffsets:
    """The two offsets of the group ``CID_RMQ_SYS_TRANS``."""

    directory: str
    disk: Disk
    clock: Callable[[], int]
    half_offset: int | None = None
    """H: below it every half message is finished; None if the file does not state it."""
    op_offset: int | None = None
    """O: op messages below it are no longer needed."""
    note_problem: Callable[[str], None] = lambda text: None
    """Called for a file that exists but says nothing."""
    document: BrokerDocument = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self.document = BrokerDocument(
            self.directory, FILE_NAME, self.disk, self.clock, self.note_problem, check
        )

    def load(self) -> None:
        """Read both offsets, of the backup if the file is damaged."""
        document = self.document.read()
        self.half_offset = offset_in(document, HALF_KEY)
        self.op_offset = offset_in(document, OP_KEY)

    def finish_replacing(self, *, flush: bool) -> None:
        """Finish or undo a save that a crash has interrupted; see `Disk.finish_replacing`."""
        self.document.finish_replacing(flush=flush)

    def save(self, half_offset: int, op_offset: int) -> bool:
        """Save both offsets if they have changed, and return whether the file was written.

        Raises:
            OSError: the file cannot be written, or cannot be read, and so is left alone.
        """
        if (half_offset, op_offset) == (self.half_offset, self.op_offset):
            return False
        offsets = {HALF_KEY: half_offset, OP_KEY: op_offset}
        was_written = self.document.change(lambda document: fill_in(document, offsets))
        self.half_offset, self.op_offset = half_offset, op_offset
        return was_written
