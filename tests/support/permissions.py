"""A directory that may not be looked into, or not be written: the superuser runs tests."""

from __future__ import annotations

import errno
import os

_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC


def forbid(monkeypatch, directory):
    """Have the system refuse ``directory`` as if its mode were 0: its entries, and all below it."""
    directory = os.fspath(directory)

    def patch(name, *, opens):
        real = getattr(os, name)

        def guarded(path=".", *arguments, **options):
            found = _place(path, options)
            if found.startswith(f"{directory}/") or (opens and found == directory):
                if name == "access":
                    return False
                raise PermissionError(13, "Permission denied", path)
            return real(path, *arguments, **options)

        monkeypatch.setattr(os, name, guarded)

    for name in ("open", "scandir", "listdir", "access"):
        patch(name, opens=True)
    for name in ("stat", "lstat", "mkdir", "unlink", "rename", "readlink"):
        patch(name, opens=False)


def forbid_writing(monkeypatch, directory):
    """Have the system refuse every change in ``directory``, as a read-only file system does."""
    directory = os.fspath(directory)

    def is_below(path, options):
        found = _place(path, options)
        return found == directory or found.startswith(f"{directory}/")

    def refuse(path):
        raise OSError(errno.EROFS, os.strerror(errno.EROFS), path)

    real_open = os.open

    def opened(path, flags, *arguments, **options):
        is_made = flags & os.O_EXCL and _exists(path, options)  # which is what the system says
        if flags & _WRITES and is_below(path, options) and not is_made:
            refuse(path)
        return real_open(path, flags, *arguments, **options)

    def patch(name):
        real = getattr(os, name)

        def guarded(path, *arguments, **options):
            if is_below(path, options):
                refuse(path)
            return real(path, *arguments, **options)

        monkeypatch.setattr(os, name, guarded)

    def patch_two(name):
        real = getattr(os, name)

        def guarded(source, target, **options):
            for path, key in ((source, "src_dir_fd"), (target, "dst_dir_fd")):
                if is_below(path, {"dir_fd": options.get(key)}):
                    refuse(path)
            return real(source, target, **options)

        monkeypatch.setattr(os, name, guarded)

    monkeypatch.setattr(os, "open", opened)
    for name in ("mkdir", "unlink", "remove", "rmdir", "utime", "chmod", "truncate"):
        patch(name)
    for name in ("rename", "replace", "link"):
        patch_two(name)


def _exists(path, options):
    try:
        os.stat(path, dir_fd=options.get("dir_fd"), follow_symlinks=False)
    except OSError:
        return False
    return True


def _place(path, options):
    if isinstance(path, int):
        return os.readlink(f"/proc/self/fd/{path}")
    path = os.fspath(path)
    above = options.get("dir_fd")
    if above is not None:
        path = os.path.join(os.readlink(f"/proc/self/fd/{above}"), path)
    return os.path.abspath(path)
