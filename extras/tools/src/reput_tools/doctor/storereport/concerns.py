"""What in a report somebody should look at, the worst first, each with the next step."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from reput.plugin import how_to_install
from reput_tools.cli.kit import format_count, format_duration, format_size
from reput_tools.doctor.findings import Severity
from reput_tools.doctor.storereport.reportmodel import Concern

if TYPE_CHECKING:
    from reput_tools.doctor.storereport.reportmodel import StoreReport

_HOUR_MS: Final = 3_600_000
_LAGS_MAX: Final = 5
"""Groups of which a concern names each."""


def concerns_of(report: StoreReport) -> list[Concern]:
    """Return what a look at the report should begin with."""
    found = [
        *_damage(report),
        *_plugins(report),
        *_consumers(report),
        *_delays(report),
        *_transactions(report),
        *_retries(report),
    ]
    return sorted(found, key=lambda each: -each.severity)  # stable


def _damage(report: StoreReport) -> Iterator[Concern]:
    root = shlex.quote(report.path)
    if report.damage_count:
        places = format_count(report.damage_count, "place")
        size = format_size(report.damaged_size)
        yield Concern(
            Severity.LOSS,
            f"the log is damaged: {size} in {places}",
            f"reput verify {root} names the affected messages; "
            f"reput repair {root} NEW_DIRECTORY builds a repaired copy",
        )
    if report.loss_count:
        yield Concern(
            Severity.NOTICE,
            f"losses of the log that are recorded: {report.loss_count:,}",
            f"reput losses {root} lists them",
        )
    for problem in report.problems:
        yield Concern(Severity.WARNING, problem, f"reput verify {root} says what to do about it")


def _plugins(report: StoreReport) -> Iterator[Concern]:
    root = shlex.quote(report.path)
    for each in report.plugins:
        if each.installed is None:
            yield Concern(
                Severity.WARNING,
                f"the plugin {each.plugin} is not installed here; its files were not looked at",
                how_to_install(each.plugin),
            )
        if each.state == "suspended":
            yield Concern(
                Severity.WARNING,
                f"the plugin {each.plugin} is suspended"
                + (f": {each.last_error}" if each.last_error else ""),
                f"reput resume {root} {shlex.quote(each.plugin)}",
            )
        elif each.behind and not report.log.is_open:
            yield Concern(
                Severity.WARNING,
                f"the plugin {each.plugin} is {format_size(each.behind)} behind the log",
                f"the next opening for writing brings it forward, or: reput backfill {root} "
                f"{shlex.quote(each.plugin)}",
            )
        if each.dead_letters:
            count = format_count(each.dead_letters, "message")
            yield Concern(
                Severity.WARNING,
                f"the plugin {each.plugin} has skipped {count}",
                f"reput dead-letters {root} {shlex.quote(each.plugin)}",
            )


def _consumers(report: StoreReport) -> Iterator[Concern]:
    behind = [each for each in report.groups or () if each.lag and each.kind != "system"]
    for each in behind[:_LAGS_MAX]:
        since = ""
        if each.waiting_since_timestamp is not None:
            age = max(report.made_timestamp - each.waiting_since_timestamp, 0) / 1000
            since = f", the oldest for {format_age(age)}"
        yield Concern(
            Severity.NOTICE,
            f"the group {each.group} has {format_count(each.lag, 'message')} of {each.topic} "
            f"to read{since}",
            "see whether its consumers run, and whether they keep up",
        )
    if len(behind) > _LAGS_MAX:
        more = format_count(len(behind) - _LAGS_MAX, "further group")
        yield Concern(
            Severity.NOTICE, f"{more} have messages to read", "the table of groups lists them"
        )
    ahead = [each for each in report.groups or () if each.ahead]
    for each in ahead[:_LAGS_MAX]:
        yield Concern(
            Severity.WARNING,
            f"the group {each.group} has offsets of {each.topic} after the end of "
            f"{format_count(each.ahead, 'queue')}: it will not see the next messages there",
            "set the group's offsets back, as mqadmin resetOffsetByTime does",
        )


def _delays(report: StoreReport) -> Iterator[Concern]:
    timer = report.timer
    if timer is not None and timer.overdue and not report.log.is_open:
        root = shlex.quote(report.path)
        in_levels = sum(each.waiting or 0 for each in report.delay_levels)
        more = f"; {in_levels:,} more wait in delay levels, due or not" if in_levels else ""
        yield Concern(
            Severity.NOTICE,
            f"{format_count(timer.overdue, 'message')} on the timer wheel are overdue{more}",
            f"reput schedule {root} lists when all of them are due. A broker that opens the store "
            "for writing delivers them, or reput with the plugin schedule; if a broker has written "
            "the store, reput delivers only with the option deliver='always'",
        )


def _transactions(report: StoreReport) -> Iterator[Concern]:
    found = report.transactions
    if not found.open_count or found.oldest_timestamp is None:
        return
    age = max(report.made_timestamp - found.oldest_timestamp, 0)
    severity = Severity.WARNING if age >= _HOUR_MS else Severity.NOTICE
    count = format_count(found.open_count, "transaction")
    yield Concern(
        severity,
        f"{count} neither committed nor rolled back, the oldest open for {format_age(age / 1000)}",
        "ask the producers whose groups the table of transactions names",
    )


def _retries(report: StoreReport) -> Iterator[Concern]:
    dead = [each for each in report.retries if each.dead_letters]
    for each in dead[:_LAGS_MAX]:
        yield Concern(
            Severity.WARNING,
            f"the group {each.group} has given up {format_count(each.dead_letters, 'message')}",
            f"reput cat {shlex.quote(report.path)} {shlex.quote('%DLQ%' + each.group)}",
        )


def format_age(seconds: float) -> str:
    """Return an age: as a duration, or in days from two days on."""
    days = seconds / 86_400
    return f"{days:,.0f} days" if days >= 2 else format_duration(seconds)
