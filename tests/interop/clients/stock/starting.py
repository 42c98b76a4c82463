"""Starts a client for a test, or skips the test with a word."""

from __future__ import annotations

from pathlib import Path

import pytest

from reput_consumer import TopicSettings
from reput_server import LocalBroker
from stock.fives import FiveProgram
from stock.kinds import Kind
from stock.program import Program, UnavailableError


def started(kind: Kind, directory: Path, broker: LocalBroker) -> Program:
    """Start a program that talks to a broker, or skip the test with a word."""
    try:
        program = kind.start(directory)
    except UnavailableError as error:
        pytest.skip(str(error))
    program.begin(broker.name_server)
    return program


def started_five(kind: Kind, directory: Path, endpoints: str, **options: object) -> FiveProgram:
    """Start a program with a client for release 5, or skip the test with a word.

    Args:
        kind: which client.
        directory: the program's home.
        endpoints: of the server.
        options: namespace, access_key, secret_key, tls.
    """
    try:
        program: FiveProgram = kind.start(directory)
    except UnavailableError as error:
        pytest.skip(str(error))
    program.begin(endpoints, **options)
    return program


def have_topic(broker: LocalBroker, name: str) -> None:
    """Make a topic of four queues, as an administrator does."""
    settings = TopicSettings(topic=name, read_queue_nums=4, write_queue_nums=4)
    broker.store.plugin("consumer").topics.put(settings)
