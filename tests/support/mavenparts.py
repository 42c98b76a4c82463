"""Fetches released Java parts with Maven, and compiles a program against them.

A project is a folder with a ``pom.xml`` that takes ``-Drocketmq.version``, builds into
``target-<version>`` (ignored by git), and writes the class path into ``classpath.txt`` there. It is
built once for each version, and again when its sources change.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

SMALL_JVM = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xmx256m")
"""Options of a JVM that starts quickly and leaves the machine to others."""
OPENED = tuple(
    f"--add-opens=java.base/{package}=ALL-UNNAMED"
    for package in ("java.nio", "sun.nio.ch", "jdk.internal.ref")
)
"""What RocketMQ's store reaches into."""

_BUILD_TIMEOUT = 900


class JavaUnavailableError(Exception):
    """The program cannot be built here; its text is one sentence for a skipped test."""


class JavaFailedError(Exception):
    """The program ended with an error; its text is what it printed."""


def build(project: Path, version: str) -> str:
    """Build ``project`` against a RocketMQ, unless that was done before; its class path.

    Raises:
        JavaUnavailableError: no Java, no Maven, or no artifacts.
        JavaFailedError: the program does not compile.
    """
    executable("java")
    target = project / f"target-{version}"
    with _locked(project / f"target-{version}.lock"):
        if not _is_built(project, target):
            shutil.rmtree(target, ignore_errors=True)
            _run_maven(project, version)
            (target / "fingerprint").write_text(_fingerprint(project), encoding="ascii")
    return os.pathsep.join([str(target / "classes"), *_jars(target)])


def executable(name: str) -> str:
    """The path of a program of the Java that is used here.

    Raises:
        JavaUnavailableError: there is none.
    """
    home = os.environ.get("JAVA_HOME")
    inside = shutil.which(name, path=str(Path(home) / "bin")) if home else None
    found = inside or shutil.which(name)
    if found is None:
        raise JavaUnavailableError(f"RocketMQ needs {name!r}, which is not here")
    return found


def _is_built(project: Path, target: Path) -> bool:
    fingerprint = target / "fingerprint"
    if not fingerprint.exists() or fingerprint.read_text(encoding="ascii") != _fingerprint(project):
        return False
    return all(Path(jar).exists() for jar in _jars(target))


def _run_maven(project: Path, version: str) -> None:
    maven = executable("mvn")
    command = [maven, "-B", "-ntp", "-q", "compile", f"-Drocketmq.version={version}"]
    done = subprocess.run(
        command, cwd=project, capture_output=True, text=True, timeout=_BUILD_TIMEOUT, check=False
    )
    if done.returncode == 0:
        return
    if "COMPILATION ERROR" in done.stdout:
        raise JavaFailedError(done.stdout)
    error = re.search(r"\[ERROR\] (.+)", re.sub(r"\x1b\[[0-9;]*m", "", done.stdout))
    reason = error[1][:300] if error else "it does not say why"
    raise JavaUnavailableError(f"Maven cannot resolve RocketMQ {version} here: {reason}")


def _jars(target: Path) -> list[str]:
    return (target / "classpath.txt").read_text(encoding="utf-8").strip().split(os.pathsep)


def _fingerprint(project: Path) -> str:
    digest = hashlib.sha256()
    for path in sorted([project / "pom.xml", *project.glob("src/**/*.*")]):
        digest.update(path.read_bytes())
    return digest.hexdigest()


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """One builder at a time: tests may run in several processes."""
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
