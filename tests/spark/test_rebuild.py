"""Files that Spark has built are those that were built while messages arrived."""

from __future__ import annotations

import functools
import os
import pickle
import shutil
import signal
import zipfile
from pathlib import Path

import attrs
import pytest

import reput
from reput.errors import PluginError, StoreLockedError, StoreNotFoundError
from reput_testing import snapshot
from reput_tools.offline import run_rebuild

pytest.importorskip("pyspark")

from reput_spark import SparkReputError
from reput_spark.jobs.rebuild import rebuild
from reput_spark.jobs.sparkengine import SparkEngine, do_task

CONFIG = {
    "commitlog": {"file_size": 1 << 20},
    "consumequeue": {"units_per_file": 500},
    "index": {"slots_per_file": 1_000, "items_per_file": 9_000},
}
SPLIT = 300_000  # bytes; at least 1 MiB is taken
PLUGINS = ["consumequeue", "index"]
EXAMPLES = Path(__file__).parents[2] / "examples"


def fill(store, count=16_000):
    store.put_many(
        [
            reput.Message(
                f"T{number % 5}",
                b"x" * (number % 300),
                queue_id=number % 3,
                keys=f"k{number}",
                properties={"UNIQ_KEY": f"U{number}"},
            )
            for number in range(count)
        ]
    )


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A closed store with several files of every kind."""
    root = tmp_path_factory.mktemp("rebuild") / "store"
    with reput.open(root, plugins=PLUGINS, config=CONFIG) as store:
        fill(store)
    return root


@pytest.fixture
def path(made, tmp_path):
    return shutil.copytree(made, tmp_path / "store")


def derived(path, names=("consumequeue", "index")):
    return {name: snapshot(path / name) for name in names}


def nothing_is_left_behind(path):
    return not (path / "reput" / "rebuild").exists()


# --------------------------------------------------------------------------- what is built


def test_queues_and_index_are_the_same_to_the_byte(spark, path):
    before = derived(path)
    for name in before:
        shutil.rmtree(path / name)
    told = []

    built = rebuild(
        spark, path, split_size=SPLIT, progress=lambda done, total: told.append((done, total))
    )

    assert derived(path) == before
    assert [(each.plugin, each.message_count, each.reason) for each in built] == [
        ("consumequeue", 16_000, None),
        ("index", 16_000, None),
    ]
    assert all(each.split_count > 3 for each in built)
    assert told[-1][0] == told[-1][1] > 0
    assert nothing_is_left_behind(path)
    with reput.open(path) as store:
        assert [(state.lag_size, state.batch_count) for state in store.plugins()] == [(0, 0)] * 2


@pytest.fixture
def send(spark, tmp_path_factory, monkeypatch):
    """Send a third party's plugin to the executors as Spark's users send packages."""

    def send(name, value, sources):
        archive = tmp_path_factory.mktemp("sent") / f"{name}.zip"
        with zipfile.ZipFile(archive, "w") as file:
            for path, text in sources.items():
                file.writestr(path, text)
            about = f"reput_{name}-0.1.0.dist-info"
            text = f"Metadata-Version: 2.1\nName: reput-{name}\nVersion: 1\n"
            file.writestr(f"{about}/METADATA", text)
            file.writestr(f"{about}/entry_points.txt", f"[reput.plugins]\n{name} = {value}\n")
        spark.sparkContext.addPyFile(str(archive))
        monkeypatch.syspath_prepend(str(archive))

    return send


def sources_of(example):
    """The modules of an example, a third party's plugin, by their paths in its package."""
    folder = EXAMPLES / f"reput-{example}" / "src" / f"reput_{example}"
    return {f"reput_{example}/{each.name}": each.read_text("utf-8") for each in folder.glob("*.py")}


WITHOUT_SHARDS = """
from reput_audit import AuditPlugin

class PlainPlugin(AuditPlugin):
    reput_tools_shards = None
"""


@pytest.mark.parametrize(
    ("name", "value", "more", "split_count"),
    [
        ("audit", "reput_audit:AuditPlugin", {}, 4),
        ("plain", "reput_plain:PlainPlugin", {"reput_plain.py": WITHOUT_SHARDS}, 1),
    ],
    ids=["from splits", "by one task beside the splits"],
)
def test_a_third_partys_plugin_is_built_unchanged(
    spark, send, tmp_path, name, value, more, split_count
):
    send(name, value, {**sources_of("audit"), **more})
    path = tmp_path / "store"
    with reput.open(path, plugins=["consumequeue", name], config=_without_index()) as store:
        fill(store)
    before = derived(path, ["consumequeue", "audit"])
    shutil.rmtree(path / "audit")

    built = {each.plugin: each for each in rebuild(spark, path, split_size=SPLIT)}

    assert derived(path, ["consumequeue", "audit"]) == before
    assert before["audit"]
    assert (built[name].split_count, built[name].message_count) == (split_count, 16_000)
    assert built["consumequeue"].split_count == 4


def _without_index():
    return {name: section for name, section in CONFIG.items() if name != "index"}


# --------------------------------------------------------------------------- what fails


@attrs.frozen
class Stumble:
    """A task that fails until it has been tried often enough, having written half of its file."""

    number: int
    path: str
    failures: int
    size: int = 10

    def __str__(self):
        return f"stumble {self.number} in {self.path}"


def test_a_task_that_fails_first_is_begun_anew_and_counted_once(spark, tmp_path):
    tasks = [Stumble(number, str(tmp_path / str(number)), number % 2) for number in range(4)]

    def work(task, report):
        tries = os.path.getsize(task.path) if os.path.exists(task.path) else 0
        with open(task.path, "ab") as file:
            file.write(b"x")
        if tries < task.failures:
            raise OSError("not yet")
        return task.number, tries

    told = []

    found = SparkEngine(spark).run(work, tasks, told.append)

    assert found == [(0, 0), (1, 1), (2, 0), (3, 1)]
    assert told[-1] == 40
    assert told == sorted(told)


def test_workers_that_are_killed_change_nothing(spark, path, tmp_path):
    before = derived(path)
    engine = SparkEngine(spark)
    run = engine.run
    marks = tmp_path / "marks"
    marks.mkdir()
    engine.run = lambda work, tasks, told: run(
        functools.partial(_killed_first, work, str(marks)), tasks, told
    )
    for name in before:
        shutil.rmtree(path / name)

    run_rebuild(path, (), engine, split_size=SPLIT)

    assert derived(path) == before
    assert {mark.name for mark in marks.iterdir()} == {"ScanTask", "BuildTask"}


def _killed_first(work, marks, task, report):
    """One task of each kind ends its process the first time, with its work half done."""
    mark = os.path.join(marks, type(task).__name__)
    if os.path.exists(mark):
        return work(task, report)

    def die(size):
        try:
            os.close(os.open(mark, os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return
        os.kill(os.getpid(), signal.SIGKILL)

    result = work(task, die)
    die(0)  # what builds a file tells nothing of its progress
    return result


def test_a_failure_names_split_and_file_and_leaves_the_store_as_it_was(spark, path):
    before = snapshot(path)
    engine = SparkEngine(spark)
    run = engine.run
    engine.run = lambda work, tasks, told: run(functools.partial(_broken, work), tasks, told)

    with pytest.raises(
        SparkReputError, match=r"split 1 \[\d+, \d+\) for consumequeue, index.*full"
    ):
        run_rebuild(path, (), engine, split_size=SPLIT)

    assert snapshot(path) == before
    assert nothing_is_left_behind(path)


def _broken(work, task, report):
    work(task, report)
    if " 1 " in str(task):
        raise OSError("the disk is full")


def test_damage_that_nobody_has_noted_is_told(spark, path):
    with reput.open(path, "r") as store:
        victim = next(iter(store.scan(1 << 20))).physical_offset[5]
        file, position = store.log.path_of(int(victim))
    with open(file, "r+b") as log:
        log.seek(position + 4)
        log.write(b"\xff\xff\xff\xff")
    before = derived(path)

    with pytest.raises(SparkReputError, match=r"REPUT_DAMAGED.*backfill"):
        rebuild(spark, path, split_size=SPLIT)

    assert derived(path) == before


def test_a_store_that_is_being_written_is_left_alone(spark, path):
    with reput.open(path), pytest.raises(StoreLockedError):
        rebuild(spark, path)


def test_there_must_be_a_store_that_uses_the_plugin(spark, path, tmp_path):
    with pytest.raises(StoreNotFoundError):
        rebuild(spark, tmp_path / "nothing")
    with pytest.raises(PluginError, match="it uses consumequeue, index"):
        rebuild(spark, path, ["nobody"])
    for strange in ("s3://bucket/store", "s3:/bucket/store"):
        with pytest.raises(SparkReputError, match="mapped, locked and renamed"):
            rebuild(spark, strange)


def test_a_path_may_be_a_uri_of_the_file_system(spark, path):
    built = rebuild(spark, path.as_uri(), ["index"], check=True)

    assert [(each.plugin, each.differences) for each in built] == [("index", ())]


# --------------------------------------------------------------------------- without a JVM


def test_an_error_that_is_none_of_ours_is_named_with_its_task():
    def work(task, report):
        raise ZeroDivisionError("by zero")

    with pytest.raises(SparkReputError, match=r"stumble 7 in /log: ZeroDivisionError: by zero"):
        do_task(work, pickle.dumps(Stumble(7, "/log", 0)))
