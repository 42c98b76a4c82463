"""A comparison of what was derived with the log: right about stores of RocketMQ, and only looks."""

from __future__ import annotations

import subprocess
import sys

import pytest
from click.testing import CliRunner

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
