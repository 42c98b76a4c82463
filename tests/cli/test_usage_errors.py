"""Arguments that are not understood: one line that begins as every error does, and a hint."""

from __future__ import annotations

import pytest

from reput_tools.cli.kit.exitcodes import ExitCode


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["cat", "s", "--since", "1h"], "reput cat has no option --since; did you mean '--from'?"),
        (["cat", "s", "t", "--start", "-1h"], "did you mean '--from'?"),
        (["cat", "s", "t", "--tail", "3"], "did you mean '--last'?"),
        (["grep", "s", "--from", "-1h"], "did you mean '--since'?"),
        (["grep", "s", "--start", "-1h"], "did you mean '--since'?"),
        (["info", "--tpoic", "x"], "--topic"),
        (["cat", "s", "--tags", "a"], "reput cat has no option --tags; did you mean '--tag'?"),
        (["cat", "s", "--coutn", "1"], "reput cat has no option --coutn; did you mean '--count'?"),
        (["cat", "s", "--sicne", "1h"], "reput cat has no option --sicne; did you mean '--from'?"),
        (["cat", "s", "--prot", "1"], "reput cat has no option --prot; `reput cat --help`"),
        (["info", "s", "--since", "1h"], "reput info has no option --since; `reput info --help`"),
        (["--bogus"], "reput has no option --bogus; `reput --help` lists the options"),
        (["cat"], "missing argument 'PATH'; `reput cat --help` lists the options"),
        (["put", "s", "T", "--queue", "99999999999"], "99999999999 is not in the range"),
        (["suspend", "s", "index", "--timeout", "nan"], "'--timeout': nan is not a"),
        (["plugins", "query", "s", "p", "q", "--timeout", "nan"], "'--timeout': nan is not a"),
        (["metrics", "s", "--max-age", "nan"], "'--max-age': nan is not a number"),
        (["groups", "s", "--rate", "nan"], "'--rate': nan is not a number"),
        (["inof"], "no such command 'inof'; did you mean 'info'?"),
        (["dead-leters"], "did you mean 'dead-letters'?"),
        (["nope"], "no such command 'nope'; `reput --help` lists all"),
    ],
)
def test_a_usage_error_is_one_line_with_the_next_step(run, arguments, expected):
    outcome = run(*arguments)

    assert outcome.code == ExitCode.USAGE
    assert outcome.out == ""
    (line,) = outcome.err.splitlines()
    assert line.startswith("reput: ")
    assert expected in line


def test_a_queue_that_cannot_exist_is_refused_before_the_input_is_read(run, tmp_path):
    outcome = run("put", tmp_path / "s", "T", "--create", "--queue", 1 << 31, stdin="a\n")

    assert outcome.code == ExitCode.USAGE
    assert not (tmp_path / "s").exists()
