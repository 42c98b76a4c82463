"""`LineProcess`: a process that takes work line by line, as JSON, and answers each line."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Self

Row = dict[str, Any]
_TRIES = 5
_END_SECONDS = 60


class LineProcess:
    """A process in which stock clients run, and perhaps ``mqadmin``."""

    failed: ClassVar[type[Exception]] = RuntimeError
    """What is raised for work that fails; its text is what the process said."""

    def __init__(
        self, command: Sequence[str], directory: Path, environment: Mapping[str, str] | None = None
    ) -> None:
        self.home = directory
        directory.mkdir(parents=True, exist_ok=True)
        self._log = (directory / "process.log").open("w", encoding="utf-8")
        self._process = subprocess.Popen(
            list(command),
            cwd=directory,
            env={**os.environ, **(environment or {})},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
            encoding="utf-8",
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """End it, and everything in it; consumers tell their broker how far they are."""
        try:
            self._process.communicate(timeout=_END_SECONDS)
        except subprocess.TimeoutExpired:
            self.kill()
        self._log.close()

    def kill(self) -> None:
        """End it as a crash does."""
        self._process.kill()
        self._process.communicate()

    def admin(self, *arguments: str) -> str:
        """What ``mqadmin`` with these arguments prints; the name server is added. Java alone.

        The tool waits for answers for a few seconds only: where that is over, it is asked again.
        """
        for _ in range(_TRIES - 1):
            try:
                return str(self.ask(do="admin", arguments=arguments)["text"])
            except self.failed as error:
                if "Timeout" not in str(error):
                    raise
        return str(self.ask(do="admin", arguments=arguments)["text"])

    def ask(self, **work: object) -> Row:
        """Hand over one line, and return the answer.

        Raises:
            Exception: of the kind `failed`; the work failed, or the process has ended.
        """
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write(json.dumps(work) + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise self.failed(f"it has ended with {self._process.wait()}") from None
        line = self._process.stdout.readline()
        if not line:
            raise self.failed(f"it has ended with {self._process.wait()}")
        answer: Row = json.loads(line)
        if "error" in answer:
            raise self.failed(str(answer["error"]))
        return answer
