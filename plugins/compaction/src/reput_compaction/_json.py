"""JSON as RocketMQ's brokers write it, and files of it that have a backup beside them.

Source: RocketMQ ``ConfigManager``: the file, or when there is nothing in it that can be read, the
one with ``.bak`` behind its name. Keys that are integers are written without quotes.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from reput.files import Disk

__all__ = ["read_json", "write_json"]

_SIZE_MAX = 64 << 20
# A text, which stays as it is, or a key that lacks its quotes.
_BARE_KEY = re.compile(r'("(?:[^"\\]|\\.)*")|([{,]\s*)(-?\d+)(\s*:)')


def read_json(
    disk: Disk, path: str, tell: Callable[[str], None] = lambda text: None
) -> dict[str, Any] | None:
    """The object in the file, or in its backup; None when neither holds one.

    Args:
        disk: where.
        path: the file.
        tell: called with what is wrong of one that is there and holds none.
    """
    for candidate in (path, f"{path}.bak"):
        try:
            text = disk.read_file(candidate, _SIZE_MAX).decode("utf-8")
            found = json.loads(_BARE_KEY.sub(_quoted, text))
        except FileNotFoundError:
            continue
        except (OSError, ValueError, RecursionError) as error:
            tell(f"{candidate}: damaged, and passed over: {error}")
            continue
        if isinstance(found, dict):
            return found
        tell(f"{candidate}: holds no JSON object, and is passed over")
    return None


def write_json(disk: Disk, path: str, document: dict[str, Any]) -> None:
    """Replace the file, at once and durably; what it held before is in the backup then."""
    data = json.dumps(document, indent="\t", ensure_ascii=False, separators=(",", ":")).encode()
    try:
        before = disk.read_file(path, _SIZE_MAX)
    except FileNotFoundError:
        before = b""
    if before == data:
        return
    if before:
        disk.replace(f"{path}.bak", before)
    disk.replace(path, data)


def _quoted(match: re.Match[str]) -> str:
    if match[1] is not None:
        return match[1]
    return f'{match[2]}"{match[3]}"{match[4]}'
