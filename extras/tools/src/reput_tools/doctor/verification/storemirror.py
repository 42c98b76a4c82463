"""A mirror of a store: a directory of links to its files, in which a check may write what it needs.

Checks build derived files aside and compare them. They do this in the mirror, so that the store is
not written, not even where it is on a file system that cannot be; and the mirror leaves out what
would stop them: files that do not belong to the log, a damaged manifest, plugins that are missing.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import tempfile
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from reput.errors import CorruptFileError, NotAFileError
from reput.files import OWN_DIRECTORY, Disk, file_name, is_file_name, is_system_name
from reput.log import StateFile
from reput.storefiles import Manifest
from reput_tools.doctor.findings import Finding, Findings, NotChecked, Severity, end_at
from reput_tools.doctor.verification.directorysurvey import COMMIT_LOG
from reput_tools.offline import HidingDisk

if TYPE_CHECKING:
    from reput_tools.doctor.verification.directorysurvey import Survey

_CHECKPOINT: Final = "checkpoint"
_CONFIG: Final = "config"
_LEFT_OUT: Final = frozenset({"lock", OWN_DIRECTORY})
_NOT_IN_OWN: Final = frozenset({"rebuild", "requests", "lock"})
_SIZED: Final = ("consumequeue", "consumequeue_ext", "index")
"""Directories all of whose files have one size."""
_IN_RUNS: Final = frozenset({"consumequeue"})
"""Those of them whose files lie end to end in each directory."""
_HOLES_MAX: Final = 64


@contextlib.contextmanager
def mirror_of(
    surveyed: Survey,
    findings: Findings,
    not_checked: list[NotChecked],
    *,
    plugins: tuple[str, ...] | None,
    scratch: str | None,
) -> Iterator[str]:
    """Make a mirror; it is removed afterwards.

    Args:
        surveyed: the store.
        findings: is added to: files of a wrong size, of which the mirror has copies.
        not_checked: is added to.
        plugins: plugins that the mirror's manifest names; None for those of the store's.
        scratch: directory in which the mirror is made; the system's for temporary files when None.

    Yields:
        The mirror's path.

    Raises:
        NotAFileError: a directory is in place of a file; the error names the store's file.
    """
    with tempfile.TemporaryDirectory(prefix="reput-verify-", dir=scratch) as directory:
        root = os.path.join(directory, "store")
        log = os.path.join(root, COMMIT_LOG)
        os.makedirs(log)
        for each in surveyed.log_files:
            name = file_name(each.base)
            os.symlink(os.path.join(surveyed.root, COMMIT_LOG, name), os.path.join(log, name))
        for name in surveyed.parts:
            if name in _SIZED:
                _mirror_sized(surveyed, name, root, findings)
            elif name not in _LEFT_OUT and not _is_unreadable(surveyed, name):
                _mirror_visible(surveyed.disk, os.path.join(surveyed.root, name), root)
        if _CONFIG not in surveyed.parts:
            _mirror_config(surveyed, root)
        if OWN_DIRECTORY in surveyed.parts:
            _mirror_own(surveyed, root, plugins, not_checked)
        try:
            yield root
        except NotAFileError as error:
            raise NotAFileError(error.path.replace(root, surveyed.root)) from None


def _is_unreadable(surveyed: Survey, name: str) -> bool:
    """Whether it is the checkpoint, and cannot be read; then its check reports it."""
    if name != _CHECKPOINT:
        return False
    try:
        surveyed.disk.read_if_exists(os.path.join(surveyed.root, name), 1)
    except OSError:
        return True
    return False


def _mirror_visible(disk: Disk, path: str, target: str) -> None:
    """Link a file or directory; around what the disk hides below it."""
    hidden = disk.hidden if isinstance(disk, HidingDisk) else frozenset()
    made = os.path.join(target, os.path.basename(path))
    if not any(each.startswith(f"{path}/") for each in hidden):
        os.symlink(path, made)
        return
    os.mkdir(made)
    for entry in disk.list(path):
        _mirror_visible(disk, entry.path, made)


def _mirror_config(surveyed: Survey, root: str) -> None:
    """Mirror the files of ``config/`` where a link is among them: plugins go by its topics."""
    directory = os.path.join(surveyed.root, _CONFIG)
    try:
        entries = surveyed.disk.list(directory)
    except OSError:
        return  # a link itself, or a file
    if not entries:
        return
    os.mkdir(os.path.join(root, _CONFIG))
    for entry in entries:
        if entry.is_file(follow_symlinks=False):
            os.symlink(entry.path, os.path.join(root, _CONFIG, entry.name))


def _mirror_own(
    surveyed: Survey, root: str, plugins: tuple[str, ...] | None, not_checked: list[NotChecked]
) -> None:
    own = os.path.join(surveyed.root, OWN_DIRECTORY)
    made = os.path.join(root, OWN_DIRECTORY)
    os.mkdir(made)
    state = StateFile.of(surveyed.root, surveyed.disk)
    for entry in surveyed.disk.list(own):
        if entry.name not in _NOT_IN_OWN and entry.path != state.path:
            _mirror_visible(surveyed.disk, entry.path, made)
    try:
        manifest = Manifest.of(state)
    except (CorruptFileError, OSError):
        not_checked.append(
            NotChecked(
                "reput",
                "the state file cannot be read: plugins and options are taken to be the usual ones",
            )
        )
        return
    copy = StateFile.of(root, Disk())
    data = surveyed.disk.read_if_exists(state.path, 1 << 30)
    if data is not None:
        with open(copy.path, "wb") as file:
            file.write(data)
    if manifest is None or plugins is None or set(manifest.plugins) == set(plugins):
        return
    left_out = set(manifest.plugins) - set(plugins)
    config = {name: each for name, each in manifest.config.items() if name not in left_out}
    Manifest(tuple(plugins), config, manifest.master).save(copy)


def _mirror_sized(surveyed: Survey, name: str, root: str, findings: Findings) -> None:
    """Link a directory whose files have one size; files of another size become padded copies."""
    source = os.path.join(surveyed.root, name)
    sizes = dict(_sizes_below(source, name, surveyed.disk))
    # If files grow, only files that others follow have the one size. Extend files do not grow.
    grows = surveyed.grows and not name.endswith("_ext")
    last = {os.path.dirname(path): path for path in sorted(sizes)} if grows else {}
    growing = frozenset(last.values())
    used = Counter(size for path, size in sizes.items() if size and path not in growing)
    (common, count), *others = used.most_common() or [(0, 0)]
    odd = {
        path: size
        for path, size in sizes.items()
        if size != common and not (path in growing and (size < common or not common))
    }
    is_sure = not (others and others[0][1] == count)
    runs = bool(common) and name in _IN_RUNS and is_sure
    strays, holes = _out_of_order(sizes, common) if runs else ([], [])
    if not (odd or strays or holes) or not is_sure:
        # All alike, or nothing says which size is the right one.
        os.symlink(source, os.path.join(root, name))
        return
    wrong: set[str] = {
        os.path.join(*path.split("/")[:depth])
        for path in (*odd, *strays, *holes)
        for depth in range(1, len(path.split("/")))
    }
    _link_around(surveyed, name, root, wrong, odd, frozenset(strays), common)
    for path in holes:
        with open(os.path.join(root, path), "wb") as filled:
            filled.truncate(common)
    for path in strays:
        odd.pop(path, None)
        findings.add(_stray(surveyed, path))
    for path, size in sorted(odd.items()):
        findings.add(
            Finding(
                severity=Severity.DAMAGE,
                kind=f"{name}.size",
                part=name.partition("_")[0],
                file=path,
                position=min(size, common),
                size=abs(common - size),
                found=end_at(size) if size < common else f"{size} bytes",
                expected=f"{common} bytes, as the other files have",
                advice=f"reput rebuild {shlex.quote(surveyed.root)} {name.partition('_')[0]}",
            )
        )


def _out_of_order(sizes: dict[str, int], size: int) -> tuple[list[str], list[str]]:
    """Return files that follow no other one of their queue, and files that are missing between two.

    A few missing files are taken for missing; a file after very many of them for one that does not
    belong there.
    """
    queues: dict[str, list[str]] = {}
    for path in sizes:
        directory, last = os.path.split(path)
        if is_file_name(last):
            queues.setdefault(directory, []).append(last)
    strays: list[str] = []
    holes: list[str] = []
    for directory, names in queues.items():
        before = -1
        for name in sorted(names):
            base = int(name)
            gap, rest = divmod(base - before, size) if before >= 0 else (1, base % size)
            if rest or gap > _HOLES_MAX or base >= 1 << 62:
                strays.append(f"{directory}/{name}")
                continue
            holes += (f"{directory}/{file_name(before + n * size)}" for n in range(1, gap))
            before = base
    return strays, holes


def _stray(surveyed: Survey, path: str) -> Finding:
    name = path.partition("/")[0].partition("_")[0]
    return Finding(
        severity=Severity.DAMAGE,
        kind=f"{name}.stray",
        part=name,
        file=path,
        found="a file that follows no other one of its queue",
        expected="files without gaps between them, named by their first byte",
        advice=f"move it away, or run reput rebuild {shlex.quote(surveyed.root)} {name}",
    )


def _link_around(
    surveyed: Survey,
    name: str,
    root: str,
    wrong: set[str],
    odd: dict[str, int],
    left_out: frozenset[str],
    size: int,
) -> None:
    """Make the directory ``name`` of links, and of copies where files have a wrong size."""
    os.mkdir(os.path.join(root, name))
    for entry in surveyed.disk.list(os.path.join(surveyed.root, name)):
        path = os.path.join(name, entry.name)
        if path in wrong:
            _link_around(surveyed, path, root, wrong, odd, left_out, size)
        elif path in left_out:
            continue
        elif path in odd:
            descriptor = surveyed.disk.open(entry.path)
            try:
                with open(os.path.join(root, path), "wb") as copy:
                    left = min(odd[path], size)
                    while left:
                        data = surveyed.disk.read(
                            descriptor, min(left, 1 << 22), min(odd[path], size) - left
                        )
                        if not data:
                            break
                        copy.write(data)
                        left -= len(data)
                    copy.truncate(size)
            finally:
                surveyed.disk.close(descriptor)
        else:
            os.symlink(entry.path, os.path.join(root, path))


def _sizes_below(directory: str, name: str, disk: Disk) -> Iterator[tuple[str, int]]:
    for entry in disk.list(directory):
        if is_system_name(entry.name):
            continue
        path = f"{name}/{entry.name}"
        if entry.is_dir(follow_symlinks=disk.follows_links):
            yield from _sizes_below(entry.path, path, disk)
        elif entry.name.isdigit():
            yield path, entry.stat(follow_symlinks=disk.follows_links).st_size
