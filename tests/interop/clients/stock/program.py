"""One process with a stock client in it, and the work that it takes."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

Row = dict[str, Any]
_TRIES = 5
_END_SECONDS = 60


class UnavailableError(Exception):
    """The program cannot be made here; its text is one sentence for a skipped test."""


class ProgramFailedError(Exception):
    """The work failed; its text is what the client said."""


class Program:
    """A process in which producers and consumers of a stock client run."""

    def __init__(self, command: Sequence[str], directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._log = (directory / "program.log").open("w", encoding="utf-8")
        self._process = subprocess.Popen(
            list(command),
            cwd=directory,
            # Clients keep the offsets of broadcasts at home.
            env={**os.environ, "HOME": str(directory)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
            encoding="utf-8",
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """End it, and everything in it."""
        try:
            self._process.communicate(timeout=_END_SECONDS)
        except subprocess.TimeoutExpired:
            self.kill()
        self._log.close()

    def kill(self) -> None:
        """End it as a crash does."""
        self._process.kill()
        self._process.communicate()

    # ------------------------------------------------------------------ sending

    def producer(self, name: str = "p", group: str = "shop", **options: object) -> None:
        """Start a producer under a name of the test.

        Options: instance, namespace, trace, transaction, max_size, compression, access_key,
        secret_key.
        """
        self.ask(do="producer", name=name, group=group, **options)

    def send(self, messages: Sequence[Row], how: str = "sync", name: str = "p") -> list[Row]:
        """Send messages; the answer to each, which is a place or has an ``error``.

        Args:
            messages: each with topic and body, and where wanted tags, keys, level, properties,
                queue_id, shard.
            how: sync, async, one-way, batch, queue, shard, transaction.
            name: of the producer.
        """
        sent: list[Row] = self.ask(do="send", name=name, how=how, messages=list(messages))["sent"]
        return sent

    def request(self, message: Row, how: str = "sync", name: str = "p", ms: int = 20_000) -> str:
        """Ask, and return what was replied."""
        return str(self.ask(do="request", name=name, how=how, ms=ms, **message)["reply"])

    def checked(self, count: int, seconds: float = 30, name: str = "p") -> list[str]:
        """Bodies of half messages after which the broker has asked, once these are ``count``."""
        ask = {"do": "checked", "name": name, "count": count, "ms": int(seconds * 1000)}
        found: list[str] = self.ask(**ask)["checked"]
        return found

    # ------------------------------------------------------------------ taking

    def listen(self, name: str, group: str, topic: str, **options: object) -> None:
        """Start a push consumer; it refuses bodies of ``fail…``, and of ``once…`` one time.

        Options: expression, sql, orderly, broadcast, start ("first" or "last"), instance,
        max_reconsume, namespace, trace, replies, broker_shares, access_key, secret_key.
        """
        self.ask(do="listen", name=name, group=group, topic=topic, **options)

    def poll(self, name: str, group: str, topic: str, **options: object) -> None:
        """Start a consumer that polls. Options: expression, sql, instance, assign, seek."""
        self.ask(do="poll", name=name, group=group, topic=topic, **options)

    def pull(self, group: str, topic: str, count: int, **options: object) -> list[Row]:
        """Take what is new for a group, queue by queue. Options: expression."""
        ask = {"do": "pull", "group": group, "topic": topic, "count": count, "ms": 30_000}
        taken: list[Row] = self.ask(**ask, **options)["taken"]
        return taken

    def taken(self, name: str, count: int, seconds: float = 60) -> list[Row]:
        """What a consumer has got, once that are ``count``; fewer when the time is over."""
        ask = {"do": "taken", "name": name, "count": count, "ms": int(seconds * 1000)}
        taken: list[Row] = self.ask(**ask)["taken"]
        return taken

    def bodies(self, name: str, count: int, seconds: float = 60) -> list[str]:
        """The bodies of `taken`, sorted."""
        return sorted(row["body"] for row in self.taken(name, count, seconds))

    # ------------------------------------------------------------------ both

    def begin(self, name_server: str) -> None:
        """Have what starts from now on talk to a name server."""
        self.ask(do="begin", name_server=name_server)

    def stop(self, name: str) -> None:
        """End a producer or a consumer in order: the broker knows its offsets then."""
        self.ask(do="stop", name=name)

    def admin(self, *arguments: str) -> str:
        """What ``mqadmin`` with these arguments prints; the name server is added. Java alone.

        The tool waits for answers for a few seconds only: where that is over, it is asked again.
        """
        for _ in range(_TRIES - 1):
            try:
                return str(self.ask(do="admin", arguments=arguments)["text"])
            except ProgramFailedError as error:
                if "Timeout" not in str(error):
                    raise
        return str(self.ask(do="admin", arguments=arguments)["text"])

    def ask(self, **work: object) -> Row:
        """Hand over one line, and return the answer.

        Raises:
            ProgramFailedError: the work failed, or the program has ended.
        """
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write(json.dumps(work) + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise ProgramFailedError(f"it has ended with {self._process.wait()}") from None
        line = self._process.stdout.readline()
        if not line:
            raise ProgramFailedError(f"it has ended with {self._process.wait()}")
        answer: Row = json.loads(line)
        if "error" in answer:
            raise ProgramFailedError(str(answer["error"]))
        return answer
