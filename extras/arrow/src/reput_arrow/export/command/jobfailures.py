"""Errors of jobs as the command line shows them: without their codes, with its exit codes."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator, Sequence
from typing import Final

import click

from reput_arrow.codederrors import CodedError
from reput_tools.cli.kit import (
    ExitCode,
    Failure,
    check_topics,
    format_count,
    no_topic,
    stored_topics,
    warn,
)

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
    """Turn errors of jobs into failures, and warnings about unknown topics into lines.

    Args:
        paths: the stores, and
        topics: the topics that were asked for.

    Raises:
        Failure: in the place of a `CodedError`; the log has no message of any of the topics.
    """
    known = {topic for path in paths for topic in stored_topics(path)}
    with _without_warnings() if known else contextlib.nullcontext():
        try:
            # The log may have messages of deleted topics, so only the job knows about all of them.
            if not known.isdisjoint(topics):
                check_topics(paths[0], topics, known)
            yield
        except CodedError as error:
            if error.code == "NO_TOPIC" and known and topics:
                raise no_topic(paths[0], topics[0], known) from error
            raise Failure(error.reason, _CODES.get(error.code, ExitCode.UNAVAILABLE)) from error


@contextlib.contextmanager
def _without_warnings() -> Iterator[None]:
    """Drop the library's warnings about unknown topics: the command reports them itself."""
    logger = logging.getLogger("reput_arrow.reader.unknowntopics")

    def drop(record: logging.LogRecord) -> bool:
        return False

    logger.addFilter(drop)
    try:
        yield
    finally:
        logger.removeFilter(drop)


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
