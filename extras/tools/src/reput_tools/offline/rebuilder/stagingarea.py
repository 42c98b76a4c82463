"""`StagingArea`: the directory in which a rebuild makes files before they get into the store.

It is on the store's file system, so that the files can be renamed into place. A check makes files
only to compare them: where the store cannot be written, it makes them in a temporary directory.
"""

from __future__ import annotations

import logging
import os
import tempfile
import uuid
from typing import TYPE_CHECKING

from reput.errors import UnsafePathError
from reput.files import OWN_DIRECTORY, is_read_only

if TYPE_CHECKING:
    from reput.files import Disk

logger = logging.getLogger(__name__)


class StagingArea:
    """The files of one rebuild, until `clear`.

    Args:
        root: the store's directory.
        disk: bound to it.
        is_check: whether the files are only compared with those of the store.
        is_local: whether all that is made is made on this machine.

    Attributes:
        directory: where the files of all rebuilds are.
        own: directory of this rebuild. The name is unique: an attempt that outlives its rebuild
            writes where no other process reads.
        scratch: directory that has them, outside of the store; empty if the store has them.
        disk: reaches the store, and the files.

    Raises:
        OSError: the store cannot be written.
    """

    def __init__(self, root: str, disk: Disk, *, is_check: bool, is_local: bool) -> None:
        self.root = root
        self.disk = disk
        self.scratch = ""
        self._elsewhere: tempfile.TemporaryDirectory[str] | None = None
        self._is_check = is_check
        self.directory = os.path.join(root, OWN_DIRECTORY, "rebuild")
        self._around = (self.directory, os.path.join(root, OWN_DIRECTORY))
        self._kept = {path for path in self._around if disk.exists(path)}
        if is_check:
            self._make(is_local=is_local)
        else:
            self._sweep()
        self.own = os.path.join(self.directory, uuid.uuid4().hex)

    def clear(self) -> None:
        """Remove what this rebuild has made; a check leaves what others have made there."""
        if self._elsewhere is not None:
            self.disk.release()
            self._elsewhere.cleanup()
            return
        if not self._is_check:
            self._sweep()
            return
        self.disk.remove_tree(self.own)
        for path in self._around:
            # A writer may have come meanwhile and use the directory.
            if path not in self._kept and self.disk.exists(path) and not self.disk.list(path):
                self.disk.remove_directory(path)

    def _make(self, *, is_local: bool) -> None:
        probe = os.path.join(self.directory, uuid.uuid4().hex)  # the directory may exist
        try:
            self.disk.make_directory(probe)
            self.disk.remove_directory(probe)
        except OSError as error:
            if not (is_local and is_read_only(error)):
                raise
            self._elsewhere = tempfile.TemporaryDirectory(
                prefix="reput-rebuild-", ignore_cleanup_errors=True
            )
            self.scratch = self.directory = self._elsewhere.name
            self.disk = self.disk.at(
                self.root, follow_links=self.disk.follows_links, scratch=self.scratch
            )

    def _sweep(self) -> None:
        """Remove what this rebuild, or an earlier one that was killed, has left."""
        try:
            self.disk.remove_tree(self.directory)
        except UnsafePathError:
            raise
        except OSError as error:
            # An attempt on another machine may still be writing there. No other process reads it,
            # and an error of the rebuild itself must not be hidden by this one.
            logger.warning(
                "left for the next rebuild to remove directory=%s error=%s", self.directory, error
            )
