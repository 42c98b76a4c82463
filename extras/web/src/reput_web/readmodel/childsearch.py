"""Searches with a regular expression, in a process of their own.

An expression may take for ever on one body, and nothing can interrupt it in a thread. The process
ends with its request: by itself, or killed when its time is over or nobody waits any more.

    python -m reput_web.readmodel.childsearch < request > answer

An answer is one byte, written when the search begins, and the pickled page. So a machine that is
busy, on which Python and the store take seconds to begin, takes nothing from the time of a search.
"""

from __future__ import annotations

import contextlib
import pickle
import resource
import selectors
import subprocess
import sys
from typing import TYPE_CHECKING, Final

from reput_web.errors import BadRequestError, BusyError, WebError

if TYPE_CHECKING:
    from reput_web.readmodel.messagelist import MessageRequest
    from reput_web.readmodel.rows import MessagePage
    from reput_web.readmodel.workbudget import WorkBudget

_START_S: Final = 60.0
"""Time that a process may need to begin, and to open the store."""
_FINISH_S: Final = 3.0
"""Time that it may need to look through its last messages, and to answer."""
_CPU_S: Final = 6
"""Processor time that it may use in addition to the time of the search."""
_BEGUN: Final = b"b"
_SIZE: Final = 1 << 16
_LOOK_S: Final = 0.05
_TOO_SLOW: Final = (
    "The regular expression takes too long on one message. Simplify it, or search for a text."
)
_NOT_BEGUN: Final = "The search did not begin: the machine is busy, or the store cannot be opened."


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
        start_seconds: how long the process may take until it begins to read.

    Raises:
        BadRequestError: the expression is not valid, or takes too long.
        BusyError: the process did not begin in time, or could not open the store.
    """
    question = pickle.dumps((root, follow_links, request, seconds))
    command = [sys.executable, "-P", "-m", __name__]  # -P: without the working directory
    pipe = subprocess.PIPE
    with subprocess.Popen(command, bufsize=0, stdin=pipe, stdout=pipe) as process:
        try:
            answer = _answer(process, question, (start_seconds, seconds + _FINISH_S), budget)
        finally:
            process.kill()
    if not answer:
        raise BusyError(_NOT_BEGUN)
    if answer == _BEGUN:
        raise BadRequestError(_TOO_SLOW)
    found = pickle.loads(answer.removeprefix(_BEGUN))
    if isinstance(found, Exception):
        raise found
    page: MessagePage = found
    return page


def _answer(
    process: subprocess.Popen[bytes],
    question: bytes,
    limits: tuple[float, float],
    budget: WorkBudget,
) -> bytes:
    """Return what the process writes; if its time is over, nothing but whether it has begun.

    Args:
        process: the process.
        question: what it reads.
        limits: seconds until it has begun, and from then on.
        budget: its clock counts; nobody waits any more when it is stopped.
    """
    assert process.stdin is not None
    assert process.stdout is not None
    with contextlib.suppress(BrokenPipeError), process.stdin as stdin:
        stdin.write(question)
    parts: list[bytes] = []
    end = budget.clock() + limits[0]
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        while not budget.stopped.is_set() and budget.clock() < end:
            if not selector.select(_LOOK_S):
                continue
            piece = process.stdout.read(_SIZE)
            if not piece:
                return b"".join(parts)
            if not parts:
                end = budget.clock() + limits[1]
            parts.append(piece)
    return _BEGUN if parts else b""


def _main() -> None:
    from reput_web.readmodel.messagelist import message_page
    from reput_web.readmodel.openedstore import OpenedStore
    from reput_web.readmodel.workbudget import WorkBudget

    question = sys.stdin.buffer.read()
    root, follow_links, request, seconds = pickle.loads(question)
    # Whatever becomes of the parent, this process ends.
    most = int(seconds) + _CPU_S
    resource.setrlimit(resource.RLIMIT_CPU, (most, most))
    plugins = () if request.where is None else ("filter",)
    opened = OpenedStore(root, follow_links, plugins)
    assert opened.store is not None  # it is opened here, and not in the time of the search
    sys.stdout.buffer.write(_BEGUN)
    sys.stdout.buffer.flush()
    found: object
    try:
        found = message_page(opened, request, WorkBudget(seconds))
    except WebError as error:
        found = error
    sys.stdout.buffer.write(pickle.dumps(found))


if __name__ == "__main__":
    _main()
