"""`FileWatch`: sleeps until another process changes files of a store.

Linux reports writes to files (inotify), but not stores through a map, and nothing of what another
machine does to a shared file system. So a reader looks by itself now and then, too: once a second,
or ten times a second where such looks, and not the reports, have found something.
"""

from __future__ import annotations

import ctypes
import os
import select
import struct
import threading
from functools import cache
from typing import TYPE_CHECKING, Any, Final, Self

if TYPE_CHECKING:
    from collections.abc import Hashable

# <sys/inotify.h>: written, renamed into the directory, created in it, the directory removed.
_MODIFY, _MOVED_TO, _CREATE, _DELETE_SELF = 0x2, 0x80, 0x100, 0x400
_IGNORED: Final = 0x8000  # the watch has ended: its directory was removed, or `remove` ended it
_KINDS: Final = _MODIFY | _MOVED_TO | _CREATE | _DELETE_SELF
_EVENT: Final = struct.Struct("iIII")  # watch, kinds, cookie, size of the name that follows
_READ_SIZE: Final = 1 << 16
_QUIET_SECONDS: Final = 1.0
_LOOK_SECONDS: Final = 0.1


class FileWatch:
    """Waits for changes in directories below one root.

    One thread waits; the other methods may be called by any thread.
    """

    def __init__(self, root: str | os.PathLike[str]) -> None:
        self._root = os.fspath(root)
        self._lock = threading.Lock()
        self._places: dict[Hashable, tuple[str, ...]] = {}
        self._keys: dict[int, set[Hashable]] = {}
        self._watches: dict[Hashable, set[int]] = {}
        self._woken, self._wake = os.pipe()
        os.set_blocking(self._woken, False)
        os.set_blocking(self._wake, False)
        library = _library()
        flags = os.O_CLOEXEC | os.O_NONBLOCK
        self._inotify = -1 if library is None else library.inotify_init1(flags)
        self._poll = select.poll()
        for descriptor in (self._woken, self._inotify):
            if descriptor >= 0:
                self._poll.register(descriptor, select.POLLIN)
        self.interval = _LOOK_SECONDS if self._inotify < 0 else _QUIET_SECONDS
        """Seconds after which a reader should look by itself."""

    def add(self, key: Hashable, *names: str) -> None:
        """Report changes in a directory below the root, or in the nearest one that exists.

        Args:
            key: what `wait` returns.
            names: the steps of the path; nothing happens if ``key`` was added before.
        """
        with self._lock:
            if key not in self._places:
                self._places[key] = names
                self._follow(key)

    def remove(self, key: Hashable) -> None:
        """Report ``key`` no longer; nothing happens if it was not added."""
        with self._lock:
            self._places.pop(key, None)
            for watch in self._watches.pop(key, ()):
                keys = self._keys.get(watch, set())
                keys.discard(key)
                if not keys and self._keys.pop(watch, None) is not None:
                    _library().inotify_rm_watch(self._inotify, watch)

    def _follow(self, key: Hashable) -> None:
        library, names = _library(), self._places[key]
        if library is None or self._inotify < 0:
            return
        for depth in range(len(names), -1, -1):
            path = os.path.join(self._root, *names[:depth])
            watch = library.inotify_add_watch(self._inotify, os.fsencode(path), _KINDS)
            if watch >= 0:
                self._keys.setdefault(watch, set()).add(key)
                self._watches.setdefault(key, set()).add(watch)
                return

    def wait(self, seconds: float) -> set[Hashable]:
        """Wait for a change, for `wake`, or for so many seconds.

        Returns:
            The keys of the changed directories; none after `wake`, or if the time is over, or
            after `remove`.
        """
        self._poll.poll(max(seconds, 0) * 1000)
        try:
            while os.read(self._woken, _READ_SIZE):
                pass
        except BlockingIOError:
            pass
        found = self._changed()
        if found:
            self.interval = _QUIET_SECONDS
        return found

    def found_more(self) -> None:
        """Note that a look found something that was not reported: look more often from now on."""
        self.interval = _LOOK_SECONDS

    def _changed(self) -> set[Hashable]:
        found: set[Hashable] = set()
        if self._inotify < 0:
            return found
        try:
            data = os.read(self._inotify, _READ_SIZE)
        except BlockingIOError:
            return found
        with self._lock:
            position, moved = 0, set()
            while position < len(data):
                watch, kinds, _, size = _EVENT.unpack_from(data, position)
                position += _EVENT.size + size
                keys = self._keys.get(watch, set(self._places) if watch < 0 else set())
                found |= keys
                if kinds & ~_MODIFY:
                    moved |= keys
                if kinds & _IGNORED:
                    self._keys.pop(watch, None)
            for key in moved & self._places.keys():
                self._follow(key)  # a directory nearer to the key may exist now
        return found

    def wake(self) -> None:
        """End the current `wait`, or else the next one."""
        try:
            os.write(self._wake, b"\0")
        except BlockingIOError:
            pass

    def close(self) -> None:
        """Release the descriptors; no other call may be under way, or follow."""
        for descriptor in (self._woken, self._wake, self._inotify):
            if descriptor >= 0:
                os.close(descriptor)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


@cache
def _library() -> Any:
    """Return the system's library if it has inotify; None elsewhere."""
    try:
        library = ctypes.CDLL(None, use_errno=True)
        library.inotify_init1.argtypes = (ctypes.c_int,)
        library.inotify_add_watch.argtypes = (ctypes.c_int, ctypes.c_char_p, ctypes.c_uint32)
        library.inotify_rm_watch.argtypes = (ctypes.c_int, ctypes.c_int)
    except (OSError, AttributeError, TypeError):
        return None
    return library
