r"""`StoreLock`: the writer's lock on a store, and which process holds it.

The lock is the operating system's, on the first byte of the file ``lock``, where RocketMQ takes its
lock, too. It belongs to the open file and not to the process (`Disk.lock`), so that reading the
file in the writer's process, to copy the store, does not release it. The system does not say which
process holds such a lock, so the holder writes this into the file, after RocketMQ's four letters:

    LOCK <process id> <when the process began>\n

The text counts only while the lock is held and such a process exists. A second line says why the
lock is still held after the store was closed (`StoreLock.keep`).

RocketMQ writes its letters in lower case, over whatever stands there, each time that it opens a
store. A writer of reput writes them in upper case once its own notes describe the store
(`StoreLock.sign`). So letters in upper case say that reput was the last to write the store, also
after a crash; a program that copies, rebuilds or inspects a store leaves them as they are.

Source: RocketMQ ``DefaultMessageStore#start``, which takes the lock and writes the letters.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, TypeVar

import attrs

from reput.errors import StoreLockedError
from reput.files.system.directorytree import is_read_only
from reput.files.system.filelock import OPEN_FILE
from reput.log.reader.logend import Writer
from reput.signalsafe import new_lock

if TYPE_CHECKING:
    from reput.files.system.disk import Disk

_Answer = TypeVar("_Answer")
_LETTERS: Final = b"lock"
_SIGNED: Final = b"LOCK"
_TEXT: Final = " {pid:>10} {began:>20}\n"  # always of one size, to overwrite an older text
_TEXT_SIZE: Final = len(_LETTERS) + len(_TEXT.format(pid=0, began=0))
_PATTERN: Final = re.compile(rb"(?:lock|LOCK) +(\d+) +(\d+)\n(.*)", re.DOTALL)
_REASON_SIZE: Final = 1_000  # bytes, at most

# On a system whose locks belong to processes, a second opener in the same process would get the
# lock, too; so locks are noted here. This is the only state that all stores of a process share.
_held_here: dict[tuple[int, int], StoreLock] = {}
_held_lock = new_lock()


@attrs.define(eq=False, repr=False)
class StoreLock:
    """The writer's lock on a store."""

    path: str
    root: str
    disk: Disk
    reason: str = ""
    """Why the lock is still held after the store was closed."""
    _descriptor: int = -1
    _identity: tuple[int, int] | None = None
    _is_signed: bool = False
    """What the letters say while this lock is held: nobody else writes them then."""

    def acquire(self, *, writes: bool = True) -> None:
        """Take the lock.

        Args:
            writes: whether to write the holder into the file; if false, the file must exist, and
                permission to read it is enough: then the lock keeps writers out, and others that
                only read may share it.

        Raises:
            StoreLockedError: a writer has the store, in this process or another.
        """
        identity = self.disk.identity(self.root)
        with _held_lock:
            # Checked first: if locks belong to processes, closing any descriptor of the file would
            # release the lock of a store that is open in this process.
            if identity in _held_here:
                raise StoreLockedError(self.root, os.getpid(), _held_here[identity].reason)
            lock = self.disk.lock
            try:
                descriptor = self.disk.open(self.path, create=writes, write=True)
            except OSError as error:
                if writes or not is_read_only(error):
                    raise
                descriptor, lock = self.disk.open(self.path), self.disk.lock_shared
            try:
                if not lock(descriptor):
                    raise StoreLockedError(self.root, *self._holder(descriptor))
                self._is_signed = self._has_signature(descriptor)
                if writes:
                    pid = os.getpid()
                    text = _TEXT.format(pid=pid, began=_began(pid) or 0)
                    letters = _SIGNED if self._is_signed else _LETTERS
                    self.disk.write(descriptor, letters + text.encode(), 0)
                    if self.disk.size(descriptor) > _TEXT_SIZE:
                        self.disk.truncate(descriptor, _TEXT_SIZE)  # an older holder's reason
            except BaseException:
                self.disk.close(descriptor)
                raise
            _held_here[identity] = self
            self._descriptor, self._identity = descriptor, identity

    @property
    def is_signed(self) -> bool:
        """Whether reput was the last to write the store, as far as the file shows."""
        if self._descriptor >= 0:
            return self._is_signed
        return self._ask(
            self._has_signature, lambda held: held._descriptor >= 0 and held._is_signed, False
        )

    def sign(self) -> None:
        """Write that reput writes the store, whose notes describe it; on disk when this returns."""
        if not self._is_signed:
            self.disk.write(self._descriptor, _SIGNED, 0)
            self.disk.flush(self._descriptor)
            self._is_signed = True

    def _has_signature(self, descriptor: int) -> bool:
        return self.disk.read(descriptor, len(_SIGNED), 0) == _SIGNED

    def is_taken(self) -> bool:
        """Whether a writer has the store, in this process or another; changes nothing."""
        return self._ask(
            lambda descriptor: self.disk.lock_owner(descriptor) is not None,
            lambda held: True,
            False,
        )

    def writer(self) -> Writer:
        """Return which program has the store open to write; changes nothing.

        RocketMQ's lock belongs to its process, and the system knows which. reput's belongs to an
        open file; if the system has no such locks, the text in the file names the process.
        """

        def writer_of(descriptor: int) -> Writer:
            owner = self.disk.lock_owner(descriptor)
            if owner is None:
                return Writer.NONE
            said = self._said(descriptor)
            is_named = owner > 0 and said is not None and int(said[1]) == owner
            return Writer.REPUT if owner == OPEN_FILE or is_named else Writer.OTHER

        try:
            return self._ask(writer_of, lambda held: Writer.REPUT, Writer.NONE)
        except OSError:
            return Writer.OTHER  # not known

    def holder(self) -> int | None:
        """Return the process that holds the lock; None if it is free or not known."""

        def holder_of(descriptor: int) -> int | None:
            is_locked = self.disk.lock_owner(descriptor) is not None
            return self._holder(descriptor)[0] if is_locked else None

        return self._ask(holder_of, lambda held: os.getpid(), None)

    def _ask(
        self, ask: Callable[[int], _Answer], here: Callable[[StoreLock], _Answer], missing: _Answer
    ) -> _Answer:
        """Return what ``ask`` says of the file's descriptor; ``missing`` if there is no file.

        If this process holds the lock, ``here`` answers without the file: closing any descriptor of
        it might release the lock.
        """
        with _held_lock:
            held = _held_here.get(self.disk.identity(self.root))
            if held is not None:
                return here(held)
            try:
                descriptor = self.disk.open(self.path)
            except (FileNotFoundError, NotADirectoryError):
                return missing
            try:
                return ask(descriptor)
            finally:
                self.disk.close(descriptor)

    def keep(self, reason: str) -> None:
        """Keep the lock after the store was closed, and write the reason into the file."""
        self.reason = reason
        with contextlib.suppress(OSError):  # a full disk: other processes do not learn the reason
            self.disk.write(self._descriptor, reason.encode()[:_REASON_SIZE], _TEXT_SIZE)

    def release(self) -> None:
        """Release the lock, if it is held."""
        with _held_lock:
            if self._identity is not None:
                _held_here.pop(self._identity, None)
                descriptor, self._descriptor, self._identity = self._descriptor, -1, None
                # The system's own call, with no call before it: Ctrl-C in between would lose the
                # descriptor without closing it, and so keep the lock.
                os.close(descriptor)

    def _holder(self, descriptor: int) -> tuple[int | None, str]:
        """Return the process that holds the lock, None if not known, and the reason in the file."""
        owner = self.disk.lock_owner(descriptor)
        pid = owner if owner is not None and owner > 0 else None
        said = self._said(descriptor)
        if said is None or pid not in (None, int(said[1])):
            return pid, ""  # the text is an older holder's
        return int(said[1]), said[3].decode(errors="replace")

    def _said(self, descriptor: int) -> re.Match[bytes] | None:
        """Return what the file says of its holder, if there is such a process."""
        said = _PATTERN.match(self.disk.read(descriptor, _TEXT_SIZE + _REASON_SIZE, 0))
        return said if said is not None and _began(int(said[1])) == int(said[2]) else None

    def _leave_to_parent(self) -> None:
        # Closed by the system's own call, and not unlocked: parent and child share the open file,
        # and its lock, which is released with the last descriptor.
        os.close(self._descriptor)
        self._descriptor, self._identity = -1, None


def _began(pid: int) -> int | None:
    """Return when a process began, in the system's ticks, to distinguish processes of one number.

    Returns:
        0 if the system does not say; None if there is no such process.
    """
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            # The second field is a name in parentheses, which may hold anything.
            return int(file.read().rpartition(b")")[2].split()[19])
    except (OSError, ValueError, IndexError):
        pass
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return None
    except (OSError, OverflowError):
        pass  # another user's process
    return 0


def _forked() -> None:
    """In a forked child, give up the parent's locks, which would else outlive the parent."""
    global _held_lock
    _held_lock = new_lock()  # the old one may be held by a thread that the child does not have
    held = list(_held_here.values())
    _held_here.clear()
    for lock in held:
        lock._leave_to_parent()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)
