"""The stock clients' load: one JVM for the whole case, with the program in `java/` or `java5/`."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any, Self

import psutil

from benchmarks.served.servers import VERSION, support

_HERE = Path(__file__).resolve().parent
VERSION_5 = "5.2.0"
"""Of the client for release 5, which speaks gRPC."""


class JavaLoad:
    """Does the given tasks one after the other; a context manager."""

    def __init__(
        self,
        directory: Path,
        project: str = "java",
        version: str = VERSION,
        main: str = "reput.load.Load",
    ) -> None:
        """Build and start the program.

        Args:
            directory: for its output.
            project: the folder of the program.
            version: of the client.
            main: the class that is started.

        Raises:
            mavenparts.JavaUnavailableError: there is no Java, no Maven, or no artifacts.
        """
        maven = support("mavenparts")
        class_path = maven.build(_HERE / project, version)
        command = [maven.executable("java"), "-Xmx512m", *maven.OPENED]
        command += [f"-Duser.home={directory}", "-Drocketmq.client.logUseSlf4j=true"]
        with (directory / "load.log").open("w") as errors:
            self._process = subprocess.Popen(
                [*command, "-cp", class_path, main],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.communicate()

    def _cpu_seconds(self) -> float:
        times = psutil.Process(self._process.pid).cpu_times()
        return float(times.user + times.system)

    def do(self, *words: object) -> dict[str, Any]:
        """Do one piece of work; return what was measured, and the client's processor time, s.

        Raises:
            RuntimeError: it failed.
        """
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        before = self._cpu_seconds()
        self._process.stdin.write("\t".join(map(str, words)) + "\n")
        self._process.stdin.flush()
        for line in self._process.stdout:
            if line.startswith("{"):  # libraries print, too
                row: dict[str, Any] = json.loads(line)
                if "error" in row:
                    raise RuntimeError(f"{words[0]}: {row['error']}")
                return row | {"client": self._cpu_seconds() - before}
        raise RuntimeError(f"{words[0]}: the client has ended with {self._process.wait()}")


def java5_load(directory: Path) -> JavaLoad:
    """Start the load of the client for release 5; as `JavaLoad`."""
    return JavaLoad(directory, "java5", VERSION_5, "reput.load5.Load")
