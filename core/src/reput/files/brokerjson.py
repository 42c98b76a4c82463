"""Reads and writes JSON as RocketMQ's brokers do, which leave integer keys without quotes.

Such a key is a `BareKey` in memory, so that a file that is read and written has the same bytes.

Source: RocketMQ ``ConfigManager`` and fastjson's pretty form: tabs, no space after a colon.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from reput.signalsafe import new_lock

if TYPE_CHECKING:
    from reput.files.system.disk import Disk

__all__ = ["BareKey", "backup_of", "changing", "decode", "encode", "read", "replace"]

_SIZE_MAX: Final = 64 << 20
_plain: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
_text: Final = json.encoder.encode_basestring  # the encoder itself takes three times as long
_MARK: Final = "\0"  # followed by a number: a key that stood without quotes
_INTEGER: Final = re.compile("-?[0-9]+")
# A text, which stays unchanged, or a key without quotes.
_BARE_KEY: Final = re.compile(r'("(?:[^"\\]|\\.)*")|([{,]\s*)(-?[0-9]+)(?=\s*:)')
_changing: Final = new_lock()  # one for all stores of the process


class BareKey(str):
    """A key written without quotes; equal to the same key with quotes."""

    __slots__ = ()


def decode(data: bytes) -> Any:
    """Return the value of a document.

    Raises:
        ValueError: ``data`` is not such a document.
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
    disk: Disk, path: str, report: Callable[[str], None] = lambda text: None
) -> dict[str, Any] | None:
    """Return the JSON object in the file, or in its backup; None if neither holds one.

    Args:
        disk: the store's.
        path: the file.
        report: called with a text for each of the two files that exists and does not hold one.
    """
    for candidate in (path, backup_of(path)):
        try:
            found = decode(disk.read_file(candidate, _SIZE_MAX))
        except FileNotFoundError:
            continue
        except (OSError, ValueError) as error:
            report(f"{candidate}: ignored, because it is damaged: {error}")
            continue
        if isinstance(found, dict):
            return found
        report(f"{candidate}: ignored, because it does not hold a JSON object")
    return None


@contextlib.contextmanager
def changing() -> Iterator[None]:
    """Keep other threads from changing such a file during the ``with`` block.

    Several plugins keep entries in one file of a broker: each reads the file, changes its own
    entries and replaces the file in one such block. A signal handler that closes the store on the
    same thread goes ahead; it freezes the disk, so that the interrupted code writes nothing older.
    """
    with _changing:
        yield


def replace(disk: Disk, path: str, document: Mapping[str, Any]) -> None:
    """Replace the file atomically and durably; its previous content goes to the backup.

    A damaged previous content does not: the backup may be all that is left.
    """
    data = encode(document).encode()
    try:
        before = disk.read_file(path, _SIZE_MAX)
    except FileNotFoundError:
        before = b""
    if before == data:
        return
    with contextlib.suppress(ValueError):
        if isinstance(decode(before), dict):
            disk.replace(backup_of(path), before)
    disk.replace(path, data)


def _quoted(match: re.Match[str]) -> str:
    return match[1] or f'{match[2]}"\\u0000{match[3]}"'


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    return {BareKey(key[1:]) if _is_marked(key) else key: value for key, value in pairs}


def _is_marked(key: str) -> bool:
    # A text of the document may begin with the mark itself.
    return key[:1] == _MARK and _INTEGER.fullmatch(key, 1) is not None


def _encode(value: object, depth: int) -> str:
    kind = type(value)
    if kind is int:  # most values are; the encoder takes ten times as long
        return str(value)
    if kind is str:
        return _text(value)  # type: ignore[arg-type]
    if kind is list and all([type(each) is str for each in value]):  # type: ignore[attr-defined]  # noqa: C419
        return f"[{','.join(map(_text, value))}]"  # type: ignore[call-overload]
    if kind is not dict and not isinstance(value, Mapping):
        return _plain(value)
    if not value:
        return "{}"
    tabs = "\t" * depth
    # A list, as most of a large document are small objects.
    if all([type(key) is BareKey for key in value]):  # type: ignore[attr-defined]  # noqa: C419
        inner = ",".join([f"{key}:{_encode(each, depth)}" for key, each in value.items()])  # type: ignore[attr-defined]
        return f"{{{inner}\n{tabs}}}"
    parts = [f"{tabs}\t{_key(key)}:{_encode(each, depth + 1)}" for key, each in value.items()]  # type: ignore[attr-defined]
    return "{\n" + ",\n".join(parts) + f"\n{tabs}}}"


def _key(key: str) -> str:
    return key if type(key) is BareKey else _text(key)
