"""A wrong word is an error that says which one may have been meant."""

from __future__ import annotations

import pytest

import reput
from reput_tools.cli.kit.exitcodes import ExitCode
from reput_tools.cli.kit.suggestions import did_you_mean, nearest


@pytest.mark.parametrize(
    ("word", "known", "meant"),
    [
        ("orders", ["order", "other"], "order"),
        ("ORDERS", ["orders"], "orders"),
        ("oredrs", ["borders", "orders"], "orders"),
        ("x", ["orders"], None),
        ("orders", [], None),
    ],
)
def test_the_nearest_name_is_suggested(word, known, meant) -> None:
    assert nearest(word, known) == meant
    assert did_you_mean(word, known) == ("" if meant is None else f"; did you mean {meant!r}?")


@pytest.mark.parametrize(
    "arguments",
    [("suspend", "ntoes"), ("resume", "ntoes"), ("dead-letters", "ntoes"), ("backfill", "ntoes")],
)
def test_plugins_are_suggested(run, plugin_store, arguments) -> None:
    path = plugin_store("notes")
    command, plugin = arguments

    outcome = run(command, path, plugin)

    assert outcome.code in (ExitCode.NOT_FOUND, ExitCode.UNAVAILABLE)
    assert "did you mean 'notes'?" in outcome.err


def test_a_wrong_option_of_the_store_is_suggested(run, tmp_path) -> None:
    (tmp_path / "store.toml").write_text("[commitlog]\nfile_szie = 65536\n")

    outcome = run("put", tmp_path / "s", "t", "--create", "--config", tmp_path / "store.toml")

    assert outcome.code == ExitCode.UNAVAILABLE
    assert "did you mean 'file_size'?" in outcome.err


@pytest.mark.parametrize("words", ["info --scan", "grep x"])
def test_topics_are_suggested_where_the_log_is_read(run, plain_store, words) -> None:
    path = plain_store(reput.Message("orders", b"x"))
    command, *others = words.split()

    outcome = run(command, path, *others, "--topic", "ordesr")

    assert outcome.code == ExitCode.NOT_FOUND
    assert "no topic 'ordesr'; did you mean 'orders'?" in outcome.err


@pytest.mark.parametrize(
    ("plugin", "step"),
    [
        ("slow", "`reput backfill {path} slow` adds it"),
        ("slwo", "'slwo' is not installed; did you mean 'slow'?"),
        ("nobody", "'nobody' is not installed (reput does not have it: "),
    ],
)
@pytest.mark.parametrize("command", ["suspend", "resume", "rebuild", "plugins query"])
def test_a_plugin_that_the_store_does_not_use_has_a_step_that_works(
    run, plugin_store, command, plugin, step
) -> None:
    path = plugin_store("notes")
    query = ["SELECT 1"] if command == "plugins query" else []

    outcome = run(*command.split(), path, plugin, *query)

    assert outcome.code == ExitCode.NOT_FOUND
    assert f"no plugin {plugin!r} in this store; it uses notes; " in outcome.err
    assert step.format(path=path) in outcome.err


def test_a_mistyped_plugin_is_suggested_once(run, own_plugins, tmp_path) -> None:
    outcome = run("put", tmp_path / "store", "t", "x", "--create", "--plugin", "ntoes")

    assert outcome.code == ExitCode.UNAVAILABLE
    assert outcome.err.count("did you mean 'notes'?") == 1
