"""Stores that are read, and one Spark session for all tests that need a JVM."""

from __future__ import annotations

import pytest
from sparkstores import fill


def pytest_configure(config):
    # Py4J leaves the sockets to its JVM to the garbage collector, which finds them in any test.
    config.addinivalue_line(
        "filterwarnings",
        "ignore:Exception ignored in. <socket.socket:pytest.PytestUnraisableExceptionWarning",
    )


@pytest.fixture(scope="session")
def spark(tmp_path_factory):
    """A local Spark session; starting one takes seconds, so that all tests share it."""
    pytest.importorskip("pyspark")
    from reput_spark import SparkReputError, local_session

    try:
        session = local_session(
            # More than one failure of a task is let pass, so that tests can look at a second try.
            "local[2,3]",
            name="reput-tests",
            quick=True,
            config={
                "spark.driver.memory": "1g",
                "spark.sql.warehouse.dir": str(tmp_path_factory.mktemp("warehouse")),
                "spark.sql.artifact.root.dir": str(tmp_path_factory.mktemp("artifacts")),
            },
        )
    except SparkReputError as error:
        pytest.skip(str(error))
    yield session
    session.stop()


@pytest.fixture(scope="session")
def plain_store(tmp_path_factory):
    """Directory of a store of some files: four topics, keys, tags, properties, bodies that differ.

    Only read it: tests share it.
    """
    root = tmp_path_factory.mktemp("plain") / "store"
    fill(root)
    return root
