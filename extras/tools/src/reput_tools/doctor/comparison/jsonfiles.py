"""Compares the JSON files in ``config/`` of two stores, value by value, and their options.

How often a file was written (``dataVersion``) is not a difference.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from reput.errors import CorruptFileError
from reput.files import system_clock
from reput_tools.brokerfiles import BrokerDocument
from reput_tools.doctor.comparison.storediff import ValueDifference

if TYPE_CHECKING:
    from reput_tools.offline import Traces

_CONFIG: Final = "config"
_VERSION: Final = "dataVersion"
_TEXT_MAX: Final = 200
_MISSING: Final = object()


def compare_config(
    a: Traces, b: Traces, tell_a: Callable[[str], None], tell_b: Callable[[str], None]
) -> Iterator[ValueDifference]:
    """Yield values of JSON files in ``config/`` that differ.

    Args:
        a: the small files of one store.
        b: those of the other one.
        tell_a: called with what cannot be used in the first.
        tell_b: likewise.
    """
    names = sorted({*_names(a, tell_a), *_names(b, tell_b)})
    for name in names:
        own = _read(a, name, tell_a)
        its = _read(b, name, tell_b)
        yield from _differences(f"{_CONFIG}/{name}", "", own, its)


def compare_settings(
    a: Traces,
    b: Traces,
    file_sizes: tuple[int, int],
    tell_a: Callable[[str], None],
    tell_b: Callable[[str], None],
) -> Iterator[ValueDifference]:
    """Yield plugins and options that differ, and the size of log files.

    Args:
        a: the small files of one store.
        b: those of the other one.
        file_sizes: bytes of a log file of each.
        tell_a: called with what cannot be used in the first.
        tell_b: likewise.
    """
    own, its = _manifest(a, tell_a), _manifest(b, tell_b)
    if own is not None and its is not None:
        yield from _differences("reput/state", "", own, its)
    if file_sizes[0] != file_sizes[1]:
        yield ValueDifference("commitlog", "file_size", str(file_sizes[0]), str(file_sizes[1]))


def _names(traces: Traces, tell: Callable[[str], None]) -> list[str]:
    path = os.path.join(traces.root, _CONFIG)
    try:
        entries = traces.disk.list(path)
    except OSError as error:
        tell(f"{path}: cannot be read, and is ignored: {error.strerror or error}")
        return []
    return [each.name for each in entries if each.name.endswith(".json")]


def _read(traces: Traces, name: str, tell: Callable[[str], None]) -> Any:
    directory = os.path.join(traces.root, _CONFIG)
    found = BrokerDocument(directory, name, traces.disk, system_clock, tell)
    return found.read() or _MISSING


def _manifest(traces: Traces, tell: Callable[[str], None]) -> dict[str, Any] | None:
    try:
        found = traces.manifest
    except (CorruptFileError, OSError) as error:
        tell(f"the store's plugins and options are not known: {error}")
        return None
    if found is None:
        return None
    return {"plugins": sorted(found.plugins), **found.config}


def _differences(file: str, name: str, a: Any, b: Any) -> Iterator[ValueDifference]:
    if isinstance(a, Mapping) and isinstance(b, Mapping):
        for key in sorted({*a, *b}):
            if key != _VERSION:
                inner = f"{name}.{key}" if name else str(key)
                yield from _differences(file, inner, a.get(key, _MISSING), b.get(key, _MISSING))
    elif a is _MISSING and b is _MISSING:
        return
    elif a != b or type(a) is not type(b):
        yield ValueDifference(file, name, _text(a), _text(b))


def _text(value: Any) -> str | None:
    if value is _MISSING:
        return None
    text = json.dumps(value, ensure_ascii=False, sort_keys=True)
    return text if len(text) <= _TEXT_MAX else f"{text[:_TEXT_MAX]}…"
