"""Every error that reput raises on purpose.

An error has its facts as attributes, in the order of its positional arguments, so that it pickles.
"""

from __future__ import annotations

import errno
import os
from typing import Any, Final

import attrs

from reput.installhints import install_command, install_extra
from reput.status import PutStatus

__all__ = [
    "EXPECTED",
    "CodecNotFoundError",
    "ConfigError",
    "CorruptFileError",
    "CreateMappedFileError",
    "DiskFrozenError",
    "DiskFullError",
    "FlushDiskTimeoutError",
    "ForkedStoreError",
    "KernelError",
    "LightQueueCountError",
    "MessageIllegalError",
    "MessageTooLargeError",
    "NoReaderError",
    "NotAFileError",
    "NotReplicaError",
    "OffsetOutOfRangeError",
    "PluginError",
    "PluginFlushError",
    "PluginNotFoundError",
    "PluginOrderError",
    "PropertiesSizeError",
    "PutError",
    "ReadOnlyStoreError",
    "ReplicaError",
    "ReputError",
    "ResourceLimitError",
    "ServiceNotAvailableError",
    "StoreClosedError",
    "StoreLockedError",
    "StoreNotFoundError",
    "UnpackError",
    "UnsafePathError",
    "UnsupportedFilesError",
    "expected_at",
]


class ReputError(Exception):
    """Base of every error raised by reput and its plugins.

    Without slots, which cannot be combined with the built-in errors that several subclasses are.
    """


# --------------------------------------------------------------------------- configuration


@attrs.define(eq=False, repr=False, slots=False)
class ConfigError(ReputError, ValueError):
    """An unknown option, or a value that the option does not allow."""

    section: str
    option: str
    reason: str
    known: tuple[str, ...] = ()

    def __str__(self) -> str:
        if self.option == "(file)":
            return f"{self.section}: {self.reason}"
        is_section = self.option == "(section)"
        place = f"[{self.section}]" if is_section else f"[{self.section}] {self.option}"
        text = f"{place}: {self.reason}"
        if not self.known:
            return text
        import difflib  # only for errors

        word = self.section if is_section else self.option
        near = difflib.get_close_matches(word, self.known, n=1)
        meant = f"; did you mean {near[0]!r}?" if near else ";"
        return f"{text}{meant} known: {', '.join(self.known)}"


@attrs.define(eq=False, repr=False, slots=False)
class PluginError(ReputError):
    """A plugin cannot be used."""

    plugin: str
    reason: str

    def __str__(self) -> str:
        return f"plugin {self.plugin!r}: {self.reason}"


class PluginNotFoundError(PluginError):
    """A plugin that a store names is not installed."""


class PluginOrderError(PluginError):
    """The declared order of plugins has a cycle, or a required plugin is not active."""


class PluginFlushError(PluginError):
    """A plugin's files could not be brought to disk in time; everything else is on disk."""


# --------------------------------------------------------------------------- files and life cycle


EXPECTED: Final = 'the store does not exist: a store is a directory that holds "commitlog"'
"""Reason of a `StoreNotFoundError` for a directory that does not exist."""
_NOT_A_STORE: Final = 'this directory is not a store: a store holds "commitlog"; check the path'


def expected_at(path: str) -> str:
    """Return the reason of a `StoreNotFoundError` for a path that is not a store."""
    return _NOT_A_STORE if os.path.isdir(path) else EXPECTED


@attrs.define(eq=False, repr=False, slots=False)
class StoreNotFoundError(ReputError, FileNotFoundError):
    """A directory holds no store, and none is created there."""

    path: str
    reason: str

    def __str__(self) -> str:
        step = '; mode="w" creates it' if self.reason == EXPECTED else ""
        return f"{self.path}: {self.reason}{step}"


@attrs.define(eq=False, repr=False, slots=False)
class ResourceLimitError(ReputError, OSError):
    """A store is not opened, as the process may have no more memory, threads or descriptors."""

    path: str
    reason: str
    number: int
    """Of the system's error, as attribute ``errno``, too."""

    def __attrs_post_init__(self) -> None:
        self.errno = self.number

    def __str__(self) -> str:
        return (
            f"{self.path}: not opened, because the process reached a limit: {self.reason}. Raise "
            "the limit of address space (ulimit -v), threads (-u) or descriptors (-n); files of "
            "the log are mapped as a whole"
        )


@attrs.define(eq=False, repr=False, slots=False)
class StoreLockedError(ReputError):
    """Another writer has the store; a store has one writer at a time."""

    path: str
    holder_pid: int | None
    reason: str = ""
    """Why the writer still holds the store after closing it; empty while the store is open."""

    def __str__(self) -> str:
        holder = "another process" if self.holder_pid is None else f"process {self.holder_pid}"
        if self.reason:
            return (
                f"{self.path}: the store was closed by {holder}, but {self.reason}; it can be "
                "written again when that has returned, or when that process has ended"
            )
        return (
            f"{self.path}: the store is being written by {holder}; "
            'close that one, or open this one with mode="r"; several processes can put through '
            "`reput serve`, with the client"
        )


@attrs.define(eq=False, repr=False, slots=False)
class UnsupportedFilesError(ReputError):
    """A broker keeps files in the directory that a write would contradict; nothing was changed."""

    path: str
    found: str
    """The files, relative to `path`, and their kinds."""
    reason: str
    """What a write would do."""
    step: str
    """What can be done instead."""

    def __str__(self) -> str:
        return (
            f"{self.path}: not opened for writing, and nothing was changed: found {self.found}; "
            f"{self.reason}. Instead: {self.step}"
        )


@attrs.define(eq=False, repr=False, slots=False)
class UnsafePathError(ReputError, OSError):
    """A link, a pipe or a path leads out of the store; nothing was read or changed."""

    path: str
    found: str
    advice: str

    def __attrs_post_init__(self) -> None:
        self.errno = errno.ELOOP
        self.filename = self.path

    def __str__(self) -> str:
        text = f"{self.path}: {self.found}"
        return f"{text}; {self.advice}" if self.advice else text


@attrs.define(eq=False, repr=False, slots=False)
class NotAFileError(ReputError, IsADirectoryError):
    """A directory has the name of a file of the store; nothing in it was read or changed."""

    path: str

    def __attrs_post_init__(self) -> None:
        self.errno, self.strerror = errno.EISDIR, os.strerror(errno.EISDIR)
        self.filename = self.path

    def __str__(self) -> str:
        step = "move it away, and put the file back if there was one"
        return f"{self.path}: a directory is in place of a file; {step}"


@attrs.define(eq=False, repr=False, slots=False)
class DiskFrozenError(ReputError, OSError):
    """The store's files may not be changed any more, for instance after the store was closed."""

    path: str
    reason: str

    def __attrs_post_init__(self) -> None:
        self.errno = errno.EROFS  # no `filename`: with it, an error of two facts pickles wrong

    def __str__(self) -> str:
        return f"{self.path}: nothing is changed any more: {self.reason}"


@attrs.define(eq=False, repr=False, slots=False)
class CorruptFileError(ReputError):
    """Bytes on disk contradict the format; reading on would return wrong messages."""

    path: str
    position: int  # file position, bytes
    reason: str

    def __str__(self) -> str:
        return f"{self.path}, byte {self.position}: {self.reason}"


@attrs.define(eq=False, repr=False, slots=False)
class OffsetOutOfRangeError(ReputError, LookupError):
    """A physical offset that the log does not hold (trimmed, or not written yet)."""

    physical_offset: int
    min_physical_offset: int
    max_physical_offset: int
    reason: str = "the log does not hold it"

    def __str__(self) -> str:
        return (
            f"physical offset {self.physical_offset}: {self.reason}; the log holds "
            f"[{self.min_physical_offset}, {self.max_physical_offset})"
        )


@attrs.define(eq=False, repr=False, slots=False)
class NotReplicaError(ReputError):
    """A call that only a replica answers, or a store that cannot become a replica."""

    path: str
    reason: str

    def __str__(self) -> str:
        return f"{self.path}: {self.reason}"


# --------------------------------------------------------------------------- reading


@attrs.define(eq=False, repr=False, slots=False)
class NoReaderError(ReputError):
    """No active plugin can answer a read."""

    operation: str
    plugin: str
    """A plugin that answers it."""
    step: str = ""
    """How to use it, if it is installed."""

    def __str__(self) -> str:
        step = self.step or (
            f"install the plugin {self.plugin}, {install_command(self.plugin)}, and open the store "
            "with it"
        )
        return f"no active plugin answers {self.operation}; {step}"


@attrs.define(eq=False, repr=False, slots=False)
class KernelError(ReputError):
    """A compiled kernel has failed in itself: a mistake in it, and nothing that the caller did."""

    kernel: str
    reason: str

    def __str__(self) -> str:
        return (
            f"kernel {self.kernel}: {self.reason}; this is a bug of reput-native, please report "
            "it. REPUT_ENGINE=python does without"
        )


# --------------------------------------------------------------------------- bodies


@attrs.define(eq=False, repr=False, slots=False)
class UnpackError(ReputError, ValueError):
    """A compressed body cannot be unpacked; as stored it can be read all the same."""

    compression: str
    reason: str

    def __str__(self) -> str:
        return f"a body compressed with {self.compression} cannot be unpacked: {self.reason}"


class CodecNotFoundError(UnpackError):
    """A library that unpacks such bodies is not installed."""

    def __str__(self) -> str:
        return f"{super().__str__()}; {install_extra('core', 'compression')}"


# --------------------------------------------------------------------------- puts, one per status


@attrs.define(eq=False, repr=False, slots=False)
class PutError(ReputError):
    """A put failed; `status` is RocketMQ's word for the reason.

    The first `stored_count` messages of the put are in the log all the same: putting them again
    would store them twice.
    """

    field: str
    value: object
    limit: object
    reason: str

    status = PutStatus.UNKNOWN_ERROR
    stored_count: int = attrs.field(init=False, default=0)
    """How many messages of the put are stored; these are the first ones."""
    stored: Any = attrs.field(init=False, default=None)
    """Their `reput.BatchReceipt`; None if none is stored, and in an unpickled error."""

    def __str__(self) -> str:
        text = f"{self.status.name}: {self.field}: {self.reason}"
        if self.limit is not None:
            text += f" (limit {self.limit}, found {self.value})"
        elif self.value is not None:
            text += f" (found {self.value!r})"
        return text

    def __reduce__(self) -> tuple[Any, ...]:
        # A receipt knows its store, which no other process can use.
        return type(self), self.args, {**self.__dict__, "stored": None}


class MessageIllegalError(PutError, ValueError):
    """A field of a message breaks the format or a rule of RocketMQ."""

    status = PutStatus.MESSAGE_ILLEGAL


class MessageTooLargeError(MessageIllegalError):
    """A body or a whole record exceeds its limit (append status ``MESSAGE_SIZE_EXCEEDED``)."""


class PropertiesSizeError(PutError, ValueError):
    """The encoded properties exceed 32,767 bytes, the most that their length field can hold."""

    status = PutStatus.PROPERTIES_SIZE_EXCEEDED


class ServiceNotAvailableError(PutError):
    """The store takes no puts now: it is closed, or writing failed before."""

    status = PutStatus.SERVICE_NOT_AVAILABLE


@attrs.define(eq=False, repr=False, slots=False)
class DiskFullError(ServiceNotAvailableError, OSError):
    """The disk is fuller than the configuration allows; puts work again when it is less full."""

    def __attrs_post_init__(self) -> None:
        self.errno = errno.ENOSPC  # code that waits while a disk is full treats this alike


class ReadOnlyStoreError(ServiceNotAvailableError):
    """The store was opened with ``mode="r"``."""


class ReplicaError(ServiceNotAvailableError):
    """The store is a replica: its messages come from its master, until it is promoted."""


@attrs.define(eq=False, repr=False, slots=False)
class StoreClosedError(ServiceNotAvailableError):
    """The store was closed before this call."""

    path: str
    # Facts of a `PutError`, the same every time.
    field: str = attrs.field(init=False, default="store")
    value: object = attrs.field(init=False, default=None)
    limit: object = attrs.field(init=False, default=None)
    reason: str = attrs.field(init=False, default="it is closed; open it again")

    def __str__(self) -> str:
        return f"{self.path}: the store is closed; open it again"


@attrs.define(eq=False, repr=False, slots=False)
class ForkedStoreError(StoreClosedError):
    """A forked child called a store that its parent opened."""

    opener_pid: int
    child_pid: int

    def __str__(self) -> str:
        return (
            f"{self.path}: process {self.opener_pid} opened the store, and this is its forked "
            f"child {self.child_pid}, which cannot use it; open it again here "
            '(mode="r" while the other one writes), or start the child with "spawn"'
        )


class CreateMappedFileError(PutError, OSError):
    """The log could not get more space or its next file, mostly for want of space."""

    status = PutStatus.CREATE_MAPPED_FILE_FAILED

    def __str__(self) -> str:
        return f"{self.status.name}: {self.value}: {self.reason}"


class FlushDiskTimeoutError(PutError, TimeoutError):
    """The message is stored, but was not on disk within the time allowed."""

    status = PutStatus.FLUSH_DISK_TIMEOUT


class LightQueueCountError(PutError):
    """A put would create more light queues (``%LMQ%…``) than the configuration allows."""

    status = PutStatus.LMQ_CONSUME_QUEUE_NUM_EXCEEDED
