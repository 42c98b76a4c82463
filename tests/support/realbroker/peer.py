"""RocketMQ's own client and admin tool, one process that takes work line by line."""

from __future__ import annotations

from collections.abc import Sequence

from lineprocess import LineProcess, Row
from mavenparts import JavaFailedError


class Peer(LineProcess):
    """A Java process in which stock producers, push consumers and ``mqadmin`` run."""

    failed = JavaFailedError

    def send(self, messages: Sequence[Row]) -> list[Row]:
        """Send messages one by one; the answer to each.

        A message: topic, body (text), and where wanted tags, keys, properties, queue_id, broker.
        With ``bodies`` in place of a body it is a batch of messages for one queue.
        """
        sent: list[Row] = self.ask(do="send", messages=messages)["sent"]
        return sent

    def load(self, topic: str, count: int, producers: int = 2) -> None:
        """Start producers that send so many messages as fast as the broker takes them.

        A message's body is its number and the size of its property ``big``; its property ``last``
        is the number again. One in 16 has properties of 28 KB.
        """
        self.ask(do="load", topic=topic, count=count, producers=producers)

    def loaded(self, seconds: float) -> int:
        """How many messages of `load` the broker has taken; waits for all of them, but not longer.

        Raises:
            JavaFailedError: a message was refused.
        """
        sent: int = self.ask(do="loaded", ms=int(seconds * 1000))["sent"]
        return sent

    def listen(self, name: str, group: str, topic: str, **options: object) -> None:
        """Start a push consumer under a name of the test.

        It refuses bodies that begin with ``fail``. Options: expression, sql, orderly, start
        ("first" or "last"), instance, max_reconsume.
        """
        self.ask(do="listen", name=name, group=group, topic=topic, **options)

    def taken(self, name: str, count: int, seconds: float = 60) -> list[Row]:
        """What a consumer has got, once that are ``count``; fewer when the time is over."""
        ask = {"do": "taken", "name": name, "count": count, "ms": int(seconds * 1000)}
        taken: list[Row] = self.ask(**ask)["taken"]
        return taken

    def stop(self, name: str) -> None:
        """End a consumer in order: the broker knows its offsets then."""
        self.ask(do="stop", name=name)
