"""`StoreContext`: what a plugin may know of its store; `StateNotes`: what it may keep there."""

from __future__ import annotations

import json
import logging
import os
from typing import TYPE_CHECKING, Any, Final, cast

import attrs

from reput.errors import ConfigError, ReadOnlyStoreError
from reput.files.filenames import is_safe_name
from reput.files.jsonfiles import object_of
from reput.files.system.disk import Disk
from reput.log.reader.logview import LogView
from reput.log.timeruns import TimeRuns
from reput.log.writer.queueoffsets import QueueFloors
from reput.plugin.storeaccess import NoStore, StoreAccess

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from reput.log.losses import Loss
    from reput.log.progress import Recorded
    from reput.log.statefile import StateFile

logger = logging.getLogger(__name__)

_NAME_SIZE_MAX: Final = 255  # bytes of the name of a value


class StateNotes:
    """Values that a plugin keeps in the journal of its store's state file.

    A value is a pure function of the log, or it is needed only for speed: it may be lost with the
    file.

    Args:
        plugin: the plugin's name.
        state: the store's state file; None to keep values in this object.
        writable: whether the store is; another process may be writing the file otherwise.
    """

    def __init__(
        self, plugin: str = "", state: StateFile | None = None, *, writable: bool = True
    ) -> None:
        self._prefix = f"{plugin}/"
        self._state = state
        self._writable = writable
        self._own: dict[str, bytes] = {}

    def read(self, name: str) -> bytes:
        """Return a value as this process knows it; empty if it was never noted."""
        if self._state is None:
            return self._own.get(name, b"")
        return self._state.value(self._prefix + name)

    def save(self, name: str, value: bytes, *, adds: bool = False) -> None:
        """Replace a value, or add to its end; on disk when this returns.

        Raises:
            ReadOnlyStoreError: the store was opened to read only.
            ConfigError: ``name`` is too long.
            OSError: it cannot be written; the value is unchanged.
        """
        if not self._writable:
            reason = "it was opened to read only; look at `context.writable` before a note is saved"
            raise ReadOnlyStoreError("store", None, None, reason)
        if len((self._prefix + name).encode()) > _NAME_SIZE_MAX:
            reason = f"with the plugin's name, {name!r} has more than {_NAME_SIZE_MAX} bytes"
            raise ConfigError(self._prefix[:-1], "note", reason)
        if self._state is None:
            self._own[name] = self._own.get(name, b"") + value if adds else value
        else:
            self._state.note({self._prefix + name: value}, adds=adds)

    def read_object(self, name: str) -> dict[str, Any]:
        """Return a value that `save_object` has kept; empty without one, or if it is damaged."""
        try:
            return object_of(self.read(name) or b"{}")
        except ValueError as error:
            logger.warning("note ignored name=%s%s error=%s", self._prefix, name, error)
            return {}

    def save_object(self, name: str, facts: Mapping[str, Any]) -> None:
        """Replace a value by a JSON object; see `save`."""
        self.save(name, json.dumps(facts, separators=(",", ":")).encode())


@attrs.frozen(kw_only=True)
class StoreContext:
    """What the store gives a plugin at opening; one object per plugin and opening."""

    plugin: str
    """Name of the plugin that this context was made for."""
    root: str
    """The store's directory."""
    writable: bool
    """False if the store is open for reading: write nothing, as another process may be writing."""
    clean: bool
    """Whether the last writer closed the store. If false, files may be half-written."""
    log: LogView
    disk: Disk
    clock: Callable[[], int]
    """Returns now, ms since the epoch. Use it instead of the system's: tests pass their own."""
    recovery: str = "reput"
    """The store's option of that name. With ``"rocketmq"`` a plugin keeps the entries of its files
    after ``progress``, up to the end of the log, as RocketMQ does. With ``"reput"`` it removes
    them, because their messages are dispatched again."""
    replica: bool = False
    """Whether the store is a replica, whose messages all come from its master: put nothing
    (`store.put_many` raises `reput.errors.ReplicaError`), and do no work that leads to puts. After
    a promotion, the next opening is without this flag."""
    default_queue_count: int = 4
    """The store's option of that name: queues of a topic that no plugin knows."""
    grows: bool = False
    """Whether the store's files grow (the option ``grows`` of the log): make the plugin's files
    small, too. The last file of a run may then be shorter than the others."""
    light_queues: bool = False
    """Whether the store has light queues (its option ``max_light_queues``): a plugin that keeps
    queues lists messages in the light queues that they name."""
    batch_topics: frozenset[str] = frozenset()
    """Topics that had batch queues at opening: a unit of such a queue leads to a record of one
    message or of several."""
    sizes_from: str = ""
    """Directory of the store whose files are being rebuilt elsewhere: new files take the sizes of
    that store's files. Empty when nothing is rebuilt."""
    recorded: Callable[[], Recorded | None] = attrs.field(default=lambda: None, repr=False)
    """Reads the recorded progress from disk, so that a reader notices when a writer in another
    process rebuilds the files. None if no progress is recorded."""
    queue_floors: QueueFloors = attrs.field(factory=QueueFloors, repr=False)
    """Next queue offsets of queues whose messages the log has lost. A plugin that keeps queue
    offsets records them here before it cuts or removes a queue's files."""
    time_runs: TimeRuns = attrs.field(factory=TimeRuns, repr=False)
    """Where store times of the log go back. A plugin that searches by time notes them here."""
    notes: StateNotes = attrs.field(factory=StateNotes, repr=False)
    """Keeps values of the plugin in the store's state file, for facts too small for a file."""
    store: StoreAccess = attrs.field(factory=lambda: cast(StoreAccess, NoStore()), repr=False)
    """Reads queues and puts messages; see `StoreAccess` for the hooks that may use it."""
    note_loss: Callable[[Loss], None] = attrs.field(default=lambda loss: None, repr=False)
    """Notes messages that the plugin's files have and the log has lost, once, in the store's
    ledger. Call it before the files are cut. A read-only store keeps it in memory only."""
    note_problem: Callable[[str], None] = attrs.field(default=lambda text: None, repr=False)
    """Adds a text, which begins with a file's path, to `reput.Store.problems` of a read-only store:
    the plugin ignores the file because it cannot be read. Call it in `reput_open` or
    `reput_recover`. Does nothing in a writable store, where the plugin logs a warning."""
    lower_progress: Callable[[int], None] = attrs.field(default=lambda offset: None, repr=False)
    """Records durably that the plugin needs the messages from a physical offset on. Call it in
    `reput_recover` before you remove entries below ``progress``: otherwise a kill before the hook
    returns loses these messages. Does nothing in a read-only store."""
    lower_checkpoint: Callable[..., None] = attrs.field(default=lambda **most: None, repr=False)
    """Lowers times of the checkpoint durably: arguments have the names of its fields
    (``index_timestamp``). Call it in `reput_recover` before you change files that end before the
    present time: otherwise a kill before the next flush leaves a time by which RocketMQ dispatches
    too little again. Does nothing in a read-only store."""
    wake: Callable[[], None] = attrs.field(default=lambda: None, repr=False)
    """Has the plugin's `reput_work` called soon. Cheap, from any thread."""
    renew_interest: Callable[[], None] = attrs.field(default=lambda: None, repr=False)
    """Has the store read `Plugin.put_interest` again, before it returns. From any thread."""
    hide_light_queues: Callable[[Mapping[str, int]], None] = attrs.field(
        default=lambda ends: None, repr=False
    )
    """Names all light queues that are deleted, with their next queue offsets: one that still ends
    there does not count for ``max_light_queues``. From any thread, but not inside of a put."""

    def directory(self, *names: str) -> str:
        """Return a path below the store's root; refuse names that would lead out of it.

        Raises:
            ConfigError: a name that is empty, ``.`` or ``..``, or holds a separator or NUL.
        """
        for name in names:
            if not is_safe_name(name):
                raise ConfigError(self.plugin, "directory", f"{name!r} would leave the store")
        return os.path.join(self.root, *names)
