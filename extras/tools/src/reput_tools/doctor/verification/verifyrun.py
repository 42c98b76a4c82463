"""`verify`: checks everything that one store holds, and changes nothing in it."""

from __future__ import annotations

import contextlib
import os
import shlex
import time
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

import attrs

import reput
from reput.errors import ReputError, StoreLockedError, StoreNotFoundError, expected_at
from reput.files import system_clock
from reput.installhints import install_extra
from reput.log import (
    LOG_SECTION,
    LossLedger,
    StateFile,
    files_grow,
    ledger_in,
)
from reput.plugin import installed
from reput_tools.doctor.checksumcoverage import SUMS
from reput_tools.doctor.contradictions import vouches
from reput_tools.doctor.findings import Checked, Finding, Findings, NotChecked, Report, Severity
from reput_tools.doctor.verification.brokerconfigcheck import check_settings
from reput_tools.doctor.verification.brokerfilecheck import NotCompared, check_broker_files
from reput_tools.doctor.verification.checkpoint import check_checkpoint, check_state
from reput_tools.doctor.verification.derivedfiles import (
    DerivedChecked,
    check_derived,
    usable_plugins,
)
from reput_tools.doctor.verification.directorysurvey import COMMIT_LOG, add_misplaced, survey
from reput_tools.doctor.verification.dledgerindex import check_dledger_index
from reput_tools.doctor.verification.logcheck import check_log
from reput_tools.doctor.verification.logfindings import add_log_findings, damaged_ranges
from reput_tools.doctor.verification.loghead import check_head
from reput_tools.doctor.verification.readeropening import check_opening
from reput_tools.doctor.verification.statefilecheck import check_own
from reput_tools.doctor.verification.storemirror import mirror_of
from reput_tools.doctor.verification.truncatedfiles import check_sizes
from reput_tools.offline import HidingDisk, LocalEngine, inspect_store, lock_store, misplaced

if TYPE_CHECKING:
    from reput import Store
    from reput.files import Disk
    from reput.log import CheckedRanges, Loss
    from reput_tools.doctor.verification.directorysurvey import Survey
    from reput_tools.doctor.verification.logcheck import LogChecked
    from reput_tools.offline import Engine, Traces

_SMALL: Final = 2 << 30
"""Bytes of a log that one process reads sooner than others have started."""

Progress = Callable[[str, int, int], None]


def verify(
    path: str | os.PathLike[str],
    *,
    deep: bool = False,
    jobs: int | None = None,
    progress: Progress = lambda step, done, total: None,
    follow_links: bool = False,
    scratch: str | None = None,
    config: Mapping[str, Mapping[str, Any]] | None = None,
) -> Report:
    """Check the log of a store, what is derived from it, and the small files beside these.

    Nothing in the store is changed. A process may have it open for writing: then the log is
    checked as far as it reaches now, and derived files are not compared.

    Args:
        path: the store's directory.
        deep: whether to look at bytes that no checksum covers, and to unpack compressed bodies.
        jobs: number of processes; by default one per processor, for a small log one.
        progress: called with the step, and bytes done and in all of this step.
        follow_links: as for `reput.open`.
        scratch: directory in which derived files are built, to be compared; by default that of the
            system for temporary files. As much space as the derived files take is needed.
        config: options of plugins, by section, for a store that does not remember them.

    Raises:
        StoreNotFoundError: there is no store.
        OSError: the directory cannot be read, or the scratch directory cannot be written.
    """
    started = time.monotonic()
    root = inspect_store(path).root
    disk = HidingDisk().at(root, follow_links=follow_links)
    disk.hide(misplaced(root, disk))
    if not inspect_store(path, disk=disk, follow_links=follow_links).has_log:
        raise StoreNotFoundError(root, expected_at(root))
    with contextlib.ExitStack() as opened:
        opened.callback(disk.release)
        check = _Check(root, disk, deep, progress, dict(config or {}))
        check.run(opened, jobs, scratch)
        return check.report(time.monotonic() - started)


class _Check:
    """One verification in progress."""

    def __init__(
        self,
        root: str,
        disk: HidingDisk,
        deep: bool,
        progress: Progress,
        config: Mapping[str, Mapping[str, Any]],
    ) -> None:
        self.root = root
        self.disk = disk
        self.deep = deep
        self.progress = progress
        self.config = config
        self.findings = Findings()
        self.not_checked: list[NotChecked] = []
        self.checked = Checked()

    def report(self, seconds: float) -> Report:
        """Return what was found."""
        return Report(
            path=self.root,
            findings=self.findings,
            counts=self.findings.counts,
            worst=self.findings.worst,
            checked=self.checked,
            not_checked=self.not_checked,
            seconds=seconds,
        )

    def run(self, opened: contextlib.ExitStack, jobs: int | None, scratch: str | None) -> None:
        """Check everything, part by part; a failure of one part does not stop the others."""
        is_held = self._hold(opened)
        add_misplaced(self.root, self.disk, self.findings)
        traces = inspect_store(self.root, disk=self.disk)
        check_state(traces, self.findings, is_written=not is_held)
        names = frozenset(each.name for each in installed())
        surveyed = survey(
            self.root,
            self.disk,
            self.findings,
            file_size=_file_size(traces),
            grows=_grows(traces),
            plugins=names,
        )
        recorded = _recorded(self.root, self.disk)
        self._count(
            "reput",
            lambda: check_head(surveyed, traces, recorded, self.findings, self.not_checked),
        )
        hidden = self._broker_files()
        usable = usable_plugins(traces, self.findings, self.not_checked)
        usable = attrs.evolve(usable, derived=hidden.without(usable.derived, self.not_checked))
        mirror = opened.enter_context(
            mirror_of(
                surveyed,
                self.findings,
                self.not_checked,
                plugins=usable.names,
                scratch=scratch,
            )
        )
        try:
            store = opened.enter_context(_reading(mirror))
        except (ReputError, OSError) as error:
            text = str(error).replace(mirror, self.root)
            self.not_checked.append(NotChecked("log", f"it cannot be opened: {text}"))
            self.findings.add(_unreadable(text, self.root))
            return
        size = sum(each.size for each in surveyed.log_files)
        jobs = jobs or (1 if size < _SMALL else None)
        engine = opened.enter_context(LocalEngine(jobs, splits=True))
        # What a writer appends meanwhile may be without checksums.
        checked = traces.checked_ranges.until(store.log.max_physical_offset)
        found = self._check_log(store, engine, checked)
        self.checked.files += len(surveyed.log_files)
        damaged = damaged_ranges(found, surveyed.lost)
        derived = DerivedChecked()
        if is_held:
            derived = check_derived(
                mirror,
                surveyed,
                usable,
                engine,
                self.findings,
                self.not_checked,
                damaged=damaged,
                end=store.log.max_physical_offset,
                was_closed=traces.was_closed,
                progress=lambda done, total: self.progress("derived files", done, total),
                config=self.config,
                is_vouched=found.checksummed == found.orders.message_count,
            )
            self._count_derived(derived, surveyed)
            sections = {
                name: options
                for name, options in usable.sections_of().items()
                if not hidden.reason(name)
            }
            self._count(
                "plugins",
                lambda: check_sizes(
                    surveyed, sections, self.findings, was_closed=traces.was_closed
                ),
            )
        else:
            reason = "a process has the store open for writing, and its files change"
            self.not_checked += [NotChecked(name, reason) for name in usable.derived]
        add_log_findings(
            self.findings,
            found,
            store,
            surveyed,
            named=derived.lost,
            recorded=recorded,
            root=self.root,
            is_written=not is_held,
        )
        last = found.orders.last_time
        last_time = 0 if last is None else last[1]
        self._count(
            "checkpoint",
            lambda: check_checkpoint(
                self.root, self.disk, store, last_time, self.findings, is_written=not is_held
            ),
        )
        self._count("reput", lambda: check_own(traces, store, self.findings))
        end = store.log.max_physical_offset
        self._count("log", lambda: check_dledger_index(self.root, self.disk, self.findings, end))
        ends = _unknown_end if hidden.reason("config") else _ends_of(found)
        self._count("config", lambda: check_settings(self.root, self.disk, ends, self.findings))
        is_plain = ledger_in(self.root, self.disk) is None
        if (self.findings.worst or Severity.NOTICE) < Severity.DAMAGE and is_plain:
            # Damage that is known may be the reason for which a reader refuses the store.
            check_opening(
                surveyed,
                self.findings,
                self.not_checked,
                config=self.config,
                asks=is_held,
                was_closed=traces.was_closed,
            )

    def _broker_files(self) -> NotCompared:
        """Report files of brokers that reput does not write."""
        try:
            return check_broker_files(self.root, self.disk, self.findings, self.not_checked)
        except OSError as error:  # a link, for instance, which the survey reports
            self.not_checked.append(NotChecked("store", str(error)))
            return NotCompared({})

    def _count(self, part: str, check: Callable[[], int]) -> None:
        """Check files, and count them; what cannot be read stops no other part."""
        try:
            self.checked.files += check()
        except (ReputError, OSError) as error:
            self.not_checked.append(NotChecked(part, str(error)))

    def _hold(self, opened: contextlib.ExitStack) -> bool:
        """Keep writers out while derived files are compared; False if one has the store open."""
        try:
            opened.enter_context(_held(self.root, self.disk, self.not_checked))
        except StoreLockedError:
            return False
        return True

    def _check_log(self, store: Store, engine: Engine, checked: CheckedRanges) -> LogChecked:
        found = check_log(
            store,
            engine,
            deep=self.deep,
            progress=lambda done, total: self.progress("log", done, total),
            checked=checked,
        )
        self.checked.log_bytes = found.size
        self.checked.messages = found.orders.message_count
        self.checked.fillers = found.orders.filler_count
        self.checked.checksummed = found.checksummed
        for codec in found.missing_codecs:
            reason = f"bodies compressed with {codec}: {install_extra('core', 'compression')}"
            self.not_checked.append(NotChecked("log", reason))
        return found

    def _count_derived(self, derived: DerivedChecked, surveyed: Survey) -> None:
        for each in derived.built:
            self.checked.plugins.append(each.plugin)
            self.checked.derived_bytes += each.compared_size
            self.checked.files += each.compared_count
            if each.plugin == SUMS:
                self.checked.has_sums = vouches(each)


@contextlib.contextmanager
def _held(root: str, disk: Disk, not_checked: list[NotChecked]) -> Iterator[None]:
    """Hold the store; without a lock file, a writer that comes meanwhile is reported."""
    follow = disk.follows_links
    held = lock_store(root, writes=False, disk=disk, follow_links=follow)
    held.__enter__()
    try:
        yield
    finally:
        try:
            held.__exit__(None, None, None)
        except StoreLockedError:
            not_checked.append(
                NotChecked("store", "a writer came meanwhile: findings may be of its changes")
            )


@contextlib.contextmanager
def _reading(mirror: str) -> Iterator[Store]:
    with reput.open(mirror, mode="r", plugins=(), follow_links=True) as store:
        yield store


def _sections(traces: Traces) -> Mapping[str, Mapping[str, Any]]:
    try:
        manifest = traces.manifest
    except (ReputError, OSError):
        return {}
    return {} if manifest is None else manifest.config


def _file_size(traces: Traces) -> int:
    size = _sections(traces).get(LOG_SECTION, {}).get("file_size", 0)
    return size if type(size) is int and size > 0 else 0


def _grows(traces: Traces) -> bool:
    return files_grow(_sections(traces)) and _file_size(traces) > 0


def _unreadable(text: str, root: str) -> Finding:
    return Finding(
        severity=Severity.LOSS,
        kind="log.unreadable",
        part="log",
        file=COMMIT_LOG,
        found=text,
        expected="a log that can be opened to be read",
        advice=f"put back its files from a copy; else reput repair {shlex.quote(root)} "
        "NEW_DIRECTORY",
    )


def _recorded(root: str, disk: Disk) -> tuple[Loss, ...]:
    """Return the losses of the ledger on disk: a reader notes further ones for itself."""
    ledger = LossLedger(StateFile.of(root, disk), system_clock)
    try:
        ledger.load(writable=False)
    except OSError:
        return ()
    return ledger.entries


def _unknown_end(_topic: str, _queue_id: int) -> int | None:
    return None


def _ends_of(found: LogChecked) -> Callable[[str, int], int | None]:
    """Return where queues end, by their last message in the log; None for a queue without any."""
    ends = {key: run.max_offset for key, run in found.orders.queues.items()}
    return lambda topic, queue_id: ends.get((topic, queue_id))
