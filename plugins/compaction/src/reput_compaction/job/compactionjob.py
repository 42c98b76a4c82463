"""A compaction as a job: many queues at once, by tasks that an engine runs.

The resulting files are those of `Compaction.steps`, byte by byte. Hashes of keys, row numbers and
sizes go from process to process, through files in the job's own directory; bodies never do. Nothing
that readers see changes before all pairs are written; then the files of each queue are replaced as
in any run.
"""

from __future__ import annotations

import functools
import os
import secrets
import uuid
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import attrs

from reput.errors import CorruptFileError, UnsafePathError
from reput.files import Disk
from reput_compaction.job.jobtasks import Job, LayTask, MergeTask, ScanTask, WriteTask
from reput_compaction.job.merge import lay_out, merge
from reput_compaction.job.plan import bits_for, lay_tasks, merge_tasks, scan_tasks, write_tasks
from reput_compaction.job.scan import scan
from reput_compaction.job.staging import staging_directory, sweep
from reput_compaction.job.write import write
from reput_compaction.run.superseded import SEED_SIZE
from reput_tools.offline import SPLIT_SIZE, TaskFailedError

if TYPE_CHECKING:
    from reput.plugin import StoreContext
    from reput_compaction.run.compaction import Compaction, Made
    from reput_tools.offline import Engine

_SPLITS_PER_PROCESS = 3  # so that a slow split at the end keeps one core busy while few wait
_SPLIT_MIN = 1 << 20


@attrs.define(eq=False)
class CompactionJob:
    """One job over prepared runs, whose queues no other run may compact."""

    context: StoreContext
    runs: Sequence[Compaction]
    engine: Engine
    split_size: int | None = None
    """Approximate bytes of records that a task reads; None takes the size of a rebuild."""
    progress: Callable[[int, int], None] = lambda done, total: None
    _done: int = 0
    _planned: int = 0

    def make(self) -> list[list[Made]]:
        """Write the new pairs of each run; nothing outside of the job's directory changes.

        Raises:
            CorruptFileError: an old pair is damaged.
            TaskFailedError: a task failed for another reason; the text names the task.
        """
        sweep(self.context)
        count = sum(pair.count for run in self.runs for pair in run.old)
        rules = self.runs[0].rules
        job = Job(
            sizes=self.runs[0].files.sizes,
            rules=rules,
            now=self.runs[0].now,
            seed=secrets.token_bytes(SEED_SIZE),
            bits=bits_for(count, rules.memory, self.engine.parallelism),
            root=self.context.root,
            follow_links=self.context.disk.follows_links,
            # A new name: an attempt that outlives its job must write where no other job reads.
            staging=os.path.join(staging_directory(self.context), uuid.uuid4().hex),
        )
        self.context.disk.make_directory(job.staging)
        size = self._size_of_splits()
        scans = scan_tasks(self.runs, size)
        scanned = self._run(job, scans)
        merged = self._run(job, merge_tasks(job.bits, scanned))
        laid = self._run(job, lay_tasks(self.runs, scanned, merged))
        pairs = [pair for each in laid for pair in each]
        written = self._run(job, write_tasks(pairs, scans, size))
        made: list[list[Made]] = [[] for _ in self.runs]
        for each in (each for some in written for each in some):
            made[each.queue].append(each)
        return made

    def _size_of_splits(self) -> int:
        """Return the split size, lowered where some processes would get no split."""
        size = sum(pair.size for run in self.runs for pair in run.old)
        even = size // (self.engine.parallelism * _SPLITS_PER_PROCESS)
        return min(self.split_size or SPLIT_SIZE, max(even, _SPLIT_MIN))

    def _run(self, job: Job, tasks: Sequence[Any]) -> list[Any]:
        """Return the results of all tasks, in the order of ``tasks``."""
        begin = self._done
        self._planned += sum(task.size for task in tasks)

        def told(size: int) -> None:
            self._done = begin + size
            self.progress(self._done, self._planned)

        # Only tasks in this process can be given the store's disk.
        disk = self.context.disk if self.engine.is_here else None
        return self.engine.run(functools.partial(run_task, job, disk), tasks, told)


def run_task(job: Job, disk: Disk | None, task: Any, report: Callable[[int], None]) -> Any:
    """Do one task, in any process.

    Raises:
        CorruptFileError: damage; the text names the file.
        UnsafePathError: a link; the text names it.
        TaskFailedError: any other failure; the text says what was being done.
    """
    disk = disk or Disk().at(job.root, follow_links=job.follow_links)
    try:
        match task:
            case ScanTask():
                return scan(job, task, report, disk)
            case MergeTask():
                return merge(job, task, report, disk)
            case LayTask():
                return lay_out(job, task, report, disk)
            case WriteTask():
                return write(job, task, report, disk)
        raise AssertionError(f"no task of a job: {task!r}")
    except (CorruptFileError, UnsafePathError):
        raise
    except Exception as error:
        raise TaskFailedError(str(task), f"{type(error).__name__}: {error}") from error
