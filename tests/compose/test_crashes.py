"""Queues with extend files, an index and registered filters in one store, through crashes.

Whatever a power cut, a failing disk or a kill leaves: reads, searches by key and filtered reads
give what the log says, and all derived files are those that are built from that log anew.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import pytest
from openstores import messages_in

import reput
from reput.record.layout import TRANSACTION_COMMIT, TRANSACTION_ROLLBACK
from reput_testing import CrashContract, KillLoop, QuickDisk, snapshot
from reput_testing.casebudget import is_whole
from reput_testing.crashes.expectedstate import messages_of
from reput_testing.crashes.killloop import kill_count
from reput_testing.crashes.killplan import PluginSource

pytest.importorskip("reput_consumequeue")
pytest.importorskip("reput_filter")
pytest.importorskip("reput_index")

from reput_consumequeue import ConsumeQueuePlugin
from reput_filter import FilterConfig, FilterPlugin, RegisteredFilter
from reput_filter import compile as compile_filter
from reput_index import IndexConfig, IndexPlugin

pytestmark = [pytest.mark.proof, pytest.mark.shows("kill", "power-cut")]

TOPICS = ("orders", "payments", "%RETRY%orders-group")
CONDITIONS = (
    "TAGS = 'paid'",
    "KEYS IS NOT NULL AND TAGS IS NULL",
    "n = 1 OR region = 'eu'",
)
LISTED = (0, TRANSACTION_COMMIT)
ALL = ("consumequeue", "filter", "index")


class FiltersFirst(FilterPlugin):
    """Registers the same filters in every store, before it has any message.

    What bit maps say depends on when filters were registered. With these it does not, so that two
    stores of one log can be compared byte for byte.
    """

    name: ClassVar[str] = "filter"

    @reput.hookimpl
    def reput_recover(self, progress):
        """Register, durably."""
        for topic in TOPICS if self._context.writable else ():
            for number, condition in enumerate(CONDITIONS):
                self.register(f"group-{number}", topic, condition)
        return progress

    def _write(self, consumers):
        """Save; where the disk fails, the next opening registers the same once more."""
        with contextlib.suppress(OSError):
            super()._write(consumers)


def files_of(root):
    return [os.path.join(root, name) for name in ("consumequeue", "consumequeue_ext", "index")]


def assert_answers_are_the_logs(store):
    """Read every queue, with each filter and without, and search for every key.

    Returns:
        How many messages were read, how many filters selected, how many were found by keys.
    """
    queues: dict[tuple[str, int], list[Any]] = {}
    keys: dict[tuple[str, str], list[Any]] = {}
    for view in messages_of(store):
        if view.transaction in LISTED:
            queues.setdefault((view.topic, view.queue_id), []).append(view)
        if view.transaction != TRANSACTION_ROLLBACK:
            words = [view.properties.get("UNIQ_KEY"), *view.properties.get("KEYS", "").split(" ")]
            for word in filter(None, dict.fromkeys(words)):
                keys.setdefault((view.topic, word), []).append(view)
    assert {(info.topic, info.queue_id) for info in store.queues() if info.message_count} == set(
        queues
    )
    selected = sum(_compare_queue(store, *queue, views) for queue, views in queues.items())
    for (topic, word), views in keys.items():
        found = list(store.query(topic, word, oldest_first=True))
        assert _places(found) == _places(views), (topic, word)
    return sum(map(len, queues.values())), selected, sum(map(len, keys.values()))


def _compare_queue(store, topic, queue_id, views):
    assert _places(_read_all(store, topic, queue_id, None)) == _places(views)
    selected = 0
    for condition in CONDITIONS:
        chosen = store.filter(condition, topic=topic)
        assert isinstance(chosen, RegisteredFilter) == (topic in TOPICS)
        plain = compile_filter(condition)
        wanted = [view for view in views if plain.matches(view)]
        assert _places(_read_all(store, topic, queue_id, chosen)) == _places(wanted), condition
        selected += len(wanted)
    return selected


def _read_all(store, topic, queue_id, chosen):
    return messages_in(store, topic, queue_id, filter=chosen)


def _places(views):
    return [(view.physical_offset, view.record) for view in views]


# --------------------------------------------------------------------------- power cuts, bad disks


@pytest.mark.sizes(consumequeue={"extend_file_size": 128})
class TestCrashes(CrashContract):
    """The kit compares one plugin's state; here its files are those of all three."""

    plugin_name = "consumequeue"
    config: ClassVar[Mapping[str, Any]] = {"units_per_file": 3, "extend": True}
    crash_message_count = 6
    max_states = 16
    second_lives = (2,)
    fault_step = 29

    def plugins(self):
        index = IndexConfig(slots_per_file=5, items_per_file=4)
        return ["consumequeue", IndexPlugin(index), FiltersFirst(FilterConfig(bit_maps=True))]

    def files_of(self, root):
        return files_of(root)

    def state(self, plugin):
        """How far each queue goes; what is in them is compared by `compare_with_new`."""
        return {
            (info.topic, info.queue_id): (info.min_queue_offset, info.max_queue_offset)
            for info in plugin.reput_queues()
            if info.max_queue_offset
        }

    def compare_with_new(self, witness, root):
        super().compare_with_new(witness, root)
        with reput.open(root, threads=False, disk=QuickDisk(), **witness.arguments()) as store:
            assert_answers_are_the_logs(store)
            states = {each.name: each.state for each in store.plugins()}
            assert states == dict.fromkeys(ALL, "running")


def test_without_a_crash_all_three_have_something_to_say(tmp_path):
    kit, root = TestCrashes(), str(tmp_path / "store")
    witness = kit.witness("async")

    kit.life(witness, root)

    with reput.open(root, threads=False, **witness.arguments()) as store:
        listed, selected, found = assert_answers_are_the_logs(store)
        refused = refused_by_bit_maps(store)
    folders = {name.split(os.sep)[0] for name in snapshot(root, files_of(root))}
    assert folders == {"consumequeue", "consumequeue_ext", "index"}
    assert selected > 0 < found
    assert 0 < refused < listed * len(CONDITIONS)


class Refusals:
    """A registered filter; counts the messages that it refuses without a look at their records."""

    def __init__(self, chosen):
        self.chosen, self.count = chosen, 0
        self.matches, self.matches_batch = chosen.matches, chosen.matches_batch

    def may_match(self, tags_codes, bit_maps, store_timestamps):
        found = self.chosen.may_match(tags_codes, bit_maps, store_timestamps)
        self.count += int((~found).sum())
        return found


def refused_by_bit_maps(store):
    count = 0
    for info in store.queues():
        for condition in CONDITIONS:
            refusals = Refusals(store.filter(condition, topic=info.topic))
            store.read(info.topic, info.queue_id, 0, filter=refusals)
            count += refusals.count
    return count


# --------------------------------------------------------------------------- kills


class SmallQueues(ConsumeQueuePlugin):
    """Of small extend files, also in the process that is killed."""

    extend_file_size: ClassVar[int] = 1024


KILLED_CONFIG = {
    "index": {"slots_per_file": 50, "items_per_file": 60},
}
SOURCES = (
    PluginSource.of("consumequeue", SmallQueues, {"units_per_file": 30, "extend": True}),
    PluginSource("index"),
    PluginSource.of("filter", FiltersFirst, {"bit_maps": True}),
)


@pytest.mark.costly
def test_after_every_kill_answers_and_files_are_the_logs(tmp_path):
    def compare_answers(store: reput.Store) -> None:
        assert_answers_are_the_logs(store)

    def compare_files(root: Path, config: Mapping[str, Mapping[str, Any]]) -> None:
        anew = tmp_path / "built anew"
        shutil.rmtree(anew, ignore_errors=True)
        shutil.copytree(root / "commitlog", anew / "commitlog")
        plugins = [source.plugin() for source in SOURCES]
        with reput.open(
            anew, plugins=plugins, config=config, disk=QuickDisk(), threads=False
        ) as store:
            store.wait_dispatched()
        assert snapshot(root, files_of(root)) == snapshot(anew, files_of(anew))

    loop = KillLoop(
        tmp_path,
        SOURCES,
        config=KILLED_CONFIG,
        check=compare_answers,
        check_closed=compare_files,
    )

    loop.run(kill_count(20))

    assert loop.acked_count > 0 or not is_whole()
