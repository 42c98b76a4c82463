"""Files from states that add up, one for each split."""

from __future__ import annotations

import pickle
import types

import pytest

from reput.files import Disk
from reput_tools.offline import MergingBuilder


class Letters(MergingBuilder):
    """The letters of all batches, in their order."""

    directories = ("letters",)

    def new_state(self):
        return []

    def add(self, state, batch):
        state.extend(batch)

    def merge(self, state, later):
        state.extend(later)

    def write(self, state, staging):
        self.context.disk.make_directory(f"{staging}/letters")
        self.context.disk.replace(f"{staging}/letters/all", "".join(state).encode())


class NotedDisk(Disk):
    """Notes which directories are flushed."""

    def __init__(self):
        super().__init__()
        self.flushed = []

    def flush_directory(self, path):
        self.flushed.append(path)
        super().flush_directory(path)


def built(root, splits):
    """The content of the file; each split is scanned by a builder of its own, as elsewhere."""
    disk = NotedDisk()
    context = types.SimpleNamespace(disk=disk)
    scanned = []
    for batches in splits:
        scan = Letters(context).begin(None, str(root))
        for batch in batches:
            scan.add(batch)
        scanned.append(pickle.loads(pickle.dumps(scan.finish())))
    driver = Letters(context)
    tasks = driver.plan(scanned)
    driver.finish(scanned, [driver.build(task, str(root)) for task in tasks], str(root))
    assert disk.flushed[-2:] == [f"{root}/letters", str(root)]
    return (root / "letters" / "all").read_text()


@pytest.mark.parametrize(
    "splits", [[["ab", "c"], ["d"], ["ef"]], [["abcdef"]], [[], ["abc"], [], ["def"]]]
)
def test_states_are_merged_in_the_order_of_the_log(tmp_path, splits):
    assert built(tmp_path, splits) == "abcdef"


def test_of_an_empty_log_the_state_of_nothing_is_written(tmp_path):
    assert built(tmp_path, []) == ""


def test_a_builder_that_lacks_a_method_is_refused_before_anything_is_read():
    class Half(MergingBuilder):
        directories = ("letters",)

        def new_state(self):
            return []

    with pytest.raises(TypeError, match=r"abstract methods.*add.*merge.*write"):
        Half(types.SimpleNamespace(disk=Disk()))
