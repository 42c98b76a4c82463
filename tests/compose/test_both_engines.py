"""Every test runs with both engines somewhere in the matrix: in Python and compiled."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from toxmatrix import ToxIni

TESTS = Path(__file__).resolve().parents[1]
TOX = ToxIni()
FOLDERS = sorted({path.parent.name for path in TESTS.glob("*/test_*.py")})
NOT_TWICE = {
    "interop": "in no label; needs Apache RocketMQ",
    "native": "compares both engines in one process",
}
WITH_PROOFS = sorted(
    {path.parent.name for path in TESTS.glob("*/test_*.py") if "mark.proof" in path.read_text()}
    # Of Spark, a JVM and minutes each, and what decodes there is what decodes everywhere. Of the
    # server, one of ten minutes that soaks only, and that looks at connections and memory.
    - {"server", "spark"}
)
OF_SOURCES = ("lint", "rust", "prose", "types")
"""Environments that look at sources, and run nothing of them."""


def engine_of(environment):
    """Which engine runs in an environment of the matrix."""
    return TOX.variables(environment)["REPUT_ENGINE"]


def runs_of(environment):
    """The folders of tests that an environment runs, each with "all", "rest" or "proof".

    Whole folders; of Spark also some of its files, as a JVM takes long.
    """
    variables = TOX.variables(environment)
    for command in TOX.lines(environment, "commands"):
        text = re.sub(r"^pytest (?:-n \d+ )?\{posargs:(.*)\}$", r"pytest \1", command)
        words = shlex.split(text)
        if words[0] != "pytest" or "-k" in words:
            continue
        marks = " ".join(re.findall(r'-m (proof|"not proof")', text)) or variables.get(
            "PYTEST_ADDOPTS", ""
        )
        kind = "rest" if "not proof" in marks else "proof" if "proof" in marks else "all"
        ignored = {words[at + 1] for at, word in enumerate(words) if word == "--ignore"}
        for name in words[1:]:
            whole = re.fullmatch(r"tests(?:/(\w+))?|tests/(spark)/\w+\.py", name)
            if whole is not None and name not in ignored:
                for folder in FOLDERS if name == "tests" else [whole[1] or whole[2]]:
                    if f"tests/{folder}" not in ignored:
                        yield folder, kind


def engines_that_run(folder, kind):
    """Engines with which the tests of a folder run."""
    return {
        engine_of(environment)
        for environment in TOX.environments()
        if environment not in (*OF_SOURCES, "native")
        if {(folder, kind), (folder, "all")} & set(runs_of(environment))
    }


def test_braces_and_factors_are_read_as_tox_reads_them(tmp_path):
    path = tmp_path / "tox.ini"
    path.write_text(
        "[tox]\nenv_list =\n    # a remark\n    {a,b}\n    py3{1,2}-{a,b}-fast\n"
        "[testenv]\nset_env =\n    X = 1\n    a-!fast,b: Y = {env:Y:2}\n    py3{2,3}-a: Z = 3\n"
        "[testenv:b]\nset_env = W = 4\n"
    )
    tox = ToxIni(path)

    fast = ["py31-a-fast", "py31-b-fast", "py32-a-fast", "py32-b-fast"]
    assert tox.environments() == ["a", "b", *fast]
    assert tox.variables("a") == {"X": "1", "Y": "2"}
    assert tox.variables("b") == {"W": "4"}
    assert tox.variables("py31-a-fast") == {"X": "1"}
    assert tox.variables("py32-b-fast") == {"X": "1", "Y": "2"}
    assert tox.variables("py32-a-fast") == {"X": "1", "Z": "3"}


@pytest.mark.parametrize("folder", [name for name in FOLDERS if name not in NOT_TWICE])
def test_what_is_no_proof_runs_with_both_engines(folder):
    assert engines_that_run(folder, "rest") == {"native", "python"}


@pytest.mark.parametrize("folder", WITH_PROOFS)
def test_proofs_run_with_both_engines(folder):
    assert engines_that_run(folder, "proof") == {"native", "python"}


def test_the_interpreters_with_compiled_kernels_share_all_tests_among_them():
    shares = [
        TOX.variables(name).get("REPUT_SHARE")
        for name in TOX.environments()
        if "-all-" in name and engine_of(name) == "native"
    ]

    # 3.14 runs them all: not every machine has it.
    assert shares == ["1/2", "2/2", None]


def test_what_is_named_native_installs_the_kernels_and_is_skipped_where_there_is_no_cargo():
    for name in [*TOX.environments(), "soak", "soak-native", "fuzz", "fuzz-native"]:
        if name in OF_SOURCES:
            continue
        installs = " ".join(TOX.lines(name, "commands_pre"))
        needs = " ".join(TOX.lines(name, "platform"))

        is_native = "native" in name.split("-")
        assert engine_of(name) == ("native" if is_native else "python"), name
        assert ("./native" in installs.split()) == is_native, name
        assert ("{env:REPUT_CARGO:.*}" in needs) == is_native, name
