"""Scripts that are made once for a user and run often."""

from __future__ import annotations

import os
import stat
import zlib
from collections.abc import Mapping
from pathlib import Path


def cache_directory(variables: Mapping[str, str]) -> Path | None:
    """Return the user's directory for such things, to which only the user can write.

    Args:
        variables: the environment's.

    Returns:
        None without such a directory: there is no home, or a read-only one, as in containers.
    """
    base = variables.get("XDG_CACHE_HOME") or os.path.join(variables.get("HOME", ""), ".cache")
    directory = Path(base) / "reput-spark"
    if not directory.is_absolute():
        return None
    try:
        _make(directory)
    except OSError:
        return None
    is_own = _is_own(directory) and _is_safe(directory.parent)
    return directory if is_own and os.access(directory, os.W_OK) else None


def _make(directory: Path) -> None:
    """Make a directory and those above it, each for the user alone, whatever the umask is."""
    if not directory.exists():
        _make(directory.parent)
        directory.mkdir(mode=0o700, exist_ok=True)


def _is_own(directory: Path) -> bool:
    """Return whether a directory is the user's, and only the user can write to it."""
    about = directory.stat()
    return about.st_uid == os.getuid() and not about.st_mode & 0o022


def _is_safe(directory: Path) -> bool:
    """Return whether no other user can replace what is in a directory."""
    about = directory.stat()
    if about.st_uid not in (0, os.getuid()):
        return False
    return not about.st_mode & 0o022 or bool(about.st_mode & stat.S_ISVTX)


def write_script(directory: Path, kind: str, name: str, text: str) -> Path:
    """Make sure of a script ``text`` in a directory of its own, ``<kind>-<sum of the text>/bin``.

    Args:
        directory: for all scripts.
        kind: of script.
        name: of the file; what Spark looks for.
        text: of the script.

    Raises:
        OSError: it cannot be written, or others could write to it, too.
    """
    target = directory / f"{kind}-{zlib.crc32(text.encode()):08x}" / "bin" / name
    if not target.exists() or target.read_text(encoding="utf-8") != text:
        _make(target.parent)
        if not (_is_own(target.parent) and _is_own(target.parent.parent)):
            raise PermissionError(f"{target.parent}: others can write to it; remove it")
        fresh = target.with_name(f"{name}.{os.getpid()}")
        fresh.write_text(text, encoding="utf-8")
        fresh.chmod(0o755)
        fresh.replace(target)  # at once: another process may be about to start it
    return target
