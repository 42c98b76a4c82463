"""A Java process that says when it is ready, and free ports for it."""

from __future__ import annotations

import signal
import subprocess
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from mavenparts import JavaFailedError

START_SECONDS = 120
STOP_SECONDS = 60


class Process:
    """A process whose output goes into a file, and which told a line that says "ready".

    Nothing is waited for by sleeping: a thread reads each line that it prints.
    """

    def __init__(self, command: Sequence[str], directory: Path, name: str, ready: str):
        directory.mkdir(parents=True, exist_ok=True)
        self.log = directory / f"{name}.log"
        self._ready = ready
        self._is_ready = False
        self._told = threading.Event()  # that it is ready, or has ended
        self.process = subprocess.Popen(
            list(command),
            cwd=directory,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        self._wait_until_ready()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def text(self) -> str:
        """What it has printed."""
        return self.log.read_text(encoding="utf-8", errors="replace")

    def has_ended(self, seconds: float) -> bool:
        """Whether it has ended, or ends within a time."""
        try:
            self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            return False
        return True

    def stop(self) -> None:
        """End it in order, as an operator does; a broker writes its files then.

        Raises:
            JavaFailedError: it does not end.
        """
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.kill()
            raise JavaFailedError(f"{self.log.name} does not stop\n{self.text[-2000:]}") from None
        self._reader.join()

    def kill(self) -> None:
        """End it as a crash does."""
        self.process.kill()
        self.process.wait()
        self._reader.join()

    def _wait_until_ready(self) -> None:
        if self._told.wait(START_SECONDS) and self._is_ready:
            return
        self.kill()
        raise JavaFailedError(f"{self.log.name}: not ready\n{self.text[-4000:]}")

    def _read(self) -> None:
        assert self.process.stdout is not None
        with self.process.stdout as lines, self.log.open("w", encoding="utf-8") as log:
            for line in lines:
                log.write(line)
                log.flush()
                if self._ready in line:
                    self._is_ready = True
                    self._told.set()
        self._told.set()


@dataclass
class Server:
    """A name server or a broker that answers on its port."""

    process: Process
    port: int
    store: Path
    """Directory of the store; of a name server, its home."""

    @property
    def address(self) -> str:
        """Host and port, as clients take them."""
        return f"127.0.0.1:{self.port}"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.stop()

    def stop(self) -> None:
        """End it in order."""
        self.process.stop()

    def kill(self) -> None:
        """End it as a crash does."""
        self.process.kill()
