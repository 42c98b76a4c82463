"""A comparison of what was derived with the log: right about stores of RocketMQ, and only looks."""

from __future__ import annotations

import shutil
import subprocess
import sys

import pytest
from click.testing import CliRunner

import reput
from reput.errors import StoreLockedError
from reput_tools.cli.kit.exitcodes import ExitCode
from reput_tools.cli.root import reput as command
from reput_tools.offline import rebuild

pytestmark = pytest.mark.shows("commands")

SOUND = ["basic", "slow", "v6", "batch", "transaction", "demo", "crash-clean-tail"]


def snapshot(root):
    """Every name below a directory, with time of change and bytes of files."""
    return {
        str(path.relative_to(root)): (path.stat().st_mtime_ns, path.read_bytes())
        if path.is_file()
        else None
        for path in sorted(root.rglob("*"))
    }


@pytest.mark.parametrize("case", SOUND)
def test_a_sound_store_of_rocketmq_is_the_same_and_stays_as_it_is(case, golden_store):
    root = golden_store(case)
    before = snapshot(root)

    done = CliRunner().invoke(command, ["rebuild", str(root), "--check", "--jobs", "1"])

    assert done.exit_code == ExitCode.OK, done.output
    assert done.output.count("the same") == 2
    assert snapshot(root) == before


@pytest.mark.parametrize("case", ["delay", "ext"])
def test_its_index_is_the_same_where_units_say_what_other_plugins_know(case, golden_store):
    root = golden_store(case)
    before = snapshot(root)

    (found,) = rebuild(root, ["index"], jobs=1, check=True)

    assert found.differences == ()
    assert snapshot(root) == before


def test_what_differs_is_told_by_the_name_that_the_file_has(golden_store):
    root = golden_store("basic")
    files = sorted((root / "index").iterdir())
    with open(files[3], "r+b") as file:
        file.seek(100)
        file.write(b"\xee")
    files[5].unlink()

    (found,) = rebuild(root, ["index"], jobs=1, check=True)

    wrong, missing = found.differences
    assert (wrong.path, wrong.position) == (f"index/{files[3].name}", 100)
    assert missing.reason == "the file is missing"


def test_of_two_files_with_the_same_beginning_one_is_too_many(golden_store):
    root = golden_store("basic")
    files = sorted((root / "index").iterdir())
    shutil.copy(files[0], root / "index" / "20991231235959000")

    (found,) = rebuild(root, ["index"], jobs=1, check=True)

    (difference,) = found.differences
    assert difference.reason == "nothing in the log leads to this file"


@pytest.mark.slow
def test_a_check_of_our_own_store_writes_nothing_either(tmp_path):
    root = tmp_path / "store"
    with reput.open(root, plugins=["consumequeue", "index"], threads=False) as store:
        store.put(reput.Message("t", b"x", keys="k"))
    before = snapshot(root)

    found = rebuild(root, jobs=1, check=True)

    assert [each.differences for each in found] == [(), ()]
    assert snapshot(root) == before


def test_a_store_that_is_being_written_is_not_compared(tmp_path):
    root = tmp_path / "store"
    with reput.open(root, plugins=["consumequeue", "index"], threads=False) as store:
        store.put(reput.Message("t", b"x", keys="k"))

        with pytest.raises(StoreLockedError):
            rebuild(root, jobs=1, check=True)


WRITER = """
import sys, reput
with reput.open(sys.argv[1], plugins=["consumequeue", "index"]) as store:
    store.put(reput.Message("t", b"x", keys="k"))
"""


@pytest.mark.costly
def test_who_writes_meanwhile_in_a_store_without_a_lock_file_is_told(golden_store):
    root = golden_store("slow")
    writers = []

    def begin(done, total):
        if not writers:
            asked = [sys.executable, "-c", WRITER, str(root)]
            writers.append(subprocess.run(asked, check=True))

    with pytest.raises(StoreLockedError):
        rebuild(root, jobs=1, check=True, progress=begin)

    assert len(writers) == 1
