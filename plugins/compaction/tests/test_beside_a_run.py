"""What a store's readers are told while a run of the compaction exchanges files."""

from __future__ import annotations

import threading

import pytest
from compactedstores import many, open_store, put
from interleaved import ReaderDisk

import reput
from reput_compaction import CompactionPlugin
from reput_testing import QuickDisk

pytestmark = pytest.mark.shows("calls-beside")

_LONG = 10.0  # seconds
_SHORT = 0.005  # seconds that the run waits for a question, which may have to wait for the run


class AskingDisk(QuickDisk):
    """Has something asked on another thread in front of each rename and removal."""

    question = None

    def __init__(self):
        self.threads = []
        self.errors = []

    def _ask(self):
        question = self.question
        if question is not None and threading.current_thread() not in self.threads:
            thread = threading.Thread(target=self._answer, args=(question,))
            self.threads.append(thread)
            thread.start()
            thread.join(_SHORT)

    def _answer(self, question):
        try:
            question()
        except BaseException as error:
            self.errors.append(error)

    def rename(self, source, target):
        self._ask()
        super().rename(source, target)

    def remove(self, path):
        self._ask()
        super().remove(path)


QUESTIONS = {
    "queues": lambda store: [each.max_queue_offset for each in store.queues()],
    "read": lambda store: [len(store.read("t", queue, 0, 1_000)) for queue in range(3)],
    "report": lambda store: store.report()["plugins"]["compaction"]["queue_count"],
}


@pytest.mark.parametrize("name", sorted(QUESTIONS))
def test_every_question_is_answered_while_files_change_their_names(tmp_path, name):
    disk = AskingDisk()
    with open_store(tmp_path / "store", disk=disk) as store:
        put(store, many(60, 10))
        before = [each.max_queue_offset for each in store.queues()]
        disk.question = lambda: QUESTIONS[name](store)
        store.plugin("compaction").compact()
        disk.question = None
        for thread in disk.threads:
            thread.join(_LONG)

        assert len(disk.threads) > 10
        assert disk.errors == []
        assert [each.max_queue_offset for each in store.queues()] == before


@pytest.mark.costly
def test_a_reader_looks_again_where_a_writer_cuts_a_queue_between_two_of_its_reads(tmp_path):
    root = tmp_path / "store"
    with open_store(root) as store:
        put(store, many(20, 10))
    queue = max((root / "compaction" / "compactionCq" / "t" / "0").iterdir())
    data, disk, left = queue.read_bytes(), ReaderDisk(), [0]

    def before():
        left[0] -= 1
        queue.write_bytes(b"" if left[0] == 0 else data)

    plugin = CompactionPlugin.from_section("compaction", {"topics": ["t"]})
    with reput.open(root, "r", plugins=[plugin], disk=disk) as reader:
        whole = [message.body for message in reader.read("t", 0, 0, 1_000)]
        disk.before = before
        for moment in range(1, 40):
            left[0] = moment
            found = [message.body for message in reader.read("t", 0, 0, 1_000)]
            assert found == whole[: len(found)]
    assert left[0] > 0
