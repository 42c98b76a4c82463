"""What a command runs on, and the bar that shows how far it is."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

import click
from click.core import ParameterSource

from reput.installhints import install_command
from reput_tools.cli.kit import ExitCode, Failure

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from reput_tools.cli.kit import ProgressBar
    from reput_tools.offline import Engine


def progress_of(label: str) -> ProgressBar:
    """Return a bar that counts bytes; it is quiet where stderr is not a terminal."""
    from reput_tools.cli.kit import ProgressBar

    return ProgressBar(label, None, "bytes")


@contextlib.contextmanager
def engine_of(master: str, jobs: int | None) -> Iterator[Engine]:
    """Open an engine: processes of this machine where their number is given, else Spark.

    Raises:
        Failure: PySpark is not installed, or a job has failed.
        click.UsageError: a master was named, too.
    """
    context = click.get_current_context(silent=True)
    source = None if context is None else context.get_parameter_source("master")
    if jobs is not None and source is ParameterSource.COMMANDLINE:
        raise click.UsageError(
            "--jobs means processes of this machine and --master names a Spark: give one"
        )
    if jobs is not None:
        from reput_arrow.export.command.jobfailures import failures
        from reput_tools.offline import LocalEngine

        with failures(), LocalEngine(jobs) as engine:
            yield engine
        return
    from reput_spark.jobs.sparkengine import SparkEngine

    with spark_at(master, ", or use --jobs") as session:
        yield SparkEngine(session)


@contextlib.contextmanager
def spark_at(master: str, instead: str = "", *, quick: bool = False) -> Iterator[SparkSession]:
    """Start a session, and stop it at the end.

    Args:
        master: where Spark runs.
        instead: what to do without Spark, for the message that it is not installed.
        quick: see `reput_spark.local_session`.

    Raises:
        Failure: PySpark is not installed, or a job has failed.
    """
    from reput_arrow.export.command.jobfailures import failures

    try:
        import pyspark  # noqa: F401 - reports that it is missing before anything is begun
    except ImportError:
        raise Failure(
            f"PySpark is not installed: {install_command('spark')}{instead}", ExitCode.UNAVAILABLE
        ) from None
    session = session_of(master, quick=quick)
    try:
        with failures():
            yield session
    finally:
        session.stop()


def session_of(master: str, *, quick: bool = False) -> SparkSession:
    """Start a session at ``master``; ``sc://`` means Spark Connect.

    Args:
        master: where Spark runs.
        quick: see `reput_spark.local_session`.
    """
    if master.startswith("sc://"):
        from pyspark.sql import SparkSession

        return SparkSession.builder.remote(master).getOrCreate()
    from reput_spark.command.jvmstderr import stderr_aside
    from reput_spark.session.localsession import local_session

    with stderr_aside():
        return local_session(master, quick=quick)
