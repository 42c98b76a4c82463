"""Start a quiet Spark, with the settings that were measured to matter."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from reput_spark.session.java import find_java
from reput_spark.session.workerpython import worker_python

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_QUICK = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
_QUIET = Path(__file__).with_name("log4j2-quiet.properties")
_JAVA_OPTIONS = "spark.driver.extraJavaOptions"


def local_session(
    master: str = "local[*]",
    *,
    name: str = "reput",
    quick: bool = False,
    quiet: bool = True,
    config: Mapping[str, str] | None = None,
) -> SparkSession:
    """Start a Spark session in which ``format("reput")`` is known.

    Args:
        master: where to run: ``local[2]``, ``spark://host:7077``, …
        name: of the application.
        quick: start sooner and run slower later; for tests and short jobs.
        quiet: nothing of Spark's own log; an error still comes as an exception.
        config: further settings; they win over those made here.

    Raises:
        SparkReputError: no Java to run it on.
        ImportError: PySpark is not installed.
    """
    is_local = master.startswith("local")
    prepare_environment(is_local=is_local)
    from pyspark.sql import SparkSession

    from reput_spark.source.dataframes import register

    builder = SparkSession.builder.master(master).appName(name)
    settings = _settings(is_local=is_local, quick=quick, quiet=quiet)
    for key, value in (config or {}).items():
        if key == _JAVA_OPTIONS and key in settings:
            value = f"{settings[key]} {value}"  # the last one of two that disagree wins
        settings[key] = value
    for key, value in settings.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    register(session)
    return session


def _settings(*, is_local: bool, quick: bool, quiet: bool) -> dict[str, str]:
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
    }
    options = []
    if is_local:
        # Set without a lookup of this machine's name, which may have no answer.
        settings["spark.driver.host"] = settings["spark.driver.bindAddress"] = "127.0.0.1"
    if quiet:
        options.append(shlex.quote(f"-Dlog4j2.configurationFile={_QUIET.as_uri()}"))
    if quick:
        options.append(_QUICK)
        settings["spark.sql.shuffle.partitions"] = "2"
    if options:
        settings[_JAVA_OPTIONS] = " ".join(options)
    return settings


def prepare_environment(*, is_local: bool = True) -> None:
    """Set the environment variables for the Java and the Python that Spark runs.

    Args:
        is_local: whether everything runs on this machine; else workers elsewhere start the Python
            that they find, unless ``PYSPARK_PYTHON`` says which.

    Raises:
        SparkReputError: no Java to run it on.
    """
    os.environ["JAVA_HOME"] = find_java()
    if is_local:
        if "PYSPARK_PYTHON" not in os.environ:
            # `python3` from PATH otherwise, which knows nothing of a virtual environment.
            os.environ["PYSPARK_PYTHON"] = worker_python(os.environ)
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
