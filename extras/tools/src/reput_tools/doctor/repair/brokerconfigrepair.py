"""Plans what becomes of ``config/``: damaged JSON comes from its backup, offsets stay in bounds.

RocketMQ keeps a broker's topics, groups and consumer offsets in ``config/*.json``, each with the
version before it in ``*.json.bak``. An offset beyond the end of its queue would make a consumer
skip messages that are still to come.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import attrs

from reput_tools.brokerfiles import backup_of, encode, object_of, offset_of
from reput_tools.brokerfiles.contents import wrong_content
from reput_tools.doctor.repair.loglayout import Notice
from reput_tools.doctor.settingsnames import is_known_setting, wrong_rows
from reput_tools.doctor.verdict import places_lost

if TYPE_CHECKING:
    from reput.files import Disk

_SIZE_MAX: Final = 64 << 20
_SCHEDULE_TOPIC: Final = "SCHEDULE_TOPIC_XXXX"


@attrs.frozen
class ConfigFile:
    """A file of ``config/`` that is changed, or cannot be read."""

    name: str
    """Below ``config/``."""
    data: bytes | None
    """What it holds afterwards; None if it stays as it is, as it cannot be read."""
    notice: Notice
    is_readable: bool = True
    """Whether the file itself could be read; if not, its backup is used, or it stays as it is."""


def plan_config(
    root: str, disk: Disk, queue_ends: Mapping[tuple[str, int], int]
) -> list[ConfigFile]:
    """Return the files of ``config/`` that are changed.

    Args:
        root: the store's directory.
        disk: the store's disk.
        queue_ends: the next queue offset of each queue.
    """
    directory = os.path.join(root, "config")
    entries = {entry.name: entry for entry in disk.list(directory) if _is_file(entry)}
    names = [name for name in entries if name.endswith(".json") and is_known_setting(name)]
    # A file of which only the backup is left.
    names += [
        name.removesuffix(".bak")
        for name in entries
        if name.endswith(".json.bak") and is_known_setting(name)
        if name.removesuffix(".bak") not in entries
    ]
    planned = []
    for name in sorted(names):
        found = _planned(disk, directory, name, queue_ends, is_there=name in entries)
        if found is not None:
            planned.append(found)
    return planned


def _is_file(entry: Any) -> bool:
    try:
        return bool(entry.is_file())
    except OSError:
        return False


def _planned(
    disk: Disk,
    directory: str,
    name: str,
    queue_ends: Mapping[tuple[str, int], int],
    *,
    is_there: bool,
) -> ConfigFile | None:
    path, shown = os.path.join(directory, name), f"config/{name}"
    document, what = _read(disk, path, name)
    if document is not None and (wrong := wrong_rows(name, document)) is not None:
        spare, _ = _read(disk, backup_of(path), name)
        if spare is not None and wrong_rows(name, spare) is None:  # else the rest is kept
            document, what = None, f"has {wrong}"
    data, notice, is_readable = None, None, document is not None
    if document is None:
        backup = backup_of(path)
        document, _ = _read(disk, backup, name)
        what = what if is_there else "is missing"
        if document is None:
            text = f"it {what}, and its backup cannot be read; it is taken over as it is: "
            text += places_lost(name)
            return ConfigFile(name, None, Notice(shown, "config.lost", text), is_readable=False)
        data = disk.read_file(backup, _SIZE_MAX)
        text = f"it {what}; its backup {name}.bak takes its place, which may be older"
        notice = Notice(shown, "config.backup", text)
    clamped = _clamp(name, document, queue_ends)
    if clamped:
        data = encode(document)
        shown_ones = ", ".join(clamped[:5]) + (", …" if len(clamped) > 5 else "")
        text = f"{len(clamped)} offsets point beyond the end of their queue: {shown_ones}"
        text += "; they are put to the end"
        before = f"{notice.text}; " if notice is not None else ""
        notice = Notice(shown, "config.offset-beyond", before + text)
    if notice is None:
        return None
    return ConfigFile(name, data, notice, is_readable=is_readable)


def _read(disk: Disk, path: str, name: str) -> tuple[dict[str, Any] | None, str]:
    """Return a document, or None and why it is not one of that name."""
    try:
        document = object_of(disk.read_file(path, _SIZE_MAX))
    except (FileNotFoundError, IsADirectoryError, ValueError):
        return None, "is not valid JSON"
    wrong = wrong_content(name, document)
    return (document, "") if wrong is None else (None, f"is not such a document ({wrong})")


def _clamp(
    name: str, document: dict[str, Any], queue_ends: Mapping[tuple[str, int], int]
) -> list[str]:
    """Put offsets beyond the end of their queue to that end, in ``document``; return which."""
    table = document.get("offsetTable")
    if not isinstance(table, dict):
        return []
    changed: list[str] = []
    if name == "consumerOffset.json":
        for group, queues in table.items():
            if isinstance(queues, dict):
                topic = group.partition("@")[0]
                changed += _clamp_queues(queues, topic, queue_ends, group, shift=0)
    elif name == "delayOffset.json":
        # Of the level n there is the queue n - 1.
        changed += _clamp_queues(table, _SCHEDULE_TOPIC, queue_ends, _SCHEDULE_TOPIC, shift=1)
    return changed


def _clamp_queues(
    queues: dict[str, Any],
    topic: str,
    queue_ends: Mapping[tuple[str, int], int],
    shown: str,
    *,
    shift: int,
) -> list[str]:
    changed = []
    for number, value in queues.items():
        if not number.isascii() or not number.isdigit():
            continue
        try:
            offset = offset_of(value, number)
        except ValueError:
            continue
        end = queue_ends.get((topic, int(number) - shift))
        # Of a queue that nobody knows the end is not known: it may just have no messages any more.
        if end is not None and offset > end:
            queues[number] = end
            changed.append(f"{shown}/{number} {offset} to {end}")
    return changed
