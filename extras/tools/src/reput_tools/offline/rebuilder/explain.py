"""Says what stands where a store's files differ from rebuilt ones: by the plugin, else in hex."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import attrs

if TYPE_CHECKING:
    from pluggy import HookRelay

    from reput.files import Disk
    from reput_tools.offline.contract.comparison import Comparison, Difference

_SHOWN: Final = 16  # bytes of a difference that are shown in hex
_NO_FILE: Final = "no file"


def explained(
    hooks: HookRelay, comparison: Comparison, differences: Sequence[Difference]
) -> tuple[Difference, ...]:
    """Return the differences with what was found and expected; see `reput_tools.offline.hookspecs`.

    A plugin is third-party code, and a comparison is complete without what it says: where it
    fails, bytes are shown.
    """
    try:
        told = list(
            hooks.reput_tools_explain(comparison=comparison, differences=differences) or differences
        )
    except Exception:
        told = list(differences)
    if len(told) != len(differences):
        told = list(differences)
    in_bytes = ("bytes", "missing", "extra")
    return tuple(
        each if each.found or each.kind not in in_bytes else _in_hex(comparison, each)
        for each in told
    )


def _in_hex(comparison: Comparison, difference: Difference) -> Difference:
    built = difference.built_path or difference.path
    found = _bytes(comparison.disk, os.path.join(comparison.root, difference.path), difference)
    expected = _bytes(comparison.disk, os.path.join(comparison.built, built), difference)
    return attrs.evolve(difference, found=found, expected=difference.expected or expected)


def _bytes(disk: Disk, path: str, difference: Difference) -> str:
    try:
        descriptor = disk.open(path)
    except (FileNotFoundError, IsADirectoryError, NotADirectoryError):
        return _NO_FILE
    try:
        size = difference.size or _SHOWN
        data = disk.read(descriptor, min(size, _SHOWN), difference.position)
        if not data:
            return "no bytes: the file ends before"
        return data.hex(" ") + (" …" if size > _SHOWN else "")
    finally:
        disk.close(descriptor)
