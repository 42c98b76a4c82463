"""Flushes several files at a time, and tells a waiting thread that a flush advances.

The system flushes ten files in little more than the time of one if all flushes are under way at
once, and the interpreter lock is free meanwhile. Measured with a thousand files of one page each
(ext4, two processors): 59 ms one after the other, 18 ms with eight threads, 23 ms with sixteen.
``syncfs`` took 8 ms, but flushes everything else in the file system's page cache, too, and does not
tell which file could not be written.

A flush of a thousand files on a slow disk takes long, but does not hang. The flushing thread beats
the heart of its call after every file; the waiting thread measures the time since the last beat,
not since the beginning. `reput.files.system.disk` beats, so that plugins need not.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Final, TypeVar

__all__ = ["heart", "side_by_side"]

Item = TypeVar("Item")

_SHARE: Final = 4  # files that make one more thread worth while


class _Heart(threading.local):
    """Has one `beat` for each thread; the code that sets it for some work restores it later."""

    beat: Callable[[], object] = bool  # a call of C that does nothing


heart: Final = _Heart()
"""``heart.beat()`` reports that the work of this thread has advanced."""


def side_by_side(work: Callable[[Item], object], items: Sequence[Item], at_once: int) -> None:
    """Call ``work`` for each of ``items``; return when all calls have returned.

    If threads cannot be started, the running ones do all the work. A beat on any of them is one of
    the calling thread.

    Args:
        work: called from several threads if there are many items.
        items: in the order in which calls are begun.
        at_once: most calls at a time.

    Raises:
        BaseException: the exception of the first call that failed; no other call is begun after it.
    """
    helper_count = min(at_once, len(items) // _SHARE) - 1
    if helper_count < 1:
        for item in items:
            work(item)
        return
    left, lock, beat = iter(items), threading.Lock(), heart.beat
    failures: list[BaseException] = []

    def go_on() -> None:
        while not failures:
            with lock:
                try:
                    item = next(left)
                except StopIteration:
                    return
            try:
                work(item)
            except BaseException as error:  # raised in the calling thread
                failures.append(error)

    def help_out() -> None:
        heart.beat = beat
        go_on()

    threads = []
    try:
        for number in range(helper_count):
            thread = threading.Thread(target=help_out, name=f"reput-side-{number}", daemon=True)
            try:
                thread.start()
            except RuntimeError:  # no more threads now
                break
            threads.append(thread)
        go_on()
    except BaseException as error:  # Ctrl-C
        failures.append(error)
    for thread in threads:
        thread.join()  # after a failure, too: threads must not go on with the caller's files
    if failures:
        raise failures[0]
