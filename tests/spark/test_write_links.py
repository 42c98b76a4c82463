"""Writes and streams into a store that somebody else packed: no link in it leads them out of it."""

from __future__ import annotations

import os
import uuid

import pytest
from sinkrows import QUERY, segments_of, sink_of
from writtenstores import bodies_of, planned, rows_of, write, written

from reput.errors import UnsafePathError
from reput.files import Disk
from reput_arrow.logwriter.publication.commit import abort_write, commit_write
from reput_arrow.logwriter.publication.recovery import take_back
from reput_arrow.logwriter.staging.numbering import number_file
from reput_arrow.logwriter.staging.segments import write_task
from reput_arrow.logwriter.stagingdirectories import STALE_MS, sweep
from reput_spark import SparkReputError
from reput_spark.source.writer import LogWriter, TaskMessage
from reput_spark.writer.segments import directory_of, stage_segment

STALE = f"write-{'0' * 32}"


@pytest.fixture
def outside(tmp_path):
    """A directory of somebody else's, with a canary in it."""
    made = tmp_path / "outside"
    (made / "commitlog").mkdir(parents=True)
    (made / "canary").write_bytes(b"somebody else's")
    return made


@pytest.fixture
def root(tmp_path):
    """A store that a write has made."""
    write(tmp_path / "store", [[rows_of(0, 20)]])
    return tmp_path / "store"


def contents_of(directory):
    return {
        str(path.relative_to(directory)): path.read_bytes() if path.is_file() else None
        for path in directory.rglob("*")
    }


def lead_out(path, outside):
    """Put what has that path outside, or a canary's bytes, and a link in its place."""
    target = outside / "target"
    if path.exists():
        path.rename(target)
    elif path.suffix or path.name.isdigit():
        target.write_bytes(b"somebody else's, too")
    else:
        target.mkdir()
        (target / "canary").write_bytes(b"somebody else's, too")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.symlink_to(target)
    return contents_of(outside)


# --------------------------------------------------------------------------- writes


@pytest.mark.parametrize(
    "name",
    ["reput", "reput/spark", "reput/spark/writes.json", "commitlog", "commitlog/" + "0" * 20],
)
def test_a_write_is_not_planned_over_a_link(root, outside, name):
    before = lead_out(root / name, outside)

    with pytest.raises(UnsafePathError, match="is a symbolic link"):
        planned(root)

    assert contents_of(outside) == before


def test_no_store_is_made_over_a_link(tmp_path, outside):
    before = lead_out(tmp_path / "new" / "reput" / "spark", outside)

    with pytest.raises(UnsafePathError, match="is a symbolic link"):
        planned(tmp_path / "new")

    assert contents_of(outside) == before


@pytest.mark.parametrize("name", ["reput", "reput/spark", "reput/spark/{staging}"])
def test_a_task_writes_nothing_over_a_link(root, outside, name):
    plan = planned(root)
    before = lead_out(root / name.format(staging=plan.staging), outside)

    with pytest.raises(UnsafePathError, match="is a symbolic link"):
        written(plan, [[rows_of(1, 5)]])

    assert contents_of(outside) == before


def test_a_task_takes_no_file_that_is_there_already(root, outside, monkeypatch):
    plan = planned(root)
    monkeypatch.setattr(uuid, "uuid4", lambda: uuid.UUID(int=7))
    staging = root / "reput" / "spark" / plan.staging
    for suffix in ("", ".positions"):
        path = staging / f"000000-{uuid.UUID(int=7).hex}-000000{suffix}"
        path.hardlink_to(outside / "canary")
    before = contents_of(outside)

    (task,) = written(plan, [[rows_of(1, 5)]])

    assert task.record_count == 5
    assert contents_of(outside) == before


@pytest.mark.parametrize("suffix", ["", ".positions"])
def test_a_task_writes_no_file_over_a_link(root, outside, monkeypatch, suffix):
    plan = planned(root)
    monkeypatch.setattr(uuid, "uuid4", lambda: uuid.UUID(int=7))
    name = f"000000-{uuid.UUID(int=7).hex}-000000{suffix}"
    (root / "reput" / "spark" / plan.staging / name).symlink_to(outside / "canary")
    before = contents_of(outside)

    with pytest.raises(UnsafePathError, match="is a symbolic link"):
        written(plan, [[rows_of(1, 5)]])

    assert contents_of(outside) == before


COMMITTED_OVER = [
    "reput",
    "reput/spark",
    "reput/spark/publish.json",
    "reput/spark/publish.json.new",
    "reput/spark/writes.json",
    "reput/spark/{staging}",
    "reput/spark/{staging}/{segment}",
    "reput/spark/{staging}/{segment}.positions",
    f"reput/spark/{STALE}",
    "reput/state",
    "commitlog",
    "commitlog/{first}",
    "commitlog/{next}",
]


@pytest.mark.parametrize("name", COMMITTED_OVER)
def test_a_write_is_not_published_over_a_link(root, outside, name):
    plan = planned(root)
    tasks = written(plan, [[rows_of(1, 5)]])
    facts = {
        "staging": plan.staging,
        "segment": tasks[0].segments[0].name,
        "first": "0" * 20,
        "next": f"{plan.file_size:020d}",
    }
    before = lead_out(root / name.format(**facts), outside)

    with pytest.raises(UnsafePathError, match="is a symbolic link"):
        commit_write(plan, tasks)

    assert contents_of(outside) == before


def test_what_is_cleared_up_after_a_publication_is_not_looked_for_over_a_link(
    root, outside, caplog
):
    plan = planned(root)
    tasks = written(plan, [[rows_of(1, 5)]])
    before = lead_out(root / "reput" / "spark" / "writes.json.new", outside)

    commit_write(plan, tasks)

    assert "published, not cleared up" in caplog.text
    assert len(bodies_of(root)) == 25
    assert contents_of(outside) == before


@pytest.mark.parametrize("name", ["reput", "reput/spark", "reput/spark/{staging}"])
def test_a_write_that_failed_removes_nothing_over_a_link(root, outside, name):
    plan = planned(root)
    written(plan, [[rows_of(1, 5)]])
    before = lead_out(root / name.format(staging=plan.staging), outside)

    with pytest.raises(UnsafePathError, match="is a symbolic link"):
        abort_write(plan)
    with pytest.raises(UnsafePathError, match="is a symbolic link"):
        take_back(str(root), plan.staging)

    assert contents_of(outside) == before


def test_a_file_is_numbered_by_a_process_that_follows_no_link_either(root, outside):
    from reput_arrow.logwriter.staging.numbering import number
    from reput_arrow.logwriter.stagingdirectories import path_of

    plan = planned(root)
    tasks = written(plan, [[rows_of(1, 5)]])
    directory = path_of(plan.root, plan.staging)
    disk = Disk().at(plan.root)
    (task,) = number(
        tasks, plan.root, directory, 0, {}, plan.file_size, record_crc=False, disk=disk
    )
    before = lead_out(root / "reput" / "spark", outside)

    with pytest.raises(UnsafePathError, match="is a symbolic link"):
        number_file(task, lambda size: None)

    assert contents_of(outside) == before


# --------------------------------------------------------------------------- links that are meant


@pytest.mark.parametrize("name", ["reput/spark", "commitlog", "commitlog/" + "0" * 20])
def test_a_write_follows_links_where_it_is_told_to(root, outside, name):
    lead_out(root / name, outside)

    plan = planned(root, follow_links=True)
    commit_write(plan, [write_task(plan, 0, [rows_of(1, 5)], Disk())])

    assert (root / name).is_symlink()
    assert sum(len(path.read_bytes().split(b"1-4")) - 1 for path in (root / "commitlog").iterdir())


def test_the_directory_itself_may_be_a_link(tmp_path, root):
    (tmp_path / "linked").symlink_to(root)

    write(tmp_path / "linked", [[rows_of(1, 5)]])

    assert len(bodies_of(root)) == 25


def test_a_sweep_enters_no_directory_through_a_link_where_links_are_followed(root, outside):
    link = root / "reput" / "spark" / STALE
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to(outside)
    before = contents_of(outside)
    later = os.stat(outside).st_mtime + 2 * STALE_MS / 1_000

    sweep(str(root), Disk().at(str(root), follow_links=True), set(), lambda: later)

    assert not link.is_symlink()
    assert contents_of(outside) == before


def test_a_link_in_a_directory_that_is_swept_goes_and_what_it_leads_to_stays(root, outside):
    stale = root / "reput" / "spark" / STALE
    stale.mkdir(parents=True)
    (stale / "000000-0").symlink_to(outside / "canary")
    before = contents_of(outside)
    later = os.stat(stale).st_mtime + 2 * STALE_MS / 1_000

    swept = sweep(str(root), Disk().at(str(root)), set(), lambda: later)

    assert swept == [STALE]
    assert not stale.exists()
    assert contents_of(outside) == before


# --------------------------------------------------------------------------- streams


@pytest.mark.parametrize("name", ["reput", "reput/spark", f"reput/spark/query-{QUERY}"])
def test_a_task_of_a_stream_writes_nothing_over_a_link(tmp_path, outside, name):
    root = tmp_path / "store"
    before = lead_out(root / name, outside)

    with pytest.raises(UnsafePathError, match="is a symbolic link"):
        segments_of(root, 0)

    assert contents_of(outside) == before


@pytest.mark.parametrize(
    "name",
    [
        "reput",
        "reput/spark",
        "reput/spark/{query}",
        "reput/spark/{query}/intent.json",
        "reput/spark/{query}/intent.json.new",
        "reput/spark/{query}/committed.json",
        "reput/spark/{query}/committed.json.new",
        "reput/spark/{query}/{segment}",
        "commitlog",
        "commitlog/" + "0" * 20,
    ],
)
def test_a_batch_is_not_committed_over_a_link(tmp_path, outside, name):
    root = tmp_path / "store"
    sink_of(root).commit(segments_of(root, 0), 0)
    segments = segments_of(root, 1)
    facts = {"query": f"query-{QUERY}", "segment": segments[0].name}
    before = lead_out(root / name.format(**facts), outside)

    with pytest.raises(UnsafePathError, match="is a symbolic link"):
        sink_of(root).commit(segments, 1)

    assert contents_of(outside) == before


@pytest.mark.parametrize("name", ["reput", "reput/spark", "reput/spark/{query}"])
def test_a_batch_that_failed_removes_nothing_over_a_link(tmp_path, outside, name):
    root = tmp_path / "store"
    segments = segments_of(root, 0)
    before = lead_out(root / name.format(query=f"query-{QUERY}"), outside)

    with pytest.raises(UnsafePathError, match="is a symbolic link"):
        sink_of(root).abort(segments, 0)

    assert contents_of(outside) == before


def test_a_stream_follows_links_where_it_is_told_to(tmp_path, outside):
    root = tmp_path / "store"
    lead_out(root / "reput" / "spark", outside)

    segments = segments_of(root, 0, follow_links="true")
    sink_of(root, follow_links="true").commit(segments, 0)

    assert (outside / "target" / f"query-{QUERY}" / "committed.json").exists()
    assert directory_of(str(root), QUERY).startswith(str(root))


# --------------------------------------------------------------------------- what Spark is told


def test_spark_gets_a_code_and_the_name_of_the_option(root, outside):
    plan = planned(root)
    segment = stage_segment([rows_of(1, 5)], plan, 0, 0, Disk())
    (root / "reput" / "spark" / "publish.json").symlink_to(outside / "canary")

    with pytest.raises(SparkReputError, match=r"publish\.json: is a symbolic link") as caught:
        LogWriter(plan).commit([TaskMessage(segment)])

    assert str(caught.value).startswith("[REPUT_UNSAFE] ")
    assert "option follow_links" in str(caught.value)
    assert isinstance(caught.value.__cause__, UnsafePathError)
