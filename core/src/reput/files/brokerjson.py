"""Reads and writes JSON as RocketMQ's brokers do, which leave integer keys without quotes.

Such a key, which JSON does not allow, is a `BareKey` in memory, so that a file that is read and
written again has the same bytes: tabs, no space after a colon, entries with bare keys on one line.

Source: RocketMQ ``ConfigManager`` and fastjson's pretty form.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from reput.files.system.disk import Disk

__all__ = ["BareKey", "backup_of", "decode", "encode", "read", "replace"]

_SIZE_MAX: Final = 64 << 20
_MARK: Final = "\0"  # marks a key that stood without quotes; no other text begins with it
# A text, which stays unchanged, or a key without quotes.
_BARE_KEY: Final = re.compile(r'("(?:[^"\\]|\\.)*")|([{,]\s*)(-?[0-9]+)(?=\s*:)')


class BareKey(str):
    """A key written without quotes; equal to the same key with quotes."""

    __slots__ = ()


def decode(data: bytes) -> Any:
    """Return the value of a document.

    Raises:
        ValueError: ``data`` is no such document.
    """
    try:
        text = _BARE_KEY.sub(_quoted, data.decode("utf-8"))
        return json.loads(text, object_pairs_hook=_object)
    except RecursionError as error:
        raise ValueError(str(error)) from None


def encode(document: object) -> str:
    """Return the text of a document; objects whose keys are all bare are written on one line."""
    return _encode(document, 0)


def backup_of(path: str) -> str:
    """Return the path of the file's previous version, which is read if the file is damaged."""
    return f"{path}.bak"


def read(
    disk: Disk, path: str, tell: Callable[[str], None] = lambda text: None
) -> dict[str, Any] | None:
    """Return the JSON object in the file, or in its backup; None if neither holds one.

    Args:
        disk: the store's.
        path: the file.
        tell: called with a text for each of the two files that exists and holds no object.
    """
    for candidate in (path, backup_of(path)):
        try:
            found = decode(disk.read_file(candidate, _SIZE_MAX))
        except FileNotFoundError:
            continue
        except (OSError, ValueError) as error:
            tell(f"{candidate}: damaged, and passed over: {error}")
            continue
        if isinstance(found, dict):
            return found
        tell(f"{candidate}: holds no JSON object, and is passed over")
    return None


def replace(disk: Disk, path: str, document: Mapping[str, Any]) -> None:
    """Replace the file atomically and durably; its previous content goes to the backup."""
    data = encode(document).encode()
    try:
        before = disk.read_file(path, _SIZE_MAX)
    except FileNotFoundError:
        before = b""
    if before == data:
        return
    if before:
        disk.replace(backup_of(path), before)
    disk.replace(path, data)


def _quoted(match: re.Match[str]) -> str:
    return match[1] or f'{match[2]}"\\u0000{match[3]}"'


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    return {BareKey(key[1:]) if key[:1] == _MARK else key: value for key, value in pairs}


def _encode(value: object, depth: int) -> str:
    if not isinstance(value, Mapping):
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    if not value:
        return "{}"
    tabs = "\t" * depth
    if all(isinstance(key, BareKey) for key in value):
        inner = ",".join(f"{key}:{_encode(each, depth)}" for key, each in value.items())
        return f"{{{inner}\n{tabs}}}"
    parts = [f"{tabs}\t{_key(key)}:{_encode(each, depth + 1)}" for key, each in value.items()]
    return "{\n" + ",\n".join(parts) + f"\n{tabs}}}"


def _key(key: str) -> str:
    return key if isinstance(key, BareKey) else json.dumps(key, ensure_ascii=False)
