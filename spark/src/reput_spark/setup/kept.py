"""What is made once for a user and run often: scripts, and an archive of classes."""

from __future__ import annotations

import os
import zlib
from collections.abc import Mapping
from pathlib import Path

__all__ = ["own_directory", "write_script"]


def own_directory(variables: Mapping[str, str]) -> Path | None:
    """The user's directory for such things; nobody else can write to it.

    None where there is no such: no home, or one that is only read, as in containers.

    Args:
        variables: the environment's.
    """
    base = variables.get("XDG_CACHE_HOME") or os.path.join(variables.get("HOME", ""), ".cache")
    directory = Path(base) / "reput-spark"
    if not directory.is_absolute():
        return None
    try:
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        about = directory.stat()
    except OSError:
        return None
    is_own = about.st_uid == os.getuid() and not about.st_mode & 0o022
    return directory if is_own and os.access(directory, os.W_OK) else None


def write_script(directory: Path, kind: str, name: str, text: str) -> Path:
    """Have a script that says ``text`` in a directory of its own, ``<kind>-<sum of the text>/bin``.

    Args:
        directory: for all scripts.
        kind: of script.
        name: of the file; what Spark looks for.
        text: of the script.
    """
    target = directory / f"{kind}-{zlib.crc32(text.encode()):08x}" / "bin" / name
    if not target.exists() or target.read_text(encoding="utf-8") != text:
        target.parent.mkdir(parents=True, exist_ok=True)
        fresh = target.with_name(f"{name}.{os.getpid()}")
        fresh.write_text(text, encoding="utf-8")
        fresh.chmod(0o755)
        fresh.replace(target)  # at once: another process may be about to start it
    return target
