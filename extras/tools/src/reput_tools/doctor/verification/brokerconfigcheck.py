"""Checks the JSON files of ``config/`` that RocketMQ's brokers keep beside a store.

Each must be readable; offsets of consumers and of delayed delivery must not be after the end of
their queues.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from reput.errors import UnsafePathError
from reput_tools.brokerfiles import COPY_SUFFIX, object_of, offset_of
from reput_tools.brokerfiles.contents import expected_content, wrong_content
from reput_tools.doctor.findings import Finding, Findings, Severity
from reput_tools.doctor.settingsnames import is_document, is_known_setting
from reput_tools.doctor.verdict import places_lost
from reput_tools.doctor.verification.truncatedfiles import cut_json

if TYPE_CHECKING:
    from reput.files import Disk

_DIRECTORY: Final = "config"
_SIZE_MAX: Final = 64 << 20
_DELAY_TOPIC: Final = "SCHEDULE_TOPIC_XXXX"

Ends = Callable[[str, int], int | None]
"""Returns the queue offset after the last message of a queue; None if the queue is not known."""


def check_settings(root: str, disk: Disk, ends: Ends, findings: Findings) -> int:
    """Check all JSON files; return their number.

    Args:
        root: the store's directory.
        disk: bound to it.
        ends: where queues end.
        findings: is added to.
    """
    directory = os.path.join(root, _DIRECTORY)
    names = {entry.name for entry in disk.list(directory)}
    broken: dict[str, str] = {}  # why a file cannot be read, by name
    count = 0
    for name in sorted(names):
        if COPY_SUFFIX in name and not name.endswith(".new"):
            findings.add(_copy(name))
        if not is_known_setting(name):
            findings.add(_strange(name))
            continue  # its content may be any
        if not is_document(name):
            continue
        is_json = name.endswith((".json", ".json.bak"))
        count += is_json
        try:
            document = object_of(disk.read_file(os.path.join(directory, name), _SIZE_MAX))
        except UnsafePathError:
            continue  # told by the survey
        except (OSError, ValueError) as error:
            if not is_json:
                continue  # counts of a plugin, which checks whether they can be read
            cut = cut_json(disk, os.path.join(directory, name))
            broken[name] = cut or f"not a JSON object: {error}"
            continue
        wrong = wrong_content(name, document)
        if wrong is not None:
            findings.add(_wrong_content(name, wrong, has_backup=f"{name}.bak" in names))
        elif name == "consumerOffset.json":
            _check_consumers(document, ends, findings, root)
        elif name == "delayOffset.json":
            _check_delays(document, ends, findings)
    for name, reason in broken.items():
        is_backup = name.endswith(".bak")
        if is_backup and name.removesuffix(".bak") in broken:
            continue  # in the finding of the file
        backup = f"{name}.bak"
        if not is_backup and backup in broken:
            findings.add(_both(name, reason, broken[backup], root))
        else:
            findings.add(_damaged(name, reason, has_backup=backup in names))
    return count


def _strange(name: str) -> Finding:
    return Finding(
        severity=Severity.NOTICE,
        kind="config.strange",
        part="config",
        file=f"{_DIRECTORY}/{name}",
        found="a file or directory that reput does not know",
        expected="files of reput, or of a release of RocketMQ that it knows",
        advice="nothing if a newer broker or you put it there: reput leaves it as it is; else "
        "move it away",
    )


def _damaged(name: str, reason: str, *, has_backup: bool) -> Finding:
    is_backup = name.endswith(".bak")
    return Finding(
        severity=Severity.WARNING if is_backup else Severity.DAMAGE,
        kind="config.json",
        part="config",
        file=f"{_DIRECTORY}/{name}",
        position=0,
        found=reason,
        expected="a JSON object, as brokers write it",
        advice=(
            "nothing, as long as the file itself can be read"
            if is_backup
            else f"copy {name}.bak over it, which the broker reads instead, and which is older"
            if has_backup
            else f"restore it from a copy, or from another broker of the same name; else "
            f"{places_lost(name)}"
        ),
    )


def _both(name: str, reason: str, of_backup: str, root: str) -> Finding:
    """Return the finding of a file that cannot be read, nor can its backup."""
    advice = "restore one of them from a copy, or from another broker of the same name; else "
    advice += places_lost(name)
    if name == "consumerOffset.json":
        advice += (
            ": they start where their consumers begin without an offset, and "
            f"reput reset-offset {shlex.quote(root)} GROUP TOPIC sets offsets"
        )
    same = f"in both, {reason}" if reason == of_backup else f"{reason}; the backup: {of_backup}"
    return Finding(
        severity=Severity.DAMAGE,
        kind="config.json",
        part="config",
        file=f"{_DIRECTORY}/{name}",
        position=0,
        found=f"neither {name} nor {name}.bak can be read: {same}",
        expected="a JSON object, as brokers write it",
        advice=advice,
    )


def _copy(name: str) -> Finding:
    file = name.partition(COPY_SUFFIX)[0]
    return Finding(
        severity=Severity.NOTICE,
        kind="config.copy",
        part="config",
        file=f"{_DIRECTORY}/{name}",
        position=None,
        found=f"a copy of {file}, which could not be read when it was changed",
        expected="no such copy",
        advice=f"put back into {file} what is missing there, and remove the copy",
    )


def _wrong_content(name: str, what: str, *, has_backup: bool) -> Finding:
    is_backup = name.endswith(".bak")
    return Finding(
        severity=Severity.WARNING if is_backup else Severity.DAMAGE,
        kind="config.shape",
        part="config",
        file=f"{_DIRECTORY}/{name}",
        position=0,
        found=what,
        expected=expected_content(name),
        advice=(
            "nothing, as long as the file itself is right"
            if is_backup
            else "if it was exchanged with another file, exchange them again; else "
            + (f"copy {name}.bak over it, if that one is right" if has_backup else "restore it")
        ),
    )


def _wrong_shape(name: str, what: str) -> Finding:
    return Finding(
        severity=Severity.DAMAGE,
        kind="config.shape",
        part="config",
        file=f"{_DIRECTORY}/{name}",
        position=0,
        found=what,
        expected='an object "offsetTable" of numbers',
        advice=f"copy {name}.bak over it, if that one is right",
    )


def _check_consumers(
    document: Mapping[str, Any], ends: Ends, findings: Findings, root: str
) -> None:
    table = document.get("offsetTable", None if document else {})
    if not isinstance(table, Mapping):
        findings.add(_wrong_shape("consumerOffset.json", "no table of offsets"))
        return
    for name, queues in table.items():
        topic, _, group = str(name).partition("@")
        if not isinstance(queues, Mapping):
            findings.add(_wrong_shape("consumerOffset.json", f"no offsets under {name!r}"))
            continue
        for queue, value in queues.items():
            number, offset = _number(queue), _offset(value)
            if number is None or offset is None:
                what = f"offset {value!r} of queue {queue!r} under {name!r}"
                findings.add(_wrong_shape("consumerOffset.json", what))
                continue
            end = ends(topic, number)
            if end is not None and offset > end:
                findings.add(
                    _beyond(
                        "consumerOffset.json", f"group {group} of {topic}/{number}", offset, end
                    )
                )


def _check_delays(document: Mapping[str, Any], ends: Ends, findings: Findings) -> None:
    table = document.get("offsetTable", None if document else {})
    if not isinstance(table, Mapping):
        findings.add(_wrong_shape("delayOffset.json", "no table of offsets"))
        return
    for level, value in table.items():
        number, offset = _number(level), _offset(value)
        if number is None or offset is None:
            what = f"offset {value!r} of level {level!r}"
            findings.add(_wrong_shape("delayOffset.json", what))
            continue
        end = ends(_DELAY_TOPIC, number - 1)
        if end is not None and offset > end:
            findings.add(_beyond("delayOffset.json", f"delay level {number}", offset, end))


def _offset(value: object) -> int | None:
    try:
        return offset_of(value, "an entry")
    except ValueError:
        return None


def _number(text: object) -> int | None:
    try:
        return int(str(text))
    except ValueError:
        return None


def _beyond(name: str, who: str, offset: int, end: int) -> Finding:
    return Finding(
        severity=Severity.WARNING,
        kind="config.offset-beyond",
        part="config",
        file=f"{_DIRECTORY}/{name}",
        position=None,
        found=f"offset {offset} of {who}",
        expected=f"at most {end}, where the queue ends",
        advice="messages put until then would be skipped: set the offset back to the queue's "
        "end; reput repair does it",
    )
