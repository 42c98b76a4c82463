"""Tasks that run in this process, or side by side in others."""

from __future__ import annotations

import os

import pytest
from enginetasks import Step, fail_at_three, name_process

from reput_rebuild.engine import LocalEngine


@pytest.mark.parametrize("jobs", [1, 2])
def test_results_come_in_the_order_of_the_tasks_and_progress_never_falls(jobs):
    tasks = [Step(number, size=100 + number) for number in range(7)]
    told = []

    with LocalEngine(jobs) as engine:
        found = engine.run(name_process, tasks, told.append)
        again = engine.run(name_process, tasks[:2])

    assert [number for number, _ in found] == list(range(7))
    assert [number for number, _ in again] == [0, 1]
    assert ({process for _, process in found} == {os.getpid()}) == (jobs == 1)
    assert told == sorted(told)
    assert told[-1] == sum(task.size for task in tasks)


@pytest.mark.parametrize("jobs", [1, 2])
def test_what_a_task_raises_is_raised_and_nothing_runs_on(jobs):
    with LocalEngine(jobs) as engine:
        with pytest.raises(OSError, match="no space left"):
            engine.run(fail_at_three, [Step(number) for number in range(20)])

        assert engine.run(fail_at_three, [Step(4)]) == [4]


def test_no_tasks_have_no_results():
    told = []

    with LocalEngine(2) as engine:
        assert engine.run(name_process, [], told.append) == []

    assert told == []


def test_as_many_processes_as_processors_when_nobody_says():
    assert LocalEngine().parallelism == (os.cpu_count() or 1)
    assert not LocalEngine(1).splits
    assert LocalEngine(2).splits
