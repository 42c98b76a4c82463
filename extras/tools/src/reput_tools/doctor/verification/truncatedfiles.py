"""Finds files that are cut short, and reports each of them once."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import attrs

from reput.errors import ReputError
from reput.plugin import installed
from reput_tools.brokerfiles import decode
from reput_tools.doctor.findings import MESSAGES_PER_FINDING, Severity, end_at, finding_of_file
from reput_tools.offline import offline_hooks

if TYPE_CHECKING:
    from reput.files import Disk
    from reput_tools.doctor.findings import Finding, Findings
    from reput_tools.doctor.verification.directorysurvey import Survey

_UNENDED = ("Unterminated string", "a text without its end")  # of both parsers
_WORDS: Final = ("true", "false", "null")


def cut_json(disk: Disk, path: str) -> str | None:
    """Return what is found in a JSON file that ends too early; None if its fault is another one.

    Args:
        disk: reads the file.
        path: of a file that is known to be wrong. Its integer keys may have no quotes.
    """
    data = b""
    try:
        data = disk.read_file(path)
        decode(data)
    except json.JSONDecodeError as error:
        rest = error.doc[error.pos :].strip()
        is_cut = not rest or error.msg.startswith(_UNENDED)
        is_cut = is_cut or any(word.startswith(rest) for word in _WORDS)
        return end_at(len(data)) if is_cut else None
    except (ReputError, OSError, ValueError):
        pass
    return None


def check_sizes(
    surveyed: Survey,
    plugins: Mapping[str, Mapping[str, Any]],
    findings: Findings,
    *,
    was_closed: bool,
) -> int:
    """Report files that are cut short and that no rebuild makes; return how many were checked.

    Args:
        surveyed: the store.
        plugins: options of its plugins, which say how large these files must be, by name.
        findings: is added to.
        was_closed: whether the last writer closed the store. A writer that was killed may have
            left an empty file, which it had only begun.
    """
    offered = {each.name: each for each in installed()}
    count = 0
    for name, section in plugins.items():
        hooks = offline_hooks(name, offered[name].load().from_section(name, section))
        sizes = hooks.reput_tools_sizes(root=surveyed.root, disk=surveyed.disk) or {}
        count += len(sizes)
        for path, size in sorted(sizes.items()):
            if size is None:
                cut, expected = cut_json(surveyed.disk, os.path.join(surveyed.root, path)), "JSON"
            else:
                end, expected = _size(surveyed, path), f"{size} bytes"
                cut = None if end is None or end >= size else end_at(end)
            if cut is not None:
                is_begun = not was_closed and size is not None and cut == end_at(0)
                findings.add((_begun if is_begun else _cut)(name, path, cut, expected))
    return count


def _begun(plugin: str, path: str, found: str, expected: str) -> Finding:
    return finding_of_file(
        Severity.NOTICE,
        f"{plugin}.unfinished",
        plugin,
        path,
        found,
        expected,
        f"open the store for writing: the plugin {plugin} then completes a file that a killed "
        "writer had only begun",
        position=0,
    )


def _cut(plugin: str, path: str, found: str, expected: str) -> Finding:
    return finding_of_file(
        Severity.DAMAGE,
        f"{plugin}.cut",
        plugin,
        path,
        found,
        expected,
        f"restore the file from a copy; without one the plugin {plugin}, at the next opening for "
        "writing, derives what it can from messages that the log still has",
        position=int(found.rpartition(" ")[2]),
    )


def once_for_each_cut(
    found: Sequence[Finding],
    sizes: Mapping[str, int],
    surveyed: Survey,
    findings: Findings,
    advice: str,
    *,
    grows: bool = False,
) -> list[Finding]:
    """Return the findings of one plugin, with one finding for each file that is cut short.

    Every finding that reaches beyond the end of such a file becomes a part of this one. Findings
    before the end stay as they are, because they have another cause.

    Args:
        found: what differs.
        sizes: sizes of rebuilt files, bytes, by the path of the store's file.
        surveyed: the store.
        findings: an earlier finding about the size of such a file is taken out.
        advice: for a file that is cut short.
        grows: whether the last file ends after what it holds. Such a file may be shorter because
            other bytes differ, so a finding counts only if nothing differs before the end.
    """
    parts: dict[str, list[Finding]] = {}
    ends: dict[str, int] = {}
    for path in dict.fromkeys(each.file for each in found if each.file in sizes):
        end = _size(surveyed, path)
        if end is None or end >= sizes[path]:
            continue
        own = [each for each in found if each.file == path and _is_beyond(each, end, grows)]
        is_wrong = any(each.severity is Severity.DAMAGE for each in own)
        # Without damage, a plugin has not come so far, unless other files show the right size.
        if own and (is_wrong or findings.has_size_of(path)):
            parts[path], ends[path] = own, end
    for path in parts:
        findings.take_size_of(path)
    joined = [_joined(own, ends[path], sizes[path], advice) for path, own in parts.items()]
    gone = {id(each) for own in parts.values() for each in own}
    return [*(each for each in found if id(each) not in gone), *joined]


def _is_beyond(finding: Finding, end: int, grows: bool) -> bool:
    if finding.severity not in (Severity.NOTICE, Severity.DAMAGE):
        return False
    first = finding.position or 0
    return first >= end if grows else first + max(finding.size or 1, 1) > end


def _joined(parts: Sequence[Finding], end: int, size: int, advice: str) -> Finding:
    counts = [each.message_count for each in parts if each.message_count is not None]
    messages = tuple(each for part in parts for each in part.messages)
    worst = max(parts, key=lambda each: each.severity)
    return attrs.evolve(
        worst,
        severity=Severity.DAMAGE,
        kind=f"{worst.part}.size",
        position=end,
        size=size - end,
        found=end_at(end),
        expected=f"{size} bytes",
        messages=messages[:MESSAGES_PER_FINDING],
        message_count=sum(counts) if counts else None,
        suspects=(),
        advice=advice,
    )


def _size(surveyed: Survey, path: str) -> int | None:
    try:
        descriptor = surveyed.disk.open(os.path.join(surveyed.root, path))
    except (ReputError, OSError):
        return None
    try:
        return surveyed.disk.size(descriptor)
    finally:
        surveyed.disk.close(descriptor)
