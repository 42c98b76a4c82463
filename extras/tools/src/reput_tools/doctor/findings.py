"""What a check of a store finds: findings, how severe they are, and what was checked at all.

Packages that check a store make a `Finding` for each problem, collect them
in `Findings`, whose memory is bounded, and hand back one `Report`.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator
from typing import Any, Final

import attrs

from reput_tools.doctor.checksumcoverage import coverage_of
from reput_tools.offline import TouchedMessage

__all__ = [
    "FINDINGS_PER_KIND",
    "MESSAGES_PER_FINDING",
    "Checked",
    "Finding",
    "Findings",
    "NotChecked",
    "Report",
    "Severity",
    "TouchedMessage",
    "end_at",
    "finding_of_file",
]

FINDINGS_PER_KIND: Final = 1_000
"""Findings of one kind that are kept; those after them are counted."""
MESSAGES_PER_FINDING: Final = 20
"""Messages that a finding names; those after them are counted."""


class Severity(enum.IntEnum):
    """How bad a finding is; a later one is worse."""

    NOTICE = 0
    """Nothing is wrong: losses that are recorded, dead letters, bytes that a writer is writing."""
    WARNING = 1
    """No byte is known to be wrong, but somebody should look: strange files, offsets of consumers
    after the end of their queue, a plugin that is suspended."""
    DAMAGE = 2
    """Bytes are wrong that can be made again from the log, or from a copy: derived files,
    checkpoint, config. Until then reads may fail, or answer wrongly."""
    LOSS = 3
    """Bytes of the log are wrong or gone: messages cannot be read, and nothing else has them."""

    @property
    def word(self) -> str:
        """The name for people and for JSON: ``notice``, ``warning``, ``damage``, ``loss``."""
        return self.name.lower()

    @property
    def exit_code(self) -> int:
        """Exit code of a command whose worst finding is of this severity: 0, 7, 1 or 8."""
        return _EXIT_CODES[self]


# Those of `reput_tools.cli.kit.ExitCode`, which programs without a command line do without.
_EXIT_CODES: Final = {
    Severity.NOTICE: 0,
    Severity.WARNING: 7,
    Severity.DAMAGE: 1,
    Severity.LOSS: 8,
}


def _messages(messages: Iterable[TouchedMessage]) -> tuple[TouchedMessage, ...]:
    return tuple(messages)


@attrs.frozen(kw_only=True)
class Finding:
    """One thing that is not as it should be; plain values, which other processes can send."""

    severity: Severity
    kind: str
    """Stable short name, part and subject: ``log.body-crc``, ``consumequeue.bytes``."""
    part: str
    """``log``, ``checkpoint``, ``config``, ``reput``, ``store``, or the name of a plugin."""
    file: str
    """Relative to the store's directory; may be a directory, or a file that is missing."""
    position: int | None = None
    """File position of the first byte that is wrong; None where the file as a whole is meant."""
    size: int | None = None
    """Bytes that are wrong, or in doubt, from there; None where this is not known."""
    physical_offset: int | None = None
    """For damage of the log: the position as an offset in the log, bytes."""
    found: str
    expected: str
    messages: tuple[TouchedMessage, ...] = attrs.field(default=(), converter=_messages)
    """Messages that are touched: the first `MESSAGES_PER_FINDING` of them."""
    message_count: int | None = None
    """Messages that are touched in all; None where this cannot be known."""
    suspects: tuple[str, ...] = ()
    """Files that contradict each other where nothing says which of them is wrong."""
    advice: str
    """What to do next; names a command where there is one."""

    def as_json(self) -> dict[str, Any]:
        """Return plain values."""
        fields = {
            name: getattr(self, name)
            for name in attrs.fields_dict(Finding)
            if name not in ("severity", "messages")
        }
        messages = [attrs.asdict(each) for each in self.messages]
        return {"severity": self.severity.word, **fields, "messages": messages}


def finding_of_file(
    severity: Severity,
    kind: str,
    part: str,
    file: str,
    found: str,
    expected: str,
    advice: str,
    *,
    position: int | None = None,
) -> Finding:
    """Return a finding that touches no messages: about a small file, or one that should be there.

    The arguments are those of `Finding`.
    """
    return Finding(
        severity=severity,
        kind=kind,
        part=part,
        file=file,
        position=position,
        found=found,
        expected=expected,
        advice=advice,
    )


def end_at(size: int) -> str:
    """Return what is found where a file of ``size`` bytes ends too early."""
    return f"end of file at byte {size}"


class Findings:
    """Collects findings in bounded memory: the first of each kind, and their number."""

    def __init__(self, per_kind: int = FINDINGS_PER_KIND) -> None:
        self._per_kind = per_kind
        self._kept: dict[str, list[Finding]] = {}
        self.counts: dict[str, int] = {}
        """Findings in all, by kind."""
        self._worst: Severity | None = None

    def add(self, finding: Finding) -> None:
        """Keep a finding, or count it where enough of its kind are kept."""
        kept = self._kept.setdefault(finding.kind, [])
        if len(kept) < self._per_kind:
            kept.append(finding)
        self.add_count(finding.kind, finding.severity, 1)

    def add_count(self, kind: str, severity: Severity, count: int) -> None:
        """Count findings that were not kept where they were made."""
        if count:
            self.counts[kind] = self.counts.get(kind, 0) + count
            self._worst = max(severity, self._worst or severity)

    def extend(self, findings: Iterable[Finding]) -> None:
        """Add several findings."""
        for finding in findings:
            self.add(finding)

    def has_size_of(self, file: str) -> bool:
        """Return whether a finding says that a derived file has a wrong size."""
        return any(each.file == file for each in self._sizes())

    def take_size_of(self, file: str) -> None:
        """Take out the finding that says that a derived file has a wrong size, if there is one."""
        for finding in self._sizes():
            if finding.file == file:
                self._kept[finding.kind].remove(finding)
                self.counts[finding.kind] -= 1
                if not self.counts[finding.kind]:
                    del self.counts[finding.kind]

    def _sizes(self) -> list[Finding]:
        return [
            each for kind, kept in self._kept.items() if kind.endswith(".size") for each in kept
        ]

    @property
    def worst(self) -> Severity | None:
        """The severity of the worst finding; None without findings."""
        return self._worst

    def __iter__(self) -> Iterator[Finding]:
        """Yield what was kept: the worst first, then by part, file and position."""
        kept = [finding for each in self._kept.values() for finding in each]
        kept.sort(key=lambda each: (-each.severity, each.part, each.file, each.position or 0))
        return iter(kept)


@attrs.define
class Checked:
    """How much was checked; the parts of a check add to it."""

    log_bytes: int = 0
    derived_bytes: int = 0
    """Bytes of files that plugins have derived."""
    messages: int = 0
    """Records, with those that fill losses."""
    fillers: int = 0
    """Records that fill losses, and are no messages."""
    files: int = 0
    plugins: list[str] = attrs.field(factory=list)
    """Plugins whose files were compared with the log."""
    checksummed: int = 0
    """Messages with a checksum of all bytes of their records, which matched."""
    has_sums: bool = False
    """Whether the sums of the plugin ``integrity`` cover every record, and matched."""


@attrs.frozen
class NotChecked:
    """A part that was not checked, or not in full, and why."""

    part: str
    reason: str


def _findings(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    return tuple(findings)


def _not_checked(parts: Iterable[NotChecked]) -> tuple[NotChecked, ...]:
    return tuple(dict.fromkeys(parts))


@attrs.frozen(kw_only=True)
class Report:
    """What came of a check of one store."""

    path: str
    """The store's directory."""
    findings: tuple[Finding, ...] = attrs.field(converter=_findings)
    """The worst first; at most `FINDINGS_PER_KIND` of each kind."""
    counts: dict[str, int]
    """Findings in all, by kind, with those that are not listed."""
    worst: Severity | None
    checked: Checked
    not_checked: tuple[NotChecked, ...] = attrs.field(converter=_not_checked)
    seconds: float

    @property
    def is_healthy(self) -> bool:
        """Whether nothing worse than a notice was found."""
        return self.worst is None or self.worst is Severity.NOTICE

    @property
    def not_covered(self) -> str:
        """Which bytes no checksum covers, as a sentence."""
        checked = self.checked
        return coverage_of(checked.messages, checked.checksummed, has_sums=checked.has_sums)

    @property
    def exit_code(self) -> int:
        """The exit code for the shell; see `Severity.exit_code`."""
        return 0 if self.worst is None else self.worst.exit_code

    def as_json(self) -> dict[str, Any]:
        """Return plain values."""
        return {
            "path": self.path,
            "healthy": self.is_healthy,
            "worst": None if self.worst is None else self.worst.word,
            "not_covered": self.not_covered,
            "counts": dict(self.counts),
            "findings": [each.as_json() for each in self.findings],
            "checked": attrs.asdict(self.checked),
            "not_checked": [attrs.asdict(each) for each in self.not_checked],
            "seconds": self.seconds,
        }
