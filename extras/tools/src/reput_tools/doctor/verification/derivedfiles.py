"""Compares what plugins have derived from a log with what follows from it."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import attrs

from reput.errors import ConfigError, CorruptFileError, PluginError, ReputError, UnsafePathError
from reput.files import OWN_DIRECTORY
from reput.log import files_grow
from reput.plugin import PluginSet, default_plugins, how_to_install, installed
from reput_tools.doctor.checksumcoverage import SUMS
from reput_tools.doctor.contradictions import (
    advice_of,
    contradicts,
    one_for_each_message,
    vouches,
)
from reput_tools.doctor.findings import (
    Finding,
    Findings,
    NotChecked,
    Severity,
    finding_of_file,
)
from reput_tools.doctor.verification.directorysurvey import COMMIT_LOG
from reput_tools.doctor.verification.truncatedfiles import once_for_each_cut
from reput_tools.offline import inspect_store, run_rebuild

if TYPE_CHECKING:
    from reput_tools.doctor.verification.directorysurvey import Survey
    from reput_tools.offline import Difference, Engine, Rebuilt, TouchedMessage, Traces

_LIMIT: Final = 1_000
"""Differences of one file that are listed."""


@attrs.frozen
class Usable:
    """Which plugins of a store can be asked about their files."""

    names: tuple[str, ...]
    """Plugins that are installed and work with the store's options."""
    derived: tuple[str, ...]
    """Those of them all of whose files follow from the log."""
    sections: Mapping[str, Mapping[str, Any]]
    """The store's options, by section."""
    is_known: bool
    """Whether the store names its plugins; otherwise they are the usual ones."""

    def sections_of(self) -> dict[str, Mapping[str, Any]]:
        """Return the options of each plugin that can be asked, by name."""
        return {name: self.sections.get(name, {}) for name in self.names}


@attrs.define
class DerivedChecked:
    """What came of a comparison."""

    built: list[Rebuilt] = attrs.field(factory=list)
    lost: list[TouchedMessage] = attrs.field(factory=list)
    """Messages in damaged ranges of the log that derived files know."""


def usable_plugins(traces: Traces, findings: Findings, not_checked: list[NotChecked]) -> Usable:
    """Return the plugins that can be asked; what prevents others is added to ``not_checked``.

    Args:
        traces: of the store.
        findings: is added to: options that no plugin takes.
        not_checked: is added to.
    """
    try:
        manifest = traces.manifest
    except (CorruptFileError, OSError):
        manifest = None
    if manifest is None:
        names: list[str] = default_plugins()
        sections: Mapping[str, Mapping[str, Any]] = {}
    else:
        names, sections = list(manifest.plugins), manifest.config
    offered = installed()
    known = {each.name for each in offered}
    usable: list[str] = []
    for name in names:
        if name not in known:
            reason = f"it is not installed ({how_to_install(name)})"
            not_checked.append(NotChecked(name, reason))
            others = set(traces.records.names())
            if name not in others and others - set(names):  # one that is not named has worked
                text = f"the plugin {name}, which is not installed and has no files in the store"
                findings.add(_wrong_manifest(text, "the plugins that have worked in the store"))
            continue
        own = {name: sections[name]} if name in sections else {}
        try:
            _load(name, own, offered)
        except (PluginError, ConfigError) as error:
            not_checked.append(NotChecked(name, str(error)))
            if isinstance(error, ConfigError):
                findings.add(_wrong_manifest(str(error), "options that the plugin has"))
        else:
            usable.append(name)
    plugins, usable = _ordered(usable, sections, not_checked)
    derived = []
    for name, hooks in plugins.hooks.items():
        if hooks.dispatch is None:
            continue
        if hooks.work:
            reason = "not compared, because its files also keep state that no log can rebuild"
            not_checked.append(NotChecked(name, reason))
        else:
            derived.append(name)
    return Usable(tuple(usable), tuple(derived), sections, manifest is not None)


def _wrong_manifest(found: str, expected: str) -> Finding:
    return finding_of_file(
        Severity.DAMAGE,
        "reput.manifest",
        "reput",
        f"{OWN_DIRECTORY}/state",
        found,
        expected,
        "put the file back from a copy: commands do not open the store with it",
    )


def _load(name: str, sections: Mapping[str, Mapping[str, Any]], offered: Sequence[Any]) -> None:
    found = next(each for each in offered if each.name == name)
    found.load().from_section(name, sections.get(name, {}))


def _ordered(
    names: list[str], sections: Mapping[str, Mapping[str, Any]], not_checked: list[NotChecked]
) -> tuple[PluginSet, list[str]]:
    """Return the plugins that work together: plugins that need a missing one are left out."""
    while True:
        config = {name: each for name, each in sections.items() if name in names}
        try:
            return PluginSet(names, config), names
        except PluginError as error:
            if error.plugin not in names:
                raise
            not_checked.append(NotChecked(error.plugin, error.reason))
            names = [name for name in names if name != error.plugin]


def check_derived(
    mirror: str,
    surveyed: Survey,
    usable: Usable,
    engine: Engine,
    findings: Findings,
    not_checked: list[NotChecked],
    *,
    damaged: Sequence[tuple[int, int]],
    end: int,
    was_closed: bool,
    progress: Callable[[int, int], None],
    config: Mapping[str, Mapping[str, Any]],
    is_vouched: bool,
) -> DerivedChecked:
    """Build derived files aside, compare them, and add what differs to ``findings``.

    Args:
        mirror: the store's mirror, in which files are built.
        surveyed: the store.
        usable: its plugins.
        engine: builds.
        findings: is added to.
        not_checked: is added to.
        damaged: ranges of the log that cannot be read.
        end: where the log ends.
        was_closed: whether the last writer closed the store: otherwise what came last may be
            missing, and the next opening adds it.
        progress: called with bytes done and bytes in all.
        config: options of plugins, on top of the recorded ones.
        is_vouched: whether checksums cover every byte of every record, and match: then it is not
            the log that is wrong where derived files differ.
    """
    checked = DerivedChecked()

    def build(names: Sequence[str], stop: int | None) -> list[Rebuilt]:
        return run_rebuild(
            mirror,
            names,
            engine,
            progress=progress,
            check=True,
            follow_links=True,
            config=config,
            limit=_LIMIT,
            explains=True,
            damaged=damaged,
            end_offset=stop,
        )

    traces = inspect_store(mirror, follow_links=True)
    for stop, names in _by_place(usable.derived, traces, end).items():
        try:
            checked.built += build(names, stop)
        except (ReputError, OSError):
            # One plugin must not keep the others from being checked.
            for name in names:
                try:
                    checked.built += build([name], stop)
                except (ReputError, OSError) as error:
                    _add_failure(name, error, mirror, surveyed, findings, not_checked)
        if stop is not None:
            for name in names:
                findings.add(_behind(name, stop, end))
    is_changed = any(
        difference.path.startswith(f"{COMMIT_LOG}/")
        for each in checked.built
        for difference in each.differences or ()
    )
    is_vouched = is_vouched or any(each.plugin == SUMS and vouches(each) for each in checked.built)
    judged = _Judged(
        surveyed.root,
        end,
        was_closed,
        is_changed or bool(damaged),
        is_vouched,
        files_grow(usable.sections),
    )
    made: list[Finding] = []
    for each in checked.built:
        made += _findings_of(each, traces, surveyed, findings, not_checked, judged)
        checked.lost += each.lost
    if not judged.is_log_damaged:  # or the damage of the log comes first, whatever follows from it
        made = one_for_each_message(surveyed.root, made)
    findings.extend(made)
    return checked


def _by_place(names: Sequence[str], traces: Traces, end: int) -> dict[int | None, list[str]]:
    """Return plugins by where their files end: None for the log's end.

    In a store that reput closed, the files of a plugin that is behind end exactly at its progress.
    A broker that writes the store later completes the files, and does not change the progress.
    """
    places: dict[int | None, list[str]] = {}
    was_closed = traces.closed is not None
    for name in names:
        reached = traces.dispatched_to(name)
        is_behind = was_closed and reached is not None and reached < end
        places.setdefault(reached if is_behind else None, []).append(name)
    return places


def _behind(name: str, reached: int, end: int) -> Finding:
    return Finding(
        severity=Severity.NOTICE,
        kind=f"{name}.unfinished",
        part=name,
        file=f"{OWN_DIRECTORY}/state",
        found=f"complete to physical offset {reached}",
        expected=f"{end}, where the log ends",
        advice="nothing: it goes on from there when the store is opened for writing",
    )


def _add_failure(
    name: str,
    error: Exception,
    mirror: str,
    surveyed: Survey,
    findings: Findings,
    not_checked: list[NotChecked],
) -> None:
    text = str(error).replace(mirror, surveyed.root)
    not_checked.append(NotChecked(name, f"its files could not be compared: {text}"))
    is_damage = isinstance(error, CorruptFileError) and not isinstance(error, UnsafePathError)
    file = os.path.relpath(str(error.path), mirror) if isinstance(error, CorruptFileError) else ""
    if is_damage and file and not file.startswith(".."):
        assert isinstance(error, CorruptFileError)
        findings.add(
            Finding(
                severity=Severity.DAMAGE,
                kind=f"{name}.unreadable",
                part=name,
                file=file,
                position=error.position,
                found=error.reason.replace(mirror, surveyed.root),
                expected="a file that the plugin can read",
                advice=f"reput rebuild {shlex.quote(surveyed.root)} {name}",
            )
        )
        return
    # Not checked by mishap, and so not known to be healthy.
    findings.add(
        Finding(
            severity=Severity.WARNING,
            kind=f"{name}.not-compared",
            part=name,
            file=name,
            found=text,
            expected="files that can be compared",
            advice="see to the reason, and verify again; --scratch names a directory with space",
        )
    )


@attrs.frozen
class _Judged:
    """What differences are judged by."""

    root: str
    """The store's directory."""
    end: int
    """Where the log ends."""
    was_closed: bool
    is_log_damaged: bool
    """Whether records cannot be read, or are known to have changed since they were written."""
    is_log_vouched: bool
    """Whether checksums cover every byte of every record that was read, and match."""
    grows: bool
    """Whether files grow (`reput.CommitLogConfig.grows`)."""


def _findings_of(
    built: Rebuilt,
    traces: Traces,
    surveyed: Survey,
    findings: Findings,
    not_checked: list[NotChecked],
    judged: _Judged,
) -> Sequence[Finding]:
    name = built.plugin
    not_checked += [NotChecked(name, what) for what in built.not_compared]
    reached = traces.dispatched_to(name)
    rebuild = f"reput rebuild {shlex.quote(judged.root)} {name}"
    findings.add_count(f"{name}.more", Severity.DAMAGE, built.more_count)
    repair = (
        f"repair the log first, because {rebuild} follows it: reput repair "
        f"{shlex.quote(judged.root)} NEW_DIRECTORY does both"
    )
    made: list[Finding] = []
    for each in built.differences or ():
        severity, kind, advice = Severity.DAMAGE, each.kind, rebuild
        suspects: tuple[str, ...] = ()
        if _is_unfinished(each, reached, was_closed=judged.was_closed):
            severity, kind = Severity.NOTICE, "unfinished"
            advice = "nothing: it is completed when the store is next opened for writing"
        elif each.path.startswith(f"{COMMIT_LOG}/"):
            # A checksum shows that the log has changed; making the checksum again would hide it.
            severity = Severity.LOSS
            advice = (
                "restore the file from a copy, or accept the message as it is; "
                f"do not rebuild {name} first, because it is the evidence of what was written"
            )
        elif _is_beyond(each, judged.end):
            severity, kind = Severity.LOSS, "beyond-log"
            advice = f"look for a copy of the log's end; else {rebuild} forgets these messages"
        elif judged.is_log_damaged:
            if contradicts(each) and not judged.is_log_vouched:
                suspects = (COMMIT_LOG, each.path)
            advice = repair
        elif contradicts(each) and not judged.is_log_vouched:
            suspects = (COMMIT_LOG, each.path)
            advice = advice_of(judged.root, [name], [each.path])
        made.append(
            Finding(
                severity=severity,
                kind=f"{name}.{kind}",
                part=name,
                file=each.path,
                position=each.position,
                size=each.size or None,
                found=each.found or each.reason,
                expected=each.expected or "what follows from the log",
                messages=each.messages,
                message_count=each.message_count,
                suspects=suspects,
                advice=advice,
            )
        )
    advice = repair if judged.is_log_damaged else rebuild
    return once_for_each_cut(
        made, built.built_sizes, surveyed, findings, advice, grows=judged.grows
    )


def _is_beyond(difference: Difference, end: int) -> bool:
    """Whether the store's files know messages after the log's end, which it has lost."""
    places = [each.physical_offset for each in difference.messages]
    return bool(places) and all(place is not None and place >= end for place in places)


def _is_unfinished(difference: Difference, reached: int | None, *, was_closed: bool) -> bool:
    """Whether the plugin had not come so far, so that the next opening adds what is missing."""
    if was_closed or difference.kind == "order":
        return False
    places = [each.physical_offset for each in difference.messages]
    known = [place for place in places if place is not None]
    if not known or reached is None:
        # RocketMQ says nowhere how far its queues are; an opening after a crash looks itself.
        return difference.is_absent or not known
    return max(known) >= reached
