"""Watch a Spark job from another thread: how many of its tasks are done."""

from __future__ import annotations

import contextlib
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LOOK_SECONDS = 0.5
_END_SECONDS = 10.0
_GROUP = "spark.jobGroup.id"


@contextlib.contextmanager
def watched(spark: SparkSession, told: Callable[[float], None]) -> Iterator[None]:
    """Call ``told``, while the block runs, with the share of its tasks that is done.

    The share goes from 0 to 1 and never falls. When the block fails, the tasks that it has started
    are stopped before the error goes on.
    """
    context = _context_of(spark)
    if context is None:
        with _by_handler(spark, told):
            yield
        return
    group = f"reput-{uuid.uuid4().hex}"
    before = context.getLocalProperty(_GROUP)
    context.setLocalProperty(_GROUP, group)
    ended = threading.Event()
    thread = threading.Thread(target=_look, args=(context, group, told, ended), daemon=True)
    thread.start()
    try:
        yield
    except BaseException:
        context.cancelJobGroup(group)
        raise
    finally:
        # Attempts of a failed job, and attempts that another one overtook, run on for a moment,
        # and would write where the caller is about to clear up.
        _wait_until_idle(context, group)
        ended.set()
        thread.join()
        context.setLocalProperty(_GROUP, before)


def _context_of(spark: SparkSession) -> Any:
    """Return the context, by which a session in this process knows its tasks; None with Connect."""
    try:
        return spark.sparkContext
    except Exception:
        return None


def _look(context: Any, group: str, told: Callable[[float], None], ended: threading.Event) -> None:
    tell = _rising(told)
    while not ended.wait(_LOOK_SECONDS):
        try:
            stages = list(_stages(context, group))
        except Exception:  # the session is being stopped: it does not answer any more
            return
        tell(
            sum(stage.numCompletedTasks for stage in stages),
            sum(stage.numTasks for stage in stages),
        )


def _rising(told: Callable[[float], None]) -> Callable[[int, int], None]:
    """Return a function of tasks done and tasks in all, which calls ``told`` if the share grows.

    A query with a shuffle shows further stages late; the total does not shrink then.
    """
    most = 0.0

    def tell(done: int, count: int) -> None:
        nonlocal most
        share = min(done / max(count, 1), 1.0)
        if share > most:
            most = share
            told(share)

    return tell


def _stages(context: Any, group: str) -> Iterator[Any]:
    tracker = context.statusTracker()
    for job in tracker.getJobIdsForGroup(group):
        facts = tracker.getJobInfo(job)
        for stage in facts.stageIds if facts is not None else ():
            found = tracker.getStageInfo(stage)
            if found is not None:
                yield found


def _wait_until_idle(context: Any, group: str) -> None:
    until = time.monotonic() + _END_SECONDS
    with contextlib.suppress(Exception):  # a session that was stopped has no tasks, either
        while time.monotonic() < until:
            if not any(stage.numActiveTasks for stage in _stages(context, group)):
                return
            time.sleep(0.05)  # Spark has no event for the end of a task; bounded by the time above


@contextlib.contextmanager
def _by_handler(spark: Any, told: Callable[[float], None]) -> Iterator[None]:
    """Do the same through Spark Connect, which calls a handler."""
    tell = _rising(told)

    def handle(stages: Any, inflight_tasks: int, operation_id: Any, done: bool) -> None:
        known = list(stages or ())
        tell(
            sum(stage.num_completed_tasks for stage in known),
            sum(stage.num_tasks for stage in known),
        )

    spark.registerProgressHandler(handle)
    try:
        yield
    finally:
        spark.removeProgressHandler(handle)
