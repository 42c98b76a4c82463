"""The outcome of a verification in one line, which claims no more than was checked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from reput_tools.doctor.findings import Severity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from reput_tools.doctor.findings import Finding, Report

_PLACES: Final = {
    "consumerOffset.json": "consumer groups lose their place",
    "delayOffset.json": "delayed messages lose their place",
    "lmqConsumerOffset.json": "consumer groups of light queues lose their place",
    "subscriptionGroup.json": "consumer groups are not served",
    "topics.json": "consumer groups are not served",
}
"""What a broker does not know any more without one of its files, by name."""


def places_lost(name: str) -> str:
    """Return what is lost with a file of ``config/`` that cannot be read."""
    base = name.rpartition("/")[2].removesuffix(".bak")
    return _PLACES.get(base, f"what config/{base} held is lost")


def verdict_of(report: Report) -> str:
    """Return what came of a check."""
    if report.is_healthy:
        return _healthy(report)
    if report.worst is Severity.WARNING:
        return "no damage is known, but look at the warnings"
    if report.worst is Severity.LOSS:
        first = "messages of the log are lost, or cannot be read"
        return "; ".join([first, *dict.fromkeys(_damages(report))])
    facts = dict.fromkeys(_damages(report))
    return f"damaged: {'; '.join(facts)}. All checksums of the log match{_either(report)}."


def _healthy(report: Report) -> str:
    if not report.checked.messages:
        return "nothing wrong was found, but the log has no message that could be checked"
    text = "healthy: nothing wrong was found"
    if report.worst is not None:
        text = "healthy; see the notices above"
    return (
        f"{text}; the parts that were not checked are listed above" if report.not_checked else text
    )


def _damages(report: Report) -> Iterator[str]:
    """Yield what the damage beside lost messages means, the worst first."""
    found = [each for each in report.findings if each.severity is Severity.DAMAGE]
    suspects = [each for each in found if each.suspects]
    if suspects:
        files = dict.fromkeys(_word(file) for each in suspects for file in each.suspects[1:])
        *others, last = "the log", *files
        yield f"{', '.join(others)} and {last} disagree{_about(suspects)}"
    for each in found:
        if _is_config(each):
            yield f"{places_lost(each.file)}, unless {each.file} is restored"
    derived = [each for each in found if not each.suspects and each.part not in _BESIDE]
    cut = [each for each in derived if each.kind.endswith(".cut")]
    derived = [each for each in derived if each not in cut]
    if cut:
        names = dict.fromkeys(each.part for each in cut)
        yield f"files of {', '.join(names)} are cut short, and cannot be rebuilt from the log alone"
    if derived:
        names = dict.fromkeys(each.part for each in derived)
        yield f"files of {', '.join(names)} are damaged, and can be rebuilt from the log"
    if any(each.part in _BESIDE and not _is_config(each) for each in found):
        yield "small files beside the log are damaged; each finding says what that means"


def _either(report: Report) -> str:
    is_doubtful = any(each.suspects for each in report.findings)
    return ", so either may be wrong" if is_doubtful else ""


def _word(file: str) -> str:
    """Return what people call the files in a directory of a store."""
    directory = file.partition("/")[0]
    return {"index": "the key index", "consumequeue": "the queues"}.get(directory, directory)


def _about(findings: list[Finding]) -> str:
    """Return about how many messages, if each finding names all of its messages."""
    if any(each.message_count != len(each.messages) or not each.messages for each in findings):
        return ""
    places = {message.physical_offset for each in findings for message in each.messages}
    return f" about {len(places):,} message{'s' if len(places) > 1 else ''}"


_BESIDE: Final = frozenset({"log", "checkpoint", "config", "reput", "store"})


def _is_config(finding: Finding) -> bool:
    return finding.part == "config"
