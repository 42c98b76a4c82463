"""Damage to files whose names carry their order: exchanged, doubled, shifted, or gone."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

Files = Sequence[Path]


def numbered(directory: Path) -> list[Path]:
    """Return the files of a directory that a position names, in their order."""
    return sorted(each for each in directory.iterdir() if each.name.isdigit())


def exchange(files: Files) -> None:
    """Exchange the names of the first and the last file."""
    first, second = files[0].read_bytes(), files[-1].read_bytes()
    files[0].write_bytes(second)
    files[-1].write_bytes(first)


def double(files: Files) -> None:
    """Put a copy of the first file after the last one."""
    shutil.copy(files[0], _next(files, files[-1]))


def overwrite(files: Files) -> None:
    """Put a copy of the first file in the place of the second one."""
    shutil.copy(files[0], files[1])


def shift(files: Files) -> None:
    """Move the last file by one place."""
    files[-1].rename(_next(files, files[-1]))


def shift_all(files: Files) -> None:
    """Move all files by one place."""
    for each in reversed(files):
        each.rename(_next(files, each))


def lose_first(files: Files) -> None:
    """Remove the first file."""
    files[0].unlink()


def lose_middle(files: Files) -> None:
    """Remove a file between others."""
    files[len(files) // 2].unlink()


def lose_last(files: Files) -> None:
    """Remove the last file."""
    files[-1].unlink()


DAMAGES: dict[str, Callable[[Files], None]] = {
    each.__name__: each
    for each in (
        *(exchange, double, overwrite, shift, shift_all),
        *(lose_first, lose_middle, lose_last),
    )
}


def _next(files: Files, file: Path) -> Path:
    step = int(files[1].name) - int(files[0].name)
    return file.with_name(f"{int(file.name) + step:020d}")
