"""What runs at night, and what CI runs when something has changed: decided from the commits."""

from __future__ import annotations

import subprocess
import sys

import pytest
from repositoryfiles import ROOT, program

nightly = program("packaging/nightly.py")
changed = program("packaging/changed.py")

# Fails in the environment `check` since the file `broken` exists; a test may be named.
RUNNER = """\
import pathlib, sys
test = "tests/test_a.py::test_one"
if sys.argv[1] == "absent" and not pathlib.Path("added").exists():
    sys.exit(4)
if sys.argv[1] == "chance" and not pathlib.Path("ran").exists():
    pathlib.Path("ran").touch()
    print(f"FAILED {test} - by chance")
    sys.exit(1)
if sys.argv[1] in ("check", "absent") and pathlib.Path("broken").exists():
    print(f"FAILED {test} - AssertionError: 1 == 2")
    sys.exit(1)
if sys.argv[1] == "install":
    sys.exit(1)
"""


def git(root, *arguments):
    own = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false"]
    command = ["git", *own, "-C", str(root), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


@pytest.fixture
def repository(tmp_path):
    """Make a repository of six commits, of which the fourth breaks the test."""
    root = tmp_path / "repository"
    root.mkdir()
    git(root, "init", "--quiet")
    for number in range(1, 7):
        name = {3: "added", 4: "broken"}.get(number, f"file{number}")
        (root / name).write_text(name)
        git(root, "add", "--all")
        git(root, "commit", "--quiet", "-m", f"commit {number}")
    runner = tmp_path / "runner.py"
    runner.write_text(RUNNER)
    first = git(root, "rev-list", "--max-parents=0", "HEAD")
    return nightly.Nightly(root, [sys.executable, str(runner)], first)


@pytest.mark.costly
def test_the_commit_that_broke_a_test_is_found_and_the_command_printed(repository, capsys):
    failures = repository.run("check")

    assert [(each.environment, each.test) for each in failures] == [
        ("check", "tests/test_a.py::test_one")
    ]
    assert failures[0].verdict.startswith("broken by ")
    assert failures[0].verdict.endswith("commit 4")
    assert nightly.report(repository, failures, 2) == 1
    assert "repeat: " in capsys.readouterr().out
    assert git(repository.root, "worktree", "list").count("\n") == 0


def test_commits_without_the_test_are_passed_over(repository):
    (failure,) = repository.run("absent")

    assert "the test is newer than" in failure.verdict


def test_a_test_that_passes_again_fails_by_chance(repository):
    (failure,) = repository.run("chance")

    assert failure.verdict == "fails by chance: it passed when it ran again"


def test_an_environment_that_fails_without_a_test_is_named(repository):
    (failure,) = repository.run("install")

    assert failure.test == ""
    assert "too: name an older commit" in failure.verdict


@pytest.mark.parametrize("good", ["", "0" * 40])
def test_without_a_commit_that_passes_nothing_is_bisected(repository, good):
    (failure,) = repository._replace(good=good).run("check")

    assert "--good" in failure.verdict or "is not a commit" in failure.verdict


def test_a_run_of_nothing_is_no_success(repository):
    assert nightly.report(repository, [], 0) == 1
    assert repository.run("other") == []


def test_ci_runs_what_reads_a_file_that_has_changed():
    assert set(changed.reasons(["native/src/lib.rs"])) == {"rust", "spark-short-native"}
    assert set(changed.reasons(["docs/serve.md"])) == {"site"}
    assert "spark" in changed.reasons(["core/src/reput/record/decode.py"])
    for name in (
        "extras/tools/src/reput_tools/cli/kit/escape.py",
        "extras/tools/src/reput_tools/doctor/verdict.py",
        "extras/server/src/reput_server/webpages/webconfig.py",
        "plugins/consumer/src/reput_consumer/groupprogress.py",
        "plugins/schedule/src/reput_schedule/plugin.py",
    ):
        assert changed.reasons([name]).get("browser") == name
    for name in (
        "extras/tools/src/reput_tools/cli/command/cat.py",
        "extras/server/src/reput_server/grpc/service.py",
        "plugins/filter/src/reput_filter/plugin.py",
    ):
        assert "browser" not in changed.reasons([name])
    assert changed.reasons(["tests/core/test_store.py"]) == {}
    assert changed.reasons([]) == {}


@pytest.mark.parametrize("files", [None, ["tox.ini"]])
def test_ci_runs_all_of_it_if_git_cannot_tell_or_the_matrix_has_changed(files):
    assert set(changed.reasons(files)) == set(changed.DEPENDS_ON)


def test_what_ci_may_leave_out_is_what_the_label_has():
    labels = (ROOT / "tox.ini").read_text(encoding="utf-8")

    (line,) = [each for each in labels.splitlines() if each.startswith("    changed = ")]
    assert set(line.partition("=")[2].replace(" ", "").split(",")) == set(changed.DEPENDS_ON)
