"""Where a derived file and the log contradict each other, and when nothing says which is wrong."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

import attrs

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from reput_tools.doctor.findings import Finding
    from reput_tools.offline import Difference, Rebuilt


def contradicts(difference: Difference) -> bool:
    """Whether a derived file says other than the log, so that either may be wrong.

    A file that lacks something, or that is there as a whole though nothing leads to it, is wrong.
    """
    return not difference.is_absent and difference.kind not in ("missing", "extra", "order")


def vouches(built: Rebuilt) -> bool:
    """Whether sums of all records were compared, and match the log."""
    return not (built.differences or built.not_compared or built.more_count)


def advice_of(root: str, plugins: Sequence[str], files: Sequence[str]) -> str:
    """Return what to do if files contradict a log whose checksums match.

    Args:
        root: the store's directory.
        plugins: that derived the files.
        files: relative to the store's directory.
    """
    named = files[0] if len(files) == 1 else "these files"
    rebuild = f"reput rebuild {shlex.quote(root)} {' '.join(plugins)}"
    return (
        f"find out which is wrong, the log or {named}: all checksums match. Compare the message "
        "with its producer, or with a copy of the store (reput diff), and keep both files until "
        f"then. Only if the log is right: {rebuild}, which makes {named} agree with the log"
    )


def one_for_each_message(root: str, findings: Iterable[Finding]) -> list[Finding]:
    """Return findings, with those about one and the same message joined into one.

    One changed byte of a record, say of its topic, shows in a queue, in another queue and in the
    index.

    Args:
        root: the store's directory.
        findings: of all plugins.
    """
    groups: dict[object, list[Finding]] = {}
    for number, each in enumerate(findings):
        offset = each.messages[0].physical_offset if each.message_count == 1 else None
        key = number if offset is None or not _is_derived(each) else (offset,)
        groups.setdefault(key, []).append(each)
    return [
        _joined(root, group) if any(each.suspects for each in group) else each
        for group in groups.values()
        for each in (group[:1] if any(each.suspects for each in group) else group)
    ]


def _is_derived(finding: Finding) -> bool:
    return bool(finding.suspects) or finding.kind.endswith((".missing", ".extra"))


def _joined(root: str, group: Sequence[Finding]) -> Finding:
    if len(group) == 1:
        return group[0]
    first = next(each for each in group if each.suspects)
    message = first.messages[0]
    files = [*dict.fromkeys(each.file for each in group)]
    name = f"{attrs.evolve(message, key=None)} at {message.physical_offset}"
    facts = (f"{each.file}: {_after(each.found, message.physical_offset)}" for each in group)
    expected = (f"{each.file}: {each.expected}" for each in group)
    return attrs.evolve(
        first,
        found=f"1 message disagrees with {len(files)} files: {name}. {'; '.join(facts)}",
        expected="; ".join(expected),
        suspects=("commitlog", *files),
        advice=advice_of(root, [*dict.fromkeys(each.part for each in group)], files),
    )


def _after(text: str, physical_offset: int | None) -> str:
    """Return what a finding says of a message, without its name."""
    return text.partition(f" at {physical_offset}: ")[2] or text
