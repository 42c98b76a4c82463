"""One process with a stock client in it, and the work that it takes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from lineprocess import LineProcess, Row


class UnavailableError(Exception):
    """The program cannot be made here; its text is one sentence for a skipped test."""


class ProgramFailedError(Exception):
    """The work failed; its text is what the client said."""


class Program(LineProcess):
    """A process in which producers and consumers of a stock client run."""

    failed = ProgramFailedError

    def __init__(self, command: Sequence[str], directory: Path) -> None:
        # Clients keep the offsets of broadcasts at home.
        super().__init__(command, directory, {"HOME": str(directory)})

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
