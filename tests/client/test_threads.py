"""The client's threads: its event loop, and the worker for what may wait."""

from __future__ import annotations

import asyncio
import concurrent.futures
import os
import threading
from collections.abc import Iterator

import pytest

from reput_client import ClientClosedError, ConnectError
from reput_client.connection.eventloopthread import EventLoopThread
from reput_client.session.sessionworker import SessionWorker


@pytest.fixture
def background() -> Iterator[EventLoopThread]:
    found = EventLoopThread()
    yield found
    found.close()


async def name_of_thread() -> str:
    return threading.current_thread().name


def test_what_is_under_way_ends_with_the_loop(background: EventLoopThread) -> None:
    under_way = background.submit(asyncio.sleep(1_000))

    background.close()
    background.close()

    assert under_way.cancelled()
    with pytest.raises(ClientClosedError, match="open another one"):
        background.call(name_of_thread())
    background.call_soon(pytest.fail, "it is closed")


def test_a_task_that_begins_while_the_loop_ends_ends_too(background: EventLoopThread) -> None:
    """Otherwise its socket stays open until the garbage collection finds it."""
    waiting, ended = asyncio.Event(), []

    async def wait(name: str, *, is_last: bool) -> None:
        try:
            await waiting.wait()
        finally:
            if not is_last:
                keep.append(asyncio.create_task(wait("late", is_last=True)))
                await asyncio.sleep(0)
            ended.append(name)

    keep: list[asyncio.Task[None]] = []
    background.submit(wait("first", is_last=False))
    background.call(name_of_thread())  # it has begun

    background.close()

    assert ended == ["first", "late"]


def test_work_is_begun_in_turn_and_a_caller_may_give_it_up(background: EventLoopThread) -> None:
    begun: list[int] = []
    ended = threading.Event()

    async def note(number: int) -> int:
        begun.append(number)
        return number

    async def wait() -> None:
        try:
            await asyncio.sleep(1_000)
        finally:
            ended.set()

    waiting = background.submit(wait())
    futures = [background.submit(note(number)) for number in range(100)]
    assert [each.result(10) for each in futures] == begun == list(range(100))
    assert waiting.cancel()
    assert ended.wait(10)


def test_who_submits_while_the_loop_closes_waits_for_nothing(background: EventLoopThread) -> None:
    """Threads that have seen an open loop, and hand their work over when nobody takes it."""
    started = threading.Barrier(5)
    outcomes: list[object] = []

    def submit() -> None:
        started.wait()
        while True:
            try:
                outcomes.append(background.submit(name_of_thread()).exception(10))
            except (ClientClosedError, concurrent.futures.CancelledError) as error:
                outcomes.append(error)
                return

    threads = [threading.Thread(target=submit) for _ in range(4)]
    for each in threads:
        each.start()
    started.wait()
    background.close()
    for each in threads:
        each.join(10)

    assert not any(each.is_alive() for each in threads)
    assert not any(isinstance(each, TimeoutError) for each in outcomes)


def test_a_forked_child_is_told_to_open_its_own(
    background: EventLoopThread, monkeypatch: pytest.MonkeyPatch
) -> None:
    parent = os.getpid()
    monkeypatch.setattr(os, "getpid", lambda: parent + 1)

    with pytest.raises(ClientClosedError, match=f"process {parent} opened the client"):
        background.call(name_of_thread())
    background.close()  # not the parent's

    monkeypatch.undo()
    assert background.call(name_of_thread()) == "reput-client"


class Jobs:
    """A worker and what it was given; `work` is due at the times in `due`."""

    def __init__(self, interval: float = 1_000) -> None:
        self.done: list[object] = []
        self.now = 1_000
        self.due: int | None = None
        self.error: Exception | None = None
        self.changed = threading.Condition()
        self.worker = SessionWorker(
            self._work, lambda: self.now, lambda: self._note("every"), interval
        )

    def _work(self, now: int) -> int | None:
        self._note(now)
        if self.error is not None:
            error, self.error = self.error, None
            raise error
        return self.due

    def _note(self, what: object) -> None:
        with self.changed:
            self.done.append(what)
            self.changed.notify_all()

    def job(self, name: str) -> None:
        self.worker.do(name, lambda: self._note(name))

    def until(self, what: object, count: int = 1) -> None:
        with self.changed:
            assert self.changed.wait_for(lambda: self.done.count(what) >= count, 10)


@pytest.fixture
def jobs() -> Iterator[Jobs]:
    found = Jobs()
    yield found
    found.worker.close()


def test_jobs_are_carried_out_and_timed_work_is_asked_after_them(jobs: Jobs) -> None:
    jobs.job("one")
    jobs.until("one")
    jobs.until(1_000)

    jobs.worker.wake()
    jobs.until(1_000, 2)


def test_a_job_that_waits_already_is_carried_out_once(jobs: Jobs) -> None:
    is_held, may_go = threading.Event(), threading.Event()

    def hold() -> None:
        is_held.set()
        may_go.wait(10)

    jobs.worker.do("hold", hold)
    assert is_held.wait(10)
    for _ in range(5):
        jobs.job("many")
    jobs.job("last")
    may_go.set()
    jobs.until("last")

    assert jobs.done.count("many") == 1


@pytest.mark.parametrize("error", [ConnectError("b:1", "away"), OSError("disk"), KeyError("bug")])
def test_a_job_that_fails_ends_no_other(
    jobs: Jobs, error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    def fail() -> None:
        raise error

    jobs.error = error
    jobs.worker.do("fail", fail)
    jobs.job("after")
    jobs.until("after")

    assert "the next round tries again" in caplog.text


def test_work_that_is_due_is_done_without_being_woken(jobs: Jobs) -> None:
    jobs.due = jobs.now + 20
    jobs.worker.wake()

    jobs.until(1_000, 3)


def test_something_is_done_every_interval() -> None:
    jobs = Jobs(interval=0.01)

    jobs.until("every", 3)
    jobs.worker.close()
