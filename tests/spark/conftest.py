"""Stores that are read, and one Spark session for all tests that need a JVM."""

from __future__ import annotations

import contextlib
import os
import types

import pytest
from sparkstores import fill


def pytest_configure(config):
    # Py4J leaves the sockets to its JVM to the garbage collector, which finds them in any test.
    config.addinivalue_line(
        "filterwarnings",
        "ignore:Exception ignored in. <socket.socket:pytest.PytestUnraisableExceptionWarning",
    )


@contextlib.contextmanager
def _said_to(path):
    """Processes that are started meanwhile write what they say to a file, not to the terminal."""
    with open(path, "ab") as file:
        kept = {number: os.dup(number) for number in (1, 2)}
        for number in kept:
            os.dup2(file.fileno(), number)
        try:
            yield
        finally:
            for number, before in kept.items():
                os.dup2(before, number)
                os.close(before)


@pytest.fixture(scope="session")
def started(tmp_path_factory):
    """The session, and the file that its JVM and its workers write to; see ``spark``."""
    pytest.importorskip("pyspark")
    from reput_spark import SparkReputError, local_session

    said = tmp_path_factory.mktemp("said") / "said.txt"
    # What a session makes once for a user is not made for one who runs tests.
    patch = pytest.MonkeyPatch()
    patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
    try:
        with _said_to(said):
            session = local_session(
                # More than one failure of a task is let pass: tests look at a second try.
                "local[2,3]",
                name="reput-tests",
                quick=True,
                config={
                    "spark.driver.memory": "1g",
                    "spark.sql.warehouse.dir": str(tmp_path_factory.mktemp("warehouse")),
                    "spark.sql.artifact.root.dir": str(tmp_path_factory.mktemp("artifacts")),
                    # Compiling code for a few rows takes longer than going through them without.
                    "spark.sql.codegen.wholeStage": "false",
                    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
                },
            )
    except SparkReputError as error:
        pytest.skip(str(error))
    yield types.SimpleNamespace(session=session, said=said, at_start=said.read_text())
    session.stop()
    patch.undo()


@pytest.fixture(scope="session")
def spark(started):
    """A local Spark session; starting one takes seconds, so that all tests share it."""
    return started.session


class _Lasting:
    """The session of all tests, which no command stops."""

    def __init__(self, spark):
        self._spark = spark

    def __getattr__(self, name):
        return getattr(self._spark, name)

    def stop(self):
        pass


@pytest.fixture(scope="session")
def lasting(spark):
    """The session, for what stops a session when it is done."""
    return _Lasting(spark)


@pytest.fixture(scope="session")
def plain_store(tmp_path_factory):
    """Directory of a store of some files: four topics, keys, tags, properties, bodies that differ.

    Only read it: tests share it.
    """
    root = tmp_path_factory.mktemp("plain") / "store"
    fill(root)
    return root
