"""A directory that may not be looked into: the superuser, who runs tests, reads everything."""

from __future__ import annotations

import os

__all__ = ["forbid"]


def forbid(monkeypatch, directory):
    """Have the system refuse ``directory`` as if its mode were 0: its entries, and all below it."""
    directory = os.fspath(directory)

    def place(path, options):
        if isinstance(path, int):
            return os.readlink(f"/proc/self/fd/{path}")
        path = os.fspath(path)
        above = options.get("dir_fd")
        if above is not None:
            path = os.path.join(os.readlink(f"/proc/self/fd/{above}"), path)
        return os.path.abspath(path)

    def patch(name, *, opens):
        real = getattr(os, name)

        def guarded(path=".", *arguments, **options):
            found = place(path, options)
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
