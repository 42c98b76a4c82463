from __future__ import annotations

import errno

import click
import pytest

from reput import errors
from reput_tools.cli.kit.exitcodes import ExitCode
from reput_tools.cli.kit.failures import failure_of


@pytest.mark.parametrize(
    ("error", "code", "text"),
    [
        (errors.StoreNotFoundError("/s", "no store"), ExitCode.NOT_FOUND, "/s: no store"),
        (errors.StoreLockedError("/s", 17), ExitCode.LOCKED, "written by process 17"),
        (errors.StoreLockedError("/s", None), ExitCode.LOCKED, "written by another process"),
        (errors.OffsetOutOfRangeError(5, 10, 20), ExitCode.NOT_FOUND, "[10, 20)"),
        (errors.CorruptFileError("/f", 7, "torn"), ExitCode.DAMAGED, "/f, byte 7: torn"),
        (errors.MessageIllegalError("topic", "", None, "empty"), ExitCode.REFUSED, "topic: empty"),
        (
            errors.CreateMappedFileError("file", None, None, "no space"),
            ExitCode.REFUSED,
            "no space",
        ),
        (
            errors.PluginNotFoundError("index", "not installed"),
            ExitCode.UNAVAILABLE,
            "`reput plugins` lists",
        ),
        (
            errors.ConfigError("commitlog", "x", "no such option"),
            ExitCode.UNAVAILABLE,
            "x: no such",
        ),
        (errors.NoReaderError("read", "zz_reader"), ExitCode.UNAVAILABLE, "pip install"),
        (
            PermissionError(errno.EACCES, "Permission denied", "/f"),
            ExitCode.UNAVAILABLE,
            "/f: Perm",
        ),
        (FileNotFoundError(errno.ENOENT, "No such file", "/f"), ExitCode.NOT_FOUND, "/f: No such"),
        (OSError(errno.ENOSPC, "No space left on device"), ExitCode.REFUSED, "No space left"),
        (OSError(errno.EBADF, "Bad file descriptor", 7), ExitCode.UNAVAILABLE, "Bad file"),
        (ZeroDivisionError("division by zero"), ExitCode.INTERNAL, "--debug"),
    ],
)
def test_every_error_has_its_code_and_one_line(error: Exception, code: int, text: str) -> None:
    failure = failure_of(error)

    assert failure.exit_code == code
    assert text in failure.message
    assert "\n" not in failure.message


def test_the_line_holds_nothing_that_a_terminal_obeys(capsys: pytest.CaptureFixture[str]) -> None:
    failure = failure_of(errors.StoreNotFoundError("/s\x1b[2J\nx", "no store"))

    failure.show()

    shown = capsys.readouterr().err
    assert shown == "reput: /s\\x1b[2J\\nx: no store\n"


def test_a_failure_ends_click_like_its_own_errors_do() -> None:
    failure = failure_of(errors.StoreLockedError("/s", None))

    assert isinstance(failure, click.ClickException)


@pytest.mark.parametrize("given", ["store/commitlog", "."])
def test_a_store_nearby_is_named(tmp_path, monkeypatch, given) -> None:
    (tmp_path / "store" / "commitlog").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)

    failure = failure_of(errors.StoreNotFoundError(given, "no store"))

    assert "there is one at " in failure.message
    assert failure.message.endswith("store")


def test_a_missing_store_has_a_command_that_creates_it(run, tmp_path) -> None:
    outcome = run("info", tmp_path / "none")

    assert outcome.code == ExitCode.NOT_FOUND
    assert "the store does not exist: " in outcome.err
    assert f"`reput put {tmp_path / 'none'} TOPIC BODY --create` creates it" in outcome.err
    assert "mode=" not in outcome.err


def test_a_directory_of_other_files_is_said_to_be_no_store(run, tmp_path) -> None:
    shown, put = run("info", tmp_path), run("put", tmp_path, "t", "x")

    assert shown.code == put.code == ExitCode.NOT_FOUND
    assert f"{tmp_path}: this directory is not a store" in shown.err
    assert "does not exist" not in shown.err
    assert "--create creates a store in an empty directory" in put.err
