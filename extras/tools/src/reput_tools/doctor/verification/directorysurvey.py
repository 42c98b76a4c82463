"""Surveys the directory of a store: which of its files can be read, and which do not belong there.

Nothing is opened but log files, of which the first records are read: a file of another place, or of
another store, says so.
"""

from __future__ import annotations

import os
import stat
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

import attrs

from reput.errors import UnsafePathError
from reput.files import file_name, is_file_name, is_system_name
from reput.log import ledger_in
from reput.record.layout import HEADER, HEADER_SIZE, MAGIC_V1, MAGIC_V2, RECORD_MIN_SIZE
from reput.storefiles import is_known_name
from reput_tools.doctor.findings import Finding, Findings, Severity, end_at

if TYPE_CHECKING:
    from reput.files import Disk, Entry
    from reput_tools.offline import HidingDisk

COMMIT_LOG: Final = "commitlog"
_MISSING_MAX: Final = 100  # missing files of one gap that are named


@attrs.frozen
class LogFile:
    """A file of the log that can be read."""

    base: int
    """Physical offset of its first byte, by its name."""
    size: int


@attrs.define
class Survey:
    """The contents of a store's directory."""

    root: str
    disk: Disk
    log_files: list[LogFile] = attrs.field(factory=list)
    """Files that are in their place, ascending; some may be too short."""
    file_size: int = 0
    """Bytes that a file of the log has; 0 if there is none."""
    grows: bool = False
    """Whether the last file may be shorter."""
    parts: list[str] = attrs.field(factory=list)
    """Other names in the store's directory below which there is no link, pipe or device."""
    gaps: list[Finding] = attrs.field(factory=list)
    """Findings of missing and short files, which derived files may know more of."""
    lost: list[tuple[int, int]] = attrs.field(factory=list)
    """Ranges of the log whose bytes are missing, because files are missing or short."""

    @property
    def end(self) -> int:
        """Physical offset at which the last file ends."""
        return self.log_files[-1].base + self.file_size if self.log_files else 0


def survey(
    root: str,
    disk: Disk,
    findings: Findings,
    *,
    file_size: int = 0,
    grows: bool = False,
    plugins: frozenset[str],
) -> Survey:
    """Look at all names of a store's directory.

    Args:
        root: the directory.
        disk: bound to it.
        findings: is added to.
        file_size: bytes of a log file, as far as the store says; 0 for what most files have.
        grows: whether the last file may be shorter; ``file_size`` is given then.
        plugins: names of plugins, which may have files of that name.
    """
    found = Survey(root, disk, grows=grows)
    for entry in sorted(disk.list(root), key=lambda each: each.name):
        name = entry.name
        if is_system_name(name):
            continue
        if not is_known_name(name) and name not in plugins:
            findings.add(
                attrs.evolve(
                    _strange(name, "a file or directory that reput does not know"),
                    severity=Severity.NOTICE,
                    expected="files of reput, or of a release of RocketMQ that it knows",
                    advice="nothing if a newer broker or you put it there: reput leaves it as it "
                    "is; else move it away",
                )
            )
        try:
            _check_plain(entry, disk)
        except UnsafePathError as error:
            findings.add(_unsafe(os.path.relpath(str(error.path), root), error))
            continue
        if name != COMMIT_LOG:
            found.parts.append(name)
    _survey_log(found, findings, file_size)
    return found


def _check_plain(entry: Entry, disk: Disk) -> None:
    """Raise for a link, pipe or device at or below ``entry``; an allowed link is followed."""
    if disk.follows_links:
        return
    if entry.is_symlink():
        entry.stat()  # raises
    if entry.is_dir(follow_symlinks=False):
        for below in disk.list(entry.path):
            if not is_system_name(below.name):
                _check_plain(below, disk)
    elif not entry.is_file(follow_symlinks=False):
        raise UnsafePathError(
            entry.path, "is a link, pipe, socket or device", "a regular file is expected"
        )


def _strange(name: str, what: str) -> Finding:
    return Finding(
        severity=Severity.WARNING,
        kind="store.strange",
        part="store",
        file=name,
        found=what,
        expected="files of the store alone",
        advice="move it away if nothing needs it there",
    )


def _unsafe(name: str, error: UnsafePathError) -> Finding:
    return Finding(
        severity=Severity.WARNING,
        kind="store.unsafe",
        part="store",
        file=name,
        found=error.found,
        expected="a regular file or directory",
        advice="remove it, or allow your own links with --follow-links; it was not looked into",
    )


def add_misplaced(root: str, disk: HidingDisk, findings: Findings) -> None:
    """Report what is in place of a file; ``disk`` hides it from all other checks."""
    for path in sorted(disk.hidden):
        is_directory = stat.S_ISDIR(disk.status(path).st_mode)
        findings.add(
            Finding(
                severity=Severity.DAMAGE,
                kind="store.not-a-file",
                part="store",
                file=os.path.relpath(path, root),
                found="a directory" if is_directory else "a pipe, socket or device",
                expected="a regular file",
                advice="move it away, and put the file back if there was one; reput repair "
                "leaves it out",
            )
        )


# --------------------------------------------------------------------------- the log's files


def _survey_log(found: Survey, findings: Findings, file_size: int) -> None:
    directory = os.path.join(found.root, COMMIT_LOG)
    sizes: dict[int, int] = {}
    for entry in sorted(found.disk.list(directory), key=lambda each: each.name):
        if is_system_name(entry.name):
            continue
        try:
            is_file = entry.is_file()
        except UnsafePathError as error:
            findings.add(_unsafe(f"{COMMIT_LOG}/{entry.name}", error))
            continue
        if is_file and is_file_name(entry.name) and int(entry.name) < 1 << 62:
            sizes[int(entry.name)] = entry.stat().st_size
        else:
            findings.add(
                attrs.evolve(
                    _strange(f"{COMMIT_LOG}/{entry.name}", "a name that is not a physical offset"),
                    kind="log.strange-file",
                    part="log",
                    expected="files named by the 20 digits of their first byte's offset",
                )
            )
    if not sizes:
        return
    common = Counter(sizes.values()).most_common()
    most = max(size for size, count in common if count == common[0][1])
    found.file_size = file_size if found.grows or file_size in sizes.values() else most
    if found.file_size <= RECORD_MIN_SIZE:
        found.file_size = max(sizes.values())
    for base, size in sizes.items():
        if _is_in_place(found, findings, sizes, base):
            found.log_files.append(LogFile(base, size))
    if found.log_files and found.log_files[-1].size == 0:
        empty = found.log_files.pop()
        findings.add(_empty(empty.base, goes_on=_goes_on_after(found, empty.base)))
    _check_sizes(found)
    _check_gaps(found, findings)


def _is_in_place(found: Survey, findings: Findings, sizes: dict[int, int], base: int) -> bool:
    """Whether a file is where its records say; False, and a finding, if it is not."""
    name = f"{COMMIT_LOG}/{file_name(base)}"
    stated = _stated_base(found, base)
    if stated is not None and stated != base:
        doubled = stated in sizes
        findings.add(
            Finding(
                severity=Severity.WARNING if doubled else Severity.LOSS,
                kind="log.doubled-file" if doubled else "log.renamed-file",
                part="log",
                file=name,
                position=0,
                found=f"records that say that this is {file_name(stated)}",
                expected=f"records that say that this is {file_name(base)}",
                advice=(
                    "move it away: a file of that name is there, too"
                    if doubled
                    else f"give it the name {file_name(stated)} if it is part of this store, "
                    "else move it away"
                ),
            )
        )
        return False
    size = max(found.file_size, 1)  # 0 where all files are empty
    if base % size and (base - min(sizes)) % size:
        findings.add(
            attrs.evolve(
                _strange(name, f"a file that begins at {base}"),
                kind="log.strange-file",
                part="log",
                expected=f"a multiple of the file size, {found.file_size}",
            )
        )
        return False
    return True


def _stated_base(found: Survey, base: int) -> int | None:
    """Return where a file begins by its first two records, or by its only one; None if unknown."""
    path = os.path.join(found.root, COMMIT_LOG, file_name(base))
    stated: list[int] = []
    position = 0
    descriptor = found.disk.open(path)
    try:
        for _ in range(2):
            head = found.disk.read(descriptor, HEADER_SIZE, position)
            if len(head) < HEADER_SIZE:
                break
            size, magic, _, _, _, _, own, *_ = HEADER.unpack(head)
            if magic not in (MAGIC_V1, MAGIC_V2) or not RECORD_MIN_SIZE <= size <= 1 << 30:
                break
            stated.append(own - position)
            position += size
    finally:
        found.disk.close(descriptor)
    # One record may be damaged; two do not agree by chance.
    if len(stated) == 2 and stated[0] == stated[1] and stated[0] >= 0:
        return stated[0]
    return None


def _goes_on_after(found: Survey, base: int) -> bool:
    """Return whether DLedger's files continue the log behind a file that begins at ``base``."""
    folder = ledger_in(found.root, found.disk)
    names = found.disk.list_names(f"{found.root}/{folder}/data") if folder else ()
    return any(is_file_name(name) and int(name) > base for name in names)


def _empty(base: int, *, goes_on: bool) -> Finding:
    """Return what an empty last file of ``commitlog`` means."""
    advice = "nothing: the next opening removes it"
    return Finding(
        severity=Severity.LOSS if goes_on else Severity.NOTICE,
        kind="log.empty-file",
        part="log",
        file=f"{COMMIT_LOG}/{file_name(base)}",
        position=0,
        found="an empty file" if goes_on else "an empty last file, as a crash leaves it",
        expected="records: DLedger's log begins after it"
        if goes_on
        else "no file, or one of full size",
        advice="put the file back from a copy" if goes_on else advice,
    )


def _check_sizes(found: Survey) -> None:
    for each in found.log_files:
        is_growing = found.grows and each is found.log_files[-1] and each.size < found.file_size
        if each.size == found.file_size or is_growing:
            continue
        is_short = each.size < found.file_size
        start, end = each.base + min(each.size, found.file_size), each.base + found.file_size
        if is_short:
            found.lost.append((start, end))
        found.gaps.append(
            Finding(
                severity=Severity.LOSS if is_short else Severity.WARNING,
                kind="log.short-file" if is_short else "log.long-file",
                part="log",
                file=f"{COMMIT_LOG}/{file_name(each.base)}",
                position=min(each.size, found.file_size),
                size=abs(end - start) or each.size - found.file_size,
                physical_offset=start if is_short else None,
                found=end_at(each.size) if is_short else f"{each.size} bytes",
                expected=f"{found.file_size} bytes",
                advice="put back the whole file from a copy; else reput repair",
            )
        )


def _check_gaps(found: Survey, findings: Findings) -> None:
    for before, after in zip(found.log_files, found.log_files[1:], strict=False):
        start = before.base + found.file_size
        if start >= after.base:
            continue
        found.lost.append((start, after.base))
        found.gaps += missing_files(
            start,
            after.base,
            found.file_size,
            findings,
            kind="log.missing-file",
            found="no file, though there are files on both sides of it",
        )
    found.lost.sort()


def missing_files(
    start: int, end: int, file_size: int, findings: Findings, *, kind: str, found: str
) -> Iterator[Finding]:
    """Yield a finding for each missing file of a range; those after the first ones are counted.

    Args:
        start: physical offset at which the first missing file begins.
        end: physical offset at which the log goes on.
        file_size: bytes of a file.
        findings: the files that are not yielded are counted there.
        kind: of the findings.
        found: text for people.
    """
    count = -(-(end - start) // file_size)
    for number in range(min(count, _MISSING_MAX)):
        base = start + number * file_size
        yield Finding(
            severity=Severity.LOSS,
            kind=kind,
            part="log",
            file=f"{COMMIT_LOG}/{file_name(base)}",
            size=min(file_size, end - base),
            physical_offset=base,
            found=found,
            expected=f"{file_size} bytes",
            advice="put the file back from a copy; else reput repair",
        )
    if count > _MISSING_MAX:
        findings.add_count(kind, Severity.LOSS, count - _MISSING_MAX)
