"""Opens a store as readers do, and asks for one message of each queue and of each index file.

Plugins read their files that no rebuild makes, entry by entry.

Other checks read files by themselves, with options that are known to work. A store that no reader
can open, or whose reads fail, is not healthy.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

import reput
from reput.errors import (
    CorruptFileError,
    NoReaderError,
    ReputError,
    UnsafePathError,
    UnsupportedFilesError,
)
from reput.record import java_string_hash
from reput_tools.doctor.findings import NotChecked, Severity, finding_of_file
from reput_tools.offline import offline_hooks

if TYPE_CHECKING:
    from reput import QueueInfo, Store
    from reput.record import MessageView
    from reput_tools.doctor.findings import Findings
    from reput_tools.doctor.verification.directorysurvey import Survey

_SECOND: Final = 1000
_TRIES: Final = 100  # items of which the message is looked for
_ADVICE: Final = "see to the reason, and verify again"


def check_opening(
    surveyed: Survey,
    findings: Findings,
    not_checked: list[NotChecked],
    *,
    config: Mapping[str, Mapping[str, Any]],
    asks: bool,
    was_closed: bool,
) -> None:
    """Open a store as a reader does, and read from it.

    Args:
        surveyed: the store.
        findings: is added to.
        not_checked: is added to.
        config: options of plugins, on top of the recorded ones.
        asks: whether to ask for messages; not while a writer changes the files.
        was_closed: whether the last writer closed the store: otherwise files may end with entries
            that no reader finds yet.
    """
    follows = surveyed.disk.follows_links
    try:
        with reput.open(surveyed.root, "r", config=config, follow_links=follows) as store:
            if asks:
                _ask(store, surveyed, findings, was_closed=was_closed)
    except (UnsafePathError, UnsupportedFilesError) as error:  # other checks report them
        not_checked.append(NotChecked("store", f"it was not opened as a reader does: {error}"))
    except (ReputError, OSError) as error:
        _add(findings, "store.unreadable", "store", _file_of(error, surveyed), error)


def wrong_entries(store: Store) -> Iterator[tuple[str, Exception]]:
    """Yield plugins of a store that is open for reading, and what is wrong with their files.

    A plugin that cannot look at its files is among them.
    """
    for state in store.plugins():
        try:
            hooks = offline_hooks(state.name, store.plugin(state.name))
            for wrong in hooks.reput_tools_wrong_entries() or ():
                yield state.name, wrong
        except (ReputError, OSError) as error:
            yield state.name, error


def _ask(store: Store, surveyed: Survey, findings: Findings, *, was_closed: bool) -> None:
    for name, wrong in wrong_entries(store):
        _add(findings, "store.entry", name, _file_of(wrong, surveyed), wrong)
    for queue in _queues(store):
        if queue.max_queue_offset <= queue.min_queue_offset:
            continue
        file = f"queue {queue.topic}/{queue.queue_id}"
        try:
            found = store.read(queue.topic, queue.queue_id, queue.min_queue_offset, 1).messages
            if was_closed and not found:
                raise LookupError(f"no message at queue offset {queue.min_queue_offset}")
        except (ReputError, OSError, LookupError) as error:
            _add(findings, "store.queue", "store", _file_of(error, surveyed) or file, error)
    for message, key in _keys(store, surveyed):
        time = message.store_timestamp
        try:
            found = store.query(message.topic, key, time - _SECOND, time + _SECOND, 1).messages
            if was_closed and not found:
                raise LookupError(f"no message of topic {message.topic} with the key {key!r}")
        except NoReaderError:
            return
        except (ReputError, OSError, LookupError) as error:
            _add(findings, "store.key", "store", _file_of(error, surveyed) or "index", error)


def _queues(store: Store) -> list[QueueInfo]:
    try:
        return store.queues()
    except NoReaderError:
        return []


def _keys(store: Store, surveyed: Survey) -> Iterator[tuple[MessageView, str]]:
    """Yield a message, and a key of it, of each part of the files that list keys."""
    for state in store.plugins():
        hooks = offline_hooks(state.name, store.plugin(state.name))
        for hints in hooks.reput_tools_hints(root=surveyed.root, disk=surveyed.disk) or ():
            if hints.key_hash is None:
                break
            there = hints.physical_offset >= store.log.min_physical_offset
            offsets = hints.physical_offset[there][:_TRIES].tolist()
            for offset, key_hash in zip(offsets, hints.key_hash[there].tolist(), strict=False):
                message = None
                with contextlib.suppress(ReputError):
                    message = store.get(offset)
                keys = () if message is None else (*message.keys, message.unique_key)
                named = [key for key in keys if key and _hash(message, key) == key_hash]
                if message is not None and named:
                    yield message, named[0]
                    break


def _hash(message: MessageView | None, key: str) -> int:
    topic = "" if message is None else message.topic
    return abs(java_string_hash(f"{topic}#{key}"))


def _file_of(error: Exception, surveyed: Survey) -> str:
    path = str(error.path) if isinstance(error, CorruptFileError) else ""
    return path.removeprefix(surveyed.root).lstrip("/")


def _add(findings: Findings, kind: str, part: str, file: str, error: Exception) -> None:
    findings.add(
        finding_of_file(
            Severity.DAMAGE,
            kind,
            part,
            file or "store",
            str(error),
            "what a store gives that is opened for reading",
            _ADVICE,
        )
    )
