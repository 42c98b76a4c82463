"""`MemberListFile`: the members of a store's groups, in a file that its writer leaves for readers.

The file is JSON, written by the process that has the store open to write: when it has opened it,
and when members come or go or share queues out again. Members are sorted by group and client id;
``queues`` is null where the process does not know them::

    {
        "pid": 4711,
        "complete": true,
        "members": [
            {
                "group": "billing",
                "member": "127.0.0.1@4711#1",
                "since": 1700000000000,
                "broadcast": false,
                "topics": ["%RETRY%billing", "orders"],
                "queues": {"orders": [0, 1]},
                "pops": false,
            }
        ],
        "out": [["invoices", "orders", 0, 3, 1700000000000]],
    }

``out`` lists what groups that pop were handed and have not acknowledged: group, topic, queue id,
how many messages, and since when.

A kill leaves a whole file, old or new. After a power cut it may hold anything, but then nobody
believes it: it counts only while the process that it names has the store open, and if it is newer
than the store's file ``lock``, which is written at opening. So nothing here waits for the disk.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import threading
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Final, TypeGuard

import attrs

from reput_consumer.memberlist.snapshot import GroupMember, MemberList
from reput_consumer.pop.receipthandles import UnackedMessage

if TYPE_CHECKING:
    from reput.files import Disk
    from reput.plugin import StoreContext

logger = logging.getLogger(__name__)

_DIRECTORY: Final = ("reput", "consumer")
_FILE_NAME: Final = "members.json"
_SIZE_MAX: Final = 16 << 20
"""Bytes of a file, half for members: some 50,000. More are left out, and the file says so."""
_INTERVAL_MS: Final = 500
"""Time between two writes, so that a thousand members that join together are not a thousand."""
_AGAIN_MS: Final = 5_000
_COUNT_END: Final = 1 << 48  # of times, ms, and queue ids


@attrs.define(eq=False, repr=False)
class MemberListFile:
    """Writes the file when something has changed, and reads that of another process. Thread-safe.

    The content belongs to other objects, which return it when the file is written.
    """

    context: StoreContext
    _due: int | None = attrs.field(init=False, default=None)
    """When the file is to be written, ms; None while it says what is."""
    _earliest: int = attrs.field(init=False, default=0)
    """When it may be written next, ms."""
    _lock: threading.Lock = attrs.field(init=False, factory=threading.Lock)

    @property
    def path(self) -> str:
        """Path of the file."""
        return os.path.join(self.context.directory(*_DIRECTORY), _FILE_NAME)

    # ------------------------------------------------------------------ of the writer

    def begin(self) -> None:
        """Replace the file of a process that was killed: there is no member yet.

        Raises:
            OSError: it cannot be written, so neither can anything else of the store.
        """
        self.remove()
        self._write(_encoded((), ()))
        with self._lock:
            self._earliest = self.context.clock() + _INTERVAL_MS

    def note_change(self) -> None:
        """Have the file written soon; cheap, from any thread, also under its locks."""
        if not self.context.writable:
            return
        with self._lock:
            if self._due is not None:
                return
            self._due = max(self.context.clock(), self._earliest)
        self.context.wake()

    def work(
        self,
        now: int,
        members: Callable[[], Iterable[GroupMember]],
        out: Callable[[], Iterable[UnackedMessage]],
    ) -> int | None:
        """Write the file if it is time for that; return when to be called again, ms, or None."""
        with self._lock:
            if self._due is None or self._due > now:
                return self._due
            self._due = None  # before the members are read: a change meanwhile is a new one
            self._earliest = now + _INTERVAL_MS
        try:
            self._write(_encoded(members(), out()))
        except OSError as error:
            logger.warning("members not told to other processes: %s", error)
            with self._lock:
                self._due = self._earliest = now + _AGAIN_MS
        with self._lock:
            return self._due

    def _write(self, data: bytes) -> None:
        disk, path = self.context.disk, self.path
        # Durable, unlike the file: other files of the plugin are in it, and survive a power cut.
        disk.make_directory(os.path.dirname(path), durable=True)
        fresh = f"{path}.new"
        descriptor = disk.create_fresh(fresh)
        try:
            disk.write(descriptor, data, 0)
        finally:
            disk.close(descriptor)
        disk.rename(fresh, path)

    def remove(self) -> None:
        """Remove the file of this process, or of one that was killed, as far as that works."""
        for path in (self.path, f"{self.path}.new"):
            with contextlib.suppress(OSError):  # nobody believes what is left
                if self.context.disk.exists(path):
                    self.context.disk.remove(path)
        with contextlib.suppress(OSError):  # broadcasting members keep their offsets there
            self.context.disk.remove_directory(os.path.dirname(self.path))

    # ------------------------------------------------------------------ of readers

    def read(self) -> MemberList:
        """Return the members of the process that has the store open to write."""
        from reput.storefiles import StoreLock

        context = self.context
        lock = StoreLock(context.directory("lock"), context.root, context.disk)
        if not lock.is_taken():
            return MemberList(None, is_known=True, is_complete=True, members=())
        pid = lock.holder()
        try:
            if pid is None or not self._is_of_this_opening():
                raise ValueError("written by a process that is gone")
            found = _decoded(self.context.disk.read_file(self.path, _SIZE_MAX + 1), pid)
        except (OSError, ValueError) as error:
            logger.debug("members of the writer not known: %s: %s", self.path, error)
            return MemberList(pid, is_known=False, is_complete=False, members=())
        return found

    def _is_of_this_opening(self) -> bool:
        disk: Disk = self.context.disk
        opened = disk.modified_ms(self.context.directory("lock"))
        return disk.modified_ms(self.path) >= opened


def _encoded(members: Iterable[GroupMember], out: Iterable[UnackedMessage]) -> bytes:
    """Return the file's bytes; the last members are left out where there are too many."""
    shown = (json.dumps(_entry(each)) for each in members)
    entries, are_all = _within(shown, _SIZE_MAX // 2)
    lent = (json.dumps(attrs.astuple(each)) for each in out)
    out_entries, is_all_out = _within(lent, _SIZE_MAX // 2 - 100)
    is_complete = are_all and is_all_out
    head = f'{{"pid":{os.getpid()},"complete":{json.dumps(is_complete)},"members":['
    return (head + ",".join(entries) + '],"out":[' + ",".join(out_entries) + "]}").encode()


def _within(entries: Iterable[str], size_max: int) -> tuple[list[str], bool]:
    """Return the entries that have space in so many characters, and whether these are all."""
    found: list[str] = []
    size = 0
    for entry in entries:
        size += len(entry) + 1
        if size > size_max:
            return found, False
        found.append(entry)
    return found, True


def _entry(member: GroupMember) -> dict[str, Any]:
    queues: dict[str, list[int]] | None = None
    if member.queues is not None:
        queues = {}
        for topic, queue_id in member.queues:
            queues.setdefault(topic, []).append(queue_id)
    return {
        "group": member.group,
        "member": member.member,
        "since": member.since_timestamp,
        "broadcast": member.broadcast,
        "topics": member.topics,
        "queues": queues,
        "pops": member.pops,
        "subscriptions": member.subscriptions,
    }


def _decoded(data: bytes, pid: int) -> MemberList:
    """Return what a file says.

    Raises:
        ValueError: it is none, or that of another process.
    """
    try:
        document = json.loads(data)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error
    if not isinstance(document, dict) or document.get("pid") != pid:
        raise ValueError("not written by the process that has the store open")
    members = document.get("members")
    if not isinstance(members, list):
        raise ValueError("members: a list expected")
    found = sorted(map(_member, members), key=lambda each: (each.group, each.member))
    is_complete = document.get("complete") is True
    out = document.get("out", [])
    if not isinstance(out, list):
        raise ValueError("out: a list expected")
    lent = tuple(sorted(map(_out, out), key=lambda each: (each.group, each.topic, each.queue_id)))
    return MemberList(pid, is_known=True, is_complete=is_complete, members=tuple(found), out=lent)


def _out(entry: object) -> UnackedMessage:
    if not isinstance(entry, list) or len(entry) != 5:
        raise ValueError(f"an entry of popped messages expected, found {entry!r:.100}")
    group, topic, *numbers = entry
    if not (isinstance(group, str) and isinstance(topic, str) and all(map(_is_count, numbers))):
        raise ValueError(f"an entry of popped messages expected, found {entry!r:.100}")
    return UnackedMessage(group, topic, *numbers)


def _member(entry: object) -> GroupMember:
    if not isinstance(entry, dict):
        raise ValueError(f"a member expected, found {entry!r:.100}")
    group, member, topics = entry.get("group"), entry.get("member"), entry.get("topics")
    since, broadcast = entry.get("since"), entry.get("broadcast")
    if not (
        isinstance(group, str)
        and isinstance(member, str)
        and isinstance(topics, list)
        and all(isinstance(each, str) for each in topics)
        and _is_count(since)
        and isinstance(broadcast, bool)
    ):
        raise ValueError(f"a member expected, found {entry!r:.100}")
    queues = _queues(entry.get("queues"))
    pops, texts = entry.get("pops") is True, entry.get("subscriptions", [])
    if not isinstance(texts, list) or not all(isinstance(each, str) for each in texts):
        raise ValueError(f"a member expected, found {entry!r:.100}")
    return GroupMember(group, member, since, broadcast, tuple(topics), queues, pops, tuple(texts))


def _is_count(value: object) -> TypeGuard[int]:
    return type(value) is int and 0 <= value < _COUNT_END


def _queues(entry: object) -> tuple[tuple[str, int], ...] | None:
    if entry is None:
        return None
    found = []
    for topic, ids in entry.items() if isinstance(entry, dict) else [("", None)]:
        if not isinstance(ids, list) or not all(map(_is_count, ids)):
            raise ValueError(f"queues of a member expected, found {entry!r:.100}")
        found += [(topic, each) for each in ids]
    return tuple(sorted(found))
