"""Work that blocks, at the end of a server: on a thread if one can be started."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor


async def finish_on_thread(work: Callable[[], None]) -> None:
    """Run ``work`` on a thread of its own; on the event loop if no thread can be started.

    Only for the end of a server, when nothing is left that the event loop has to do meanwhile. A
    thread that cannot be started must not keep the rest from being closed.
    """
    # Not the event loop's executor: that one keeps the call, and could run it again later.
    executor = ThreadPoolExecutor(1, "reput-serve-stop")
    try:
        done = asyncio.get_running_loop().run_in_executor(executor, work)
    except RuntimeError:  # no thread can be started
        work()
        return
    try:
        await done
    finally:
        executor.shutdown(wait=False)
