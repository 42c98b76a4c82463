"""Errors of jobs as the command line shows them: without their codes, with its exit codes."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Final

import click

from reput_arrow.codederrors import CodedError
from reput_tools.cli.kit import ExitCode, Failure, format_count, warn

__all__ = ["end_with_damage", "failures", "warn_of_damage"]

_CODES: Final = {
    "DAMAGED": ExitCode.DAMAGED,
    "DATA_LOSS": ExitCode.DAMAGED,
    "LOCKED": ExitCode.LOCKED,
    "NO_LOG": ExitCode.NOT_FOUND,
    "NO_TOPIC": ExitCode.NOT_FOUND,
    "ROW": ExitCode.REFUSED,
}


@contextlib.contextmanager
def failures(paths: Sequence[str] = (), topics: Sequence[str] = ()) -> Iterator[None]:
    """Turn errors of jobs into failures.

    Args:
        paths: the stores, and
        topics: the topics that were asked for, to suggest another topic.

    Raises:
        Failure: in the place of a `CodedError`.
    """
    try:
        yield
    except CodedError as error:
        code = _CODES.get(error.code, ExitCode.UNAVAILABLE)
        hint = _meant(paths, topics) if code is ExitCode.NOT_FOUND else ""
        raise Failure(f"{error.reason}{hint}", code) from error


def _meant(paths: Sequence[str], topics: Sequence[str]) -> str:
    """Return the end of an error's text that names a topic that was meant, or nothing."""
    from reput_tools.cli.kit import did_you_mean, stored_topics

    known = [topic for path in paths for topic in stored_topics(path)]
    unknown = [topic for topic in topics if topic not in known]
    return next(filter(None, (did_you_mean(topic, known) for topic in unknown)), "")


def end_with_damage(damage_count: int) -> None:
    """End with the exit code of damage, if places were left out."""
    warn_of_damage(damage_count)
    if damage_count:
        raise click.exceptions.Exit(ExitCode.DAMAGED)


def warn_of_damage(damage_count: int) -> None:
    """Say how many places were left out, if there are any."""
    if damage_count:
        warn(
            f"{format_count(damage_count, 'damaged place')} left out; "
            "`reput verify` lists what is damaged"
        )
