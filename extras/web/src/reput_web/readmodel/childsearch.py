"""Searches with a regular expression, in a process of their own.

An expression may take for ever on one body, and nothing can interrupt it in a thread. The process
ends with its request: by itself, or killed when its time is over or nobody waits any more.

    python -m reput_web.readmodel.childsearch < request > answer
"""

from __future__ import annotations

import contextlib
import pickle
import resource
import subprocess
import sys
from typing import TYPE_CHECKING, Final

from reput_web.errors import BadRequestError, WebError

if TYPE_CHECKING:
    from reput_web.readmodel.messagelist import MessageRequest
    from reput_web.readmodel.rows import MessagePage
    from reput_web.readmodel.workbudget import WorkBudget

__all__ = ["search"]

_START_S: Final = 3.0
"""Time that a process may need to begin, and to open the store."""
_LOOK_S: Final = 0.05
_TOO_SLOW: Final = (
    "The regular expression takes too long on one message. Simplify it, or search for a text."
)


def search(
    root: str,
    follow_links: bool,
    request: MessageRequest,
    seconds: float,
    budget: WorkBudget,
    start_seconds: float = _START_S,
) -> MessagePage:
    """Return one page of a search, found by another process.

    Args:
        root: the store's directory.
        follow_links: as for `reput.open`.
        request: the messages that are asked for.
        seconds: how long the process may read.
        budget: of the request here; the process is killed when nobody waits for it any more.
        start_seconds: how long the process may take in addition.

    Raises:
        BadRequestError: the expression is not valid, or takes too long.
    """
    question = pickle.dumps((root, follow_links, request, seconds))
    command = [sys.executable, "-P", "-m", __name__]  # -P: without the working directory
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        try:
            answer = _answer(process, question, seconds + start_seconds, budget)
        finally:
            process.kill()
    if not answer:
        raise BadRequestError(_TOO_SLOW)
    found = pickle.loads(answer)
    if isinstance(found, Exception):
        raise found
    page: MessagePage = found
    return page


def _answer(
    process: subprocess.Popen[bytes], question: bytes, seconds: float, budget: WorkBudget
) -> bytes:
    """Return what the process writes; nothing when its time is over."""
    given: bytes | None = question
    end = budget.clock() + seconds
    while not budget.stopped.is_set() and budget.clock() < end:
        with contextlib.suppress(subprocess.TimeoutExpired):
            return process.communicate(given, timeout=_LOOK_S)[0]
        given = None
    return b""


def _main() -> None:
    from reput_web.readmodel.messagelist import message_page
    from reput_web.readmodel.openedstore import OpenedStore
    from reput_web.readmodel.workbudget import WorkBudget

    question = sys.stdin.buffer.read()
    root, follow_links, request, seconds = pickle.loads(question)
    # Whatever becomes of the parent, this process ends.
    most = int(seconds + 2 * _START_S)
    resource.setrlimit(resource.RLIMIT_CPU, (most, most))
    plugins = () if request.where is None else ("filter",)
    opened = OpenedStore(root, follow_links, plugins)
    found: object
    try:
        found = message_page(opened, request, WorkBudget(seconds))
    except WebError as error:
        found = error
    sys.stdout.buffer.write(pickle.dumps(found))


if __name__ == "__main__":
    _main()
