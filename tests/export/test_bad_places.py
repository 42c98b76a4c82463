"""Whatever is wrong with a path: each command ends with its code and one line."""

from __future__ import annotations

import pytest
from commands import cli_runner
from permissions import forbid
from sparkstores import fill

from reput_tools.cli.kit.exitcodes import ExitCode
from reput_tools.cli.root import reput as command


def _nothing(root):
    return root / "none"


def _empty(root):
    (root / "empty").mkdir()
    return root / "empty"


def _file(root):
    (root / "file").write_text("no store")
    return root / "file"


def _below_a_file(root):
    return _file(root) / "store"


def _log_is_a_file(root):
    (_empty(root) / "commitlog").write_text("no log")
    return root / "empty"


def run(*arguments):
    done = cli_runner().invoke(command, [str(each) for each in arguments])
    assert done.stderr.startswith("reput: "), done
    assert done.stderr.count("\n") == 1, done.stderr
    assert "internal error" not in done.stderr
    assert done.stdout == ""
    return done


@pytest.mark.parametrize("place", [_nothing, _empty, _file, _below_a_file, _log_is_a_file])
@pytest.mark.parametrize("further", [(), ("--incremental",)])
def test_where_there_is_no_store_nothing_is_exported(tmp_path, place, further):
    path = place(tmp_path)

    done = run("export", path, tmp_path / "out", "--jobs", "1", *further)

    assert done.exit_code == ExitCode.NOT_FOUND
    assert str(path) in done.stderr
    assert list(tmp_path.rglob("*.parquet")) == []
    assert not (tmp_path / "out").exists() or further


@pytest.mark.parametrize("place", [_nothing, _empty, _file, _below_a_file])
def test_where_there_are_no_rows_no_store_is_made(tmp_path, place):
    path = place(tmp_path)

    done = run("import", path, tmp_path / "store")

    assert done.exit_code == ExitCode.NOT_FOUND
    assert str(path) in done.stderr
    assert not (tmp_path / "store").exists()


def test_a_store_that_may_not_be_read_is_told(tmp_path, monkeypatch):
    fill(tmp_path / "store", 5)
    forbid(monkeypatch, tmp_path / "store" / "commitlog")

    done = run("export", tmp_path / "store", tmp_path / "out", "--jobs", "1")

    assert done.exit_code in (ExitCode.NOT_FOUND, ExitCode.UNAVAILABLE)
    assert "Permission denied" in done.stderr
    assert not (tmp_path / "out").exists()


def test_a_target_below_a_file_is_told(tmp_path):
    fill(tmp_path / "store", 5)
    (tmp_path / "file").write_text("x")

    done = run("export", tmp_path / "store", tmp_path / "file" / "out", "--jobs", "1")

    assert done.exit_code != ExitCode.OK
    assert str(tmp_path / "file") in done.stderr
