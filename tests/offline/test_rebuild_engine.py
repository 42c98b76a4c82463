"""Tasks that run in this process, or side by side in others."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from enginetasks import Step, die, fail_at_three, name_process

from reput_tools.offline import LocalEngine, ProcessEndedError


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


SCRIPT = """
import sys
sys.path.insert(0, sys.argv[1])
from enginetasks import Step, name_process
from reput_tools.offline import LocalEngine

print("begun", flush=True)
{guard}
    with LocalEngine(2) as engine:
        print(len(engine.run(name_process, [Step(number) for number in range(4)])), "done")
"""


def run_script(path, guard, directory=None):
    path.write_text(SCRIPT.format(guard=guard))
    support = Path(__file__).parents[1] / "support"
    asked = [sys.executable, str(path), str(support)]
    return subprocess.run(asked, capture_output=True, text=True, cwd=directory)


@pytest.mark.costly
def test_a_script_without_a_guard_is_told_once_what_it_needs(tmp_path):
    done = run_script(tmp_path / "plain.py", "if True:")

    assert done.returncode == 1
    assert "done" not in done.stdout
    last = done.stderr.splitlines()[-1]
    assert last.startswith(
        "reput_tools.offline.taskengine.engine.ProcessEndedError: no process could begin"
    )
    assert 'needs `if __name__ == "__main__":`' in last
    # The script's own traceback, with its cause: no process adds one.
    assert done.stderr.count("plain.py") == 1


@pytest.mark.costly
def test_a_script_with_a_guard_is_imported_and_does_its_work_once(tmp_path):
    done = run_script(tmp_path / "guarded.py", 'if __name__ == "__main__":')

    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.count("done") == 1


@pytest.mark.costly
def test_processes_import_nothing_from_the_working_directory(tmp_path):
    directory = tmp_path / "store"
    directory.mkdir()
    (directory / "multiprocessing.py").write_text("raise SystemExit('not ours')")

    done = run_script(tmp_path / "guarded.py", 'if __name__ == "__main__":', directory)

    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.count("done") == 1


@pytest.mark.costly
def test_a_process_that_is_killed_is_told_and_the_engine_goes_on():
    with LocalEngine(2) as engine:
        with pytest.raises(ProcessEndedError, match=r"killed, perhaps.*fewer processes"):
            engine.run(die, [Step(0), Step(1)])

        assert [number for number, _ in engine.run(name_process, [Step(5)])] == [5]
