"""Which directories are not opened as stores, and what brokers keep that reput does not write.

A tool that makes a store step by step, as a repair does, puts the file ``unfinished`` beside the
parts. Until it is removed nothing opens the directory as a store.

`BROKER_FILES` is the one table of brokers' files; ``docs/compatibility.md`` shows it. Its texts
have words of RocketMQ, the code has none: a row is a name to look for, and what its presence means.
The table is in the core, not in plugins, as a directory must be refused also where a plugin is not
installed.

An opening looks at the names in the directory, and in few directories below it, before it writes a
byte. A name that no row has is left as it is: brokers ignore files that they do not know, too.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import stat
from typing import TYPE_CHECKING, Final

import attrs

from reput.errors import EXPECTED, StoreNotFoundError, UnsupportedFilesError
from reput.files.filenames import OWN_DIRECTORY, is_safe_name, is_system_name
from reput.files.system.disk import Disk
from reput.log.reader.ledgerfiles import why_not_written

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

UNFINISHED: Final = "unfinished"
"""Name of the file, below the directory. Its first line says what to do, for people."""
_UNFINISHED_SIZE_MAX: Final = 4096

_OWN: Final = frozenset({"abort", "checkpoint", "config", "lock", OWN_DIRECTORY})
"""What a store may have before it has a log: what an opening leaves that was killed, and settings
of RocketMQ that were put there for a new store; each also while it is being replaced. Files derived
from a log are not among them: where these are, a log is missing."""
_SHOWN: Final = 3

LEDGER: Final = "dledger"
"""Kind of the files in which DLedger keeps a log, which reput appends to if they allow it."""
_READ: Final = "read it here, or export its messages to a new store"


@attrs.frozen(kw_only=True)
class BrokerFiles:
    """A row of the table: files that a broker with certain options keeps."""

    kind: str
    """A word for programs."""
    folder: str
    """Regular expression of a name in the store's directory."""
    entry: str = ""
    """Regular expression of a name in there, one of which is enough; empty if ``folder`` counts by
    itself."""
    within: str = ""
    """Name of a file that a directory ``entry`` must hold to count."""
    is_file: bool = False
    """Whether only a regular file counts: a queue's directory may have the same name."""
    is_filled: bool = False
    """Whether only a regular file that is not empty counts."""
    what: str
    """Names the files, for people."""
    harm: str = ""
    """What a write would do; empty for files beside which reput may write."""
    unseen: str = ""
    """What a reader does not show; empty if it shows all."""
    step: str = ""
    """What can be done in place of writing."""


BROKER_FILES: Final = (
    BrokerFiles(
        kind="batch-queues",
        folder="batchconsumequeue",
        entry=".*",
        what="queues of another kind than config/topics.json states (queue.type=BatchCQ)",
        harm="the broker does not start with them, and a write would go to the wrong files",
        unseen="reading by topic shows none of their messages",
        step=f"restore config/topics.json, or {_READ} by scanning the log",
    ),
    BrokerFiles(
        kind="batch-topics",
        folder="config",
        entry=r"topics\.json",
        is_file=True,
        what="topics with batch queues (queue.type=BatchCQ)",
    ),
    BrokerFiles(
        kind=LEDGER,
        folder="dledger-.*",
        entry="data|index|currterm|checkpoint",
        what="a log of DLedger",
        harm="only puts write there: they append entries, if the group has one node",
        step="write with the broker, or make a plain store by `reput convert`; reading works",
    ),
    BrokerFiles(
        kind="rocksdb-queues",
        folder="consumequeue|consumequeue_rocksdb",
        entry="CURRENT",
        is_file=True,
        what="queues in RocksDB (storeType=defaultRocksDB)",
        harm="the broker's readers would stop for ever at the first message of a write",
        unseen="",
        step="make a plain store by `reput convert`; reading works",
    ),
    BrokerFiles(
        kind="rocksdb-data",
        folder="rocksdbstore",
        entry=r"\d+\.(?:sst|log)",
        is_filled=True,
        what="timers, transactions or keys in RocksDB (timerRocksDBEnable, transRocksDBEnable, "
        "indexRocksDBEnable)",
        harm="the broker would deliver timers twice, and not find keys of what was written",
        unseen="timers, open transactions and keys that only RocksDB has are not shown",
        step="write with the broker; reading messages works",
    ),
    BrokerFiles(
        kind="wheel-snapshots",
        folder=r"timerwheel\.\d+",
        what="snapshots of the timer wheel (timerWheelSnapshotFlush)",
        step="reput replaces them by the wheel's file when it writes",
    ),
    BrokerFiles(
        kind="rocksdb-tables",
        folder="config",
        entry="topics|subscriptionGroups|consumerOffsets|metadata|rdb",
        within="CURRENT",
        is_file=True,
        what="settings in RocksDB (configManagerVersion=v1 or configManagerVersion=v2)",
        step="make a plain store by `reput convert`",
    ),
    BrokerFiles(
        kind="rocksdb-settings",
        folder="config",
        entry=r"(?!(?:topics|subscriptionGroups|consumerOffsets|metadata|rdb)$)[^.]+",
        within="CURRENT",
        is_file=True,
        what="settings in RocksDB of an unknown kind",
        unseen="topics, groups and their offsets that only RocksDB has are not shown",
        step="ask the broker, or RocketMQ's admin tool, for groups and offsets",
    ),
)
"""All that reput knows of and does not write, in the order of its check."""

KNOWN_NAMES: Final = frozenset(
    {
        OWN_DIRECTORY,
        "abort",
        "abort.bak",
        "batchconsumequeue",
        "brokerIdentity",
        "brokerIdentity.bak",
        "checkpoint",
        "commitlog",
        "compaction",
        "config",
        "consumequeue",
        "consumequeue_ext",
        "consumequeue_rocksdb",
        "epochFileCheckpoint",
        "epochFileCheckpoint.bak",
        "index",
        "kvStore",
        "lock",
        "rocksdbstore",
        "timercheckpoint",
        "timerlog",
        "timermetrics",
        "timerwheel",
        "transaction",
    }
)
"""Names that reput and RocketMQ use in a store's directory, beside those of plugins."""

_TOPICS_SIZE_MAX: Final = 64 << 20
_BATCH_TOPIC: Final = re.compile(rb"""queue\.type["']?\s*:\s*["']?BatchCQ""")
"""An attribute of a topic, also in a file that is damaged elsewhere."""
_QUEUES: Final = "batch-queues"
_TOPICS: Final = "batch-topics"
_FOLDERS: Final = [(re.compile(each.folder).fullmatch, each) for each in BROKER_FILES]
_ENTRIES: Final = {each.kind: re.compile(each.entry).fullmatch for each in BROKER_FILES}


@attrs.frozen
class FoundFiles:
    """Files of a broker that a directory holds."""

    row: BrokerFiles
    path: str
    """One of the files, relative to the store's directory."""
    topics: frozenset[str] = frozenset()
    """The topics, if the row is about topics."""

    @property
    def problem(self) -> str:
        """What a reader must know."""
        return f"{self.path}: {self.row.what}: {self.row.unseen}"

    def why_refused(self, root: str, disk: Disk) -> str:
        """Return why reput does not write beside the files; empty if it does."""
        if self.row.kind != LEDGER:
            return self.row.harm
        return why_not_written(root, self.path.partition(os.sep)[0], disk)


def is_known_name(name: str) -> bool:
    """Whether reput or a broker uses a name in a store's directory; of plugins, only RocketMQ's."""
    return name in KNOWN_NAMES or any(matches(name) for matches, _ in _FOLDERS)


def find_broker_files(
    root: str,
    disk: Disk,
    names: Iterable[str],
    pass_over: Callable[[OSError], None] | None = None,
) -> list[FoundFiles]:
    """Return which rows of the table a directory has, each once; reads only.

    Args:
        root: the store's directory, absolute.
        disk: bound to it.
        names: the names in it.
        pass_over: called with each error, for who must see the other rows in any case; without
            it, the first error is raised.

    Raises:
        UnsafePathError: one of the directories is a link.
        OSError: a directory cannot be read.
    """
    found: list[FoundFiles] = []
    has_batches = False
    for name in names:
        for matches, row in _FOLDERS:
            if matches(name) is not None:
                try:
                    path = _first(root, disk, name, row) if row.entry else name
                except OSError as error:
                    if pass_over is None:
                        raise
                    pass_over(error)
                    continue
                if path is not None:
                    found.append(FoundFiles(row, path))
                    has_batches = has_batches or row.kind in (_QUEUES, _TOPICS)
    if has_batches:
        try:
            return _with_batches(root, disk, found)
        except OSError as error:
            if pass_over is None:
                raise
            pass_over(error)
    return found


def batch_topics(root: str, disk: Disk) -> frozenset[str] | None:
    """Return the topics that have batch queues; None if their table cannot be understood.

    Args:
        root: the store's directory.
        disk: bound to it.
    """
    path, data = os.path.join(root, "config", "topics.json"), None
    with contextlib.suppress(IsADirectoryError, NotADirectoryError):
        data = disk.read_if_exists(path, _TOPICS_SIZE_MAX)
    if data is None or _BATCH_TOPIC.search(data) is None:
        return frozenset()
    try:
        table = json.loads(data)["topicConfigTable"]
        return frozenset(
            name
            for name, about in table.items()
            if (about.get("attributes") or {}).get("queue.type") == "BatchCQ"
        )
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None


def _with_batches(root: str, disk: Disk, found: list[FoundFiles]) -> list[FoundFiles]:
    """Return ``found`` with what the kinds of queues in a directory are, by its table of topics."""
    topics = batch_topics(root, disk)
    others = [each for each in found if each.row.kind not in (_QUEUES, _TOPICS)]
    wrong = ["config/topics.json"] if topics is None else []
    plain = [f"consumequeue/{topic}" for topic in sorted(topics or ()) if is_safe_name(topic)]
    wrong += [path for path in plain if disk.exists(os.path.join(root, path))]
    if any(each.row.kind == _QUEUES for each in found):
        names = disk.list_names(os.path.join(root, "batchconsumequeue"))
        strays = (name for name in names if name not in (topics or ()) and not is_system_name(name))
        wrong += [f"batchconsumequeue/{name}" for name in strays]
    rows = {each.kind: each for each in BROKER_FILES}
    if wrong:
        others.append(FoundFiles(rows[_QUEUES], wrong[-1]))
    if topics:
        others.append(FoundFiles(rows[_TOPICS], "config/topics.json", topics))
    return others


def holds_sized_files(root: str, disk: Disk, names: Collection[str]) -> bool:
    """Whether a program has made files whose sizes a store must keep."""
    if "commitlog" in names and disk.list_names(os.path.join(root, "commitlog")):
        return True
    # A broker that has stored nothing yet has only files of these names.
    traces = {"abort", "checkpoint", "config"} if OWN_DIRECTORY not in names else set()
    return not {"consumequeue", "index", *traces}.isdisjoint(names)


def refuse_broker_files(
    root: str, disk: Disk, names: Iterable[str], *, appends: bool = False
) -> tuple[str | None, frozenset[str]]:
    """Raise if a directory holds files beside which reput must not write.

    Args:
        root: the store's directory, absolute.
        disk: bound to it.
        names: the names in it.
        appends: whether the caller appends to the log, and so to one that DLedger keeps.

    Returns:
        The name of the folder in which DLedger keeps the log, None without one; and the topics
        that have batch queues.

    Raises:
        UnsupportedFilesError: it names all of them; nothing was changed.
    """
    refused = ledger = None
    topics: frozenset[str] = frozenset()
    for each in find_broker_files(root, disk, names):
        reason = each.why_refused(root, disk) if appends else each.row.harm
        if reason:
            refused = [*(refused or ()), (each, reason)]
        elif each.row.kind == LEDGER:
            ledger = each.path.partition(os.sep)[0]
        topics |= each.topics
    if refused is not None:
        what = "; ".join(f"{each.path}: {each.row.what}" for each, _ in refused)
        first, reason = refused[0]
        raise UnsupportedFilesError(root, what, reason, first.row.step)
    return ledger, topics


def _first(root: str, disk: Disk, folder: str, row: BrokerFiles) -> str | None:
    """Return the relative path of the first file of ``row`` in ``folder``; None without one."""
    directory = os.path.join(root, folder)
    if row.entry.isalnum():
        # One name: a directory of many entries, which an ordinary store has, is not listed.
        if not disk.exists(os.path.join(directory, row.entry)):
            return None
        names = [row.entry]
    else:
        try:
            names = disk.list_names(directory)
        except NotADirectoryError:
            return None
    for name in names:
        if _ENTRIES[row.kind](name) is not None:
            path = (
                os.path.join(folder, name, row.within) if row.within else os.path.join(folder, name)
            )
            if _counts(os.path.join(root, path), disk, row):
                return path
    return None


def _counts(path: str, disk: Disk, row: BrokerFiles) -> bool:
    """Whether a file with a name of ``row`` is such a file."""
    if not disk.exists(path):
        return False
    if not (row.is_file or row.is_filled):
        return True
    about = disk.status(path)
    if not stat.S_ISREG(about.st_mode) or (row.is_filled and not about.st_size):
        return False
    return row.kind != _TOPICS or (
        _BATCH_TOPIC.search(disk.read_file(path, _TOPICS_SIZE_MAX)) is not None
    )


# --------------------------------------------------------------------------- no stores


def refuse_other_files(root: str, names: Iterable[str]) -> None:
    """Raise if ``root``, which holds no log, holds files that are not a new store's.

    Names of `is_system_name` do not count: people call directories with such names empty.

    Raises:
        StoreNotFoundError: there are such files; nothing was changed.
    """
    others = [name for name in names if not _is_ignored(name)]
    if others:
        more = ", …" if len(others) > _SHOWN else ""
        raise StoreNotFoundError(
            root,
            f"{EXPECTED}; no store is created here, as the directory holds other files "
            f"({', '.join(map(repr, others[:_SHOWN]))}{more}): name a new or an empty directory, "
            'or create the directory "commitlog" in this one first',
        )


def _is_ignored(name: str) -> bool:
    return name.removesuffix(".new") in _OWN or is_system_name(name)


def refuse_unfinished(root: str, disk: Disk | None = None) -> None:
    """Raise if a tool has not finished the store at ``root``.

    Args:
        root: the directory, absolute.
        disk: bound to it; the system's when left out.

    Raises:
        StoreNotFoundError: with the file's first line.
    """
    path = os.path.join(root, UNFINISHED)
    disk = disk or Disk().at(root)
    try:
        text = disk.read_if_exists(path, _UNFINISHED_SIZE_MAX)
    except PermissionError as error:
        # The first file of a directory that is looked for; its name would lead astray.
        raise PermissionError(error.errno, error.strerror, root) from error
    if text is None:
        return
    reason = (
        text.decode("utf-8", "replace").partition("\n")[0]
        or "a tool has begun to make it, and has not finished"
    )
    raise StoreNotFoundError(root, f"the store is not finished: {reason}")
