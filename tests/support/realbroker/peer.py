"""RocketMQ's own client and admin tool, one process that takes work line by line."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

from mavenparts import JavaFailedError

Row = dict[str, Any]
_TRIES = 5


class Peer:
    """A Java process in which stock producers, push consumers and ``mqadmin`` run."""

    def __init__(self, command: Sequence[str], directory: Path) -> None:
        self._log = (directory / "peer.log").open("w", encoding="utf-8")
        self._process = subprocess.Popen(
            list(command),
            cwd=directory,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
            encoding="utf-8",
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """End it; consumers that still listen tell the broker their offsets."""
        self._process.communicate(timeout=60)
        self._log.close()

    def kill(self) -> None:
        """End it as a crash does."""
        self._process.kill()

    def admin(self, *arguments: str) -> str:
        """What ``mqadmin`` with these arguments prints; the name server is added.

        The tool waits for answers for a few seconds only: where that is over, it is asked again.
        """
        for _ in range(_TRIES - 1):
            try:
                return self._admin(arguments)
            except JavaFailedError as error:
                if "Timeout" not in str(error):
                    raise
        return self._admin(arguments)

    def _admin(self, arguments: Sequence[str]) -> str:
        return str(self._ask({"do": "admin", "arguments": arguments})["text"])

    def send(self, messages: Sequence[Row]) -> list[Row]:
        """Send messages one by one; the answer to each.

        A message: topic, body (text), and where wanted tags, keys, properties, queue_id, broker.
        """
        sent: list[Row] = self._ask({"do": "send", "messages": messages})["sent"]
        return sent

    def listen(self, name: str, group: str, topic: str, **options: object) -> None:
        """Start a push consumer under a name of the test.

        It refuses bodies that begin with ``fail``. Options: expression, sql, orderly, start
        ("first" or "last"), instance, max_reconsume.
        """
        self._ask({"do": "listen", "name": name, "group": group, "topic": topic, **options})

    def taken(self, name: str, count: int, seconds: float = 60) -> list[Row]:
        """What a consumer has got, once that are ``count``; fewer when the time is over."""
        ask = {"do": "taken", "name": name, "count": count, "ms": int(seconds * 1000)}
        taken: list[Row] = self._ask(ask)["taken"]
        return taken

    def stop(self, name: str) -> None:
        """End a consumer in order: the broker knows its offsets then."""
        self._ask({"do": "stop", "name": name})

    def _ask(self, work: Row) -> Row:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(work) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise JavaFailedError(f"the client has ended with {self._process.wait()}")
        answer: Row = json.loads(line)
        if "error" in answer:
            raise JavaFailedError(str(answer["error"]))
        return answer
