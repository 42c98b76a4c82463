"""`Channel`: questions and answers in JSON between the two processes of pages that are served.

Both ends are programs of this package, connected by a socket pair that no other process has. Each
question has a number, and answers come in any order: an action that waits delays no figures.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from multiprocessing.connection import Connection
from typing import Any, Final

import attrs

from reput.errors import ReputError

Answer = Callable[[Mapping[str, Any]], Mapping[str, Any]]

_THREADS: Final = 3
_GONE: Final = (EOFError, OSError)


class ChannelClosedError(ReputError):
    """The other process has ended, or does not answer."""


class AnswerError(ReputError):
    """The other process could not do what it was asked."""


@attrs.define(eq=False)
class Asker:
    """The end that asks. Thread-safe; `read` runs on a thread of its own."""

    connection: Connection
    _waiting: dict[int, Future[Mapping[str, Any]]] = attrs.field(factory=dict)
    _count: int = 0
    _lock: threading.Lock = attrs.field(factory=threading.Lock)
    _is_closed: bool = False

    def send(self, notice: Mapping[str, Any]) -> None:
        """Send what needs no answer."""
        with self._lock:
            self.connection.send_bytes(json.dumps(notice).encode())

    def ask(self, question: Mapping[str, Any], seconds: float) -> Mapping[str, Any]:
        """Return the answer to a question.

        Raises:
            AnswerError: it could not be answered; the text says why.
            ChannelClosedError: the other process has ended, or takes longer than ``seconds``.
        """
        future: Future[Mapping[str, Any]] = Future()
        with self._lock:
            if self._is_closed:
                raise ChannelClosedError("the process that has the store open has ended")
            self._count += 1
            number = self._count
            self._waiting[number] = future
            try:
                self.connection.send_bytes(json.dumps({**question, "number": number}).encode())
            except OSError as error:
                raise ChannelClosedError(str(error)) from error
        try:
            found = future.result(seconds)
        except TimeoutError:
            text = f"the process that has the store open has not answered within {seconds:g} s"
            raise ChannelClosedError(text) from None
        finally:
            with self._lock:
                self._waiting.pop(number, None)
        if "error" in found:
            raise AnswerError(str(found["error"]))
        return found

    def read(self) -> None:
        """Take answers until the other process ends."""
        while True:
            try:
                found = json.loads(self.connection.recv_bytes())
            except _GONE:
                break
            with self._lock:
                future = self._waiting.pop(found.get("number"), None)
            if future is not None:
                future.set_result(found)
        with self._lock:
            self._is_closed = True
            left, self._waiting = list(self._waiting.values()), {}
        for future in left:
            future.set_exception(
                ChannelClosedError("the process that has the store open has ended")
            )


def answer_all(connection: Connection, answer: Answer) -> None:
    """Answer questions, several at once, until the other process ends or closes its end."""
    lock = threading.Lock()

    def work(question: Mapping[str, Any]) -> None:
        try:
            found = dict(answer(question))
        except ReputError as error:
            found = {"error": str(error)}
        except Exception as error:
            found = {"error": f"{type(error).__name__}: {error}"}
        text = json.dumps({**found, "number": question.get("number")}).encode()
        try:
            with lock:
                connection.send_bytes(text)
        except OSError:
            pass  # nobody waits any more

    with ThreadPoolExecutor(_THREADS, "reput-web-answer") as pool:
        while True:
            try:
                question = json.loads(connection.recv_bytes())
            except _GONE:
                return
            pool.submit(work, question)
