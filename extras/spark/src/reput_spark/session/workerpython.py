"""The Python that Spark's workers on this machine run: this one, with what is installed in it.

Spark puts a copy of PySpark in a zip, and a jar, before everything that is installed. A worker
imports from the zip without bytecode, and looks through both again for every task and every plan:
0.1 s of a core each time, three times a query. A script that leaves out these two starts workers
in a third of the time, and halves the time of a small query.
"""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Mapping

from reput_spark.session.cachedscripts import cache_directory, write_script

_SCRIPT = """\
#!/bin/sh
# Starts Python without the copy of PySpark in Spark's own zip and jar, which is installed, too.
kept=
set -f
IFS=:
for each in $PYTHONPATH; do
  case "$each" in
    {home}/python/lib/*.zip | {home}/jars/*.jar) ;;
    *) kept="$kept${{kept:+:}}$each" ;;
  esac
done
unset IFS
if [ -n "$kept" ]; then export PYTHONPATH="$kept"; else unset PYTHONPATH; fi
exec {python} "$@"
"""


def worker_python(variables: Mapping[str, str]) -> str:
    """Return the command for ``PYSPARK_PYTHON``: a script, or this Python where none can be kept.

    Args:
        variables: the environment's.
    """
    import pyspark

    home = os.path.dirname(os.path.abspath(pyspark.__file__))
    directory = cache_directory(variables)
    # Another Spark than the installed package has a PySpark of its own, which belongs to it.
    is_other = os.path.realpath(variables.get("SPARK_HOME") or home) != os.path.realpath(home)
    if directory is None or is_other:
        return sys.executable
    text = _SCRIPT.format(home=shlex.quote(home), python=shlex.quote(sys.executable))
    try:
        return str(write_script(directory, "python", "python3", text))
    except OSError:
        return sys.executable
