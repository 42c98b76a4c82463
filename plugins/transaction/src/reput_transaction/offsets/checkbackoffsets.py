"""`CheckBackOffsets`: the progress of RocketMQ's check-back, in the file where RocketMQ keeps it.

The file is the broker's, and holds the offsets of all groups. It is written only if this plugin has
ended transactions in the store, and never if it cannot be read.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from typing import Final

import attrs

from reput.errors import CorruptFileError
from reput.files import Disk, brokerjson
from reput_transaction.offsets.offsetfile import (
    HALF_KEY,
    OP_KEY,
    encode_offsets,
    offset_of,
    parse_offsets,
    with_offsets,
)

logger = logging.getLogger(__name__)

__all__ = ["CheckBackOffsets"]

DIRECTORY: Final = "config"
FILE_NAME: Final = "consumerOffset.json"


@attrs.define(eq=False)
class CheckBackOffsets:
    """The two offsets of the group ``CID_RMQ_SYS_TRANS``."""

    directory: str
    disk: Disk
    half_offset: int | None = None
    """H: below it every half message is finished; None if the file does not state it."""
    op_offset: int | None = None
    """O: op messages below it are no longer needed."""
    is_readable: bool = True
    """Whether the file may be written. False if it exists and cannot be read."""
    note_problem: Callable[[str], None] = lambda text: None
    """Called for a file that exists but says nothing."""

    @property
    def path(self) -> str:
        """Path of the file."""
        return os.path.join(self.directory, FILE_NAME)

    def load(self) -> None:
        """Read both offsets; if the file is damaged, leave it alone and read its backup."""
        self.half_offset = self.op_offset = None
        self.is_readable = True
        for path in (self.path, brokerjson.backup_of(self.path)):
            if not self.disk.exists(path):
                continue
            try:
                data = self.disk.read_file(path)
                if not data.strip():
                    self.note_problem(f"{path}: empty, and ignored")
                    continue  # an empty file counts as missing, as in RocketMQ
                document = parse_offsets(data, path)
            except (OSError, CorruptFileError) as error:
                logger.warning("offsets of transactions not known, nor written: %s", error)
                self.note_problem(f"{error}; it is ignored")
                self.is_readable = False
                continue
            self.half_offset = offset_of(document, HALF_KEY)
            self.op_offset = offset_of(document, OP_KEY)
            return

    def finish_replacing(self, *, flush: bool) -> None:
        """Finish or undo a save that a crash has interrupted; see `Disk.finish_replacing`."""
        self.disk.finish_replacing(self.directory, FILE_NAME, flush=flush)

    def save(self, half_offset: int, op_offset: int, now: int) -> bool:
        """Save both offsets if they have changed, and return whether the file was written.

        Raises:
            OSError: the file cannot be written.
            CorruptFileError: the file was damaged since it was read.
        """
        if not self.is_readable or (half_offset, op_offset) == (self.half_offset, self.op_offset):
            return False
        with brokerjson.changing():  # the plugin `consumer` writes offsets of other groups
            data = self.disk.read_file(self.path) if self.disk.exists(self.path) else b""
            document = parse_offsets(data, self.path) if data.strip() else {}
            changed = with_offsets(document, {HALF_KEY: half_offset, OP_KEY: op_offset}, now)
            self.disk.make_directory(self.directory, durable=True)  # others rely on its name
            self.disk.replace(self.path, encode_offsets(changed))
        self.half_offset, self.op_offset = half_offset, op_offset
        return True
