from __future__ import annotations

import json
import subprocess
import sys

import pytest

from reput_tools.cli.root import _COMMANDS

HEAVY = ("numpy", "rich", "pluggy", "attr", "hypothesis")

COMMANDS = tuple(_COMMANDS)

RUN = """
import sys, json
{before}
sys.argv = ["reput", *{arguments!r}]
from reput_tools.cli import main
try:
    main()
finally:
    print(json.dumps([name for name in {heavy!r} if name in sys.modules]), file=sys.stderr)
"""


def in_a_fresh_interpreter(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)


def test_help_of_each_command_imports_nothing_heavy() -> None:
    calls = "\n".join(
        f"""
try:
    reput(["{command}", "--help"])
except SystemExit as end:
    assert end.code == 0
"""
        for command in COMMANDS
    )
    code = f"""
import sys, json
from reput_tools.cli.root import reput
{calls}
print(json.dumps([name for name in {HEAVY!r} if name in sys.modules]), file=sys.stderr)
"""

    done = in_a_fresh_interpreter(code)

    assert done.returncode == 0, done.stderr
    assert json.loads(done.stderr) == []


@pytest.mark.parametrize("name", ["click", "rich"])
def test_without_click_or_rich_one_line_says_what_to_install(name: str) -> None:
    hide = f"""
import importlib.util
find_spec = importlib.util.find_spec
importlib.util.find_spec = lambda name: None if name == {name!r} else find_spec(name)
"""
    code = RUN.format(before=hide, arguments=["info", "somewhere"], heavy=("click", "rich"))

    done = in_a_fresh_interpreter(code)

    assert done.returncode == 5
    assert done.stdout == ""
    line, imported = done.stderr.splitlines()
    assert "pip install click rich" in line
    assert imported == "[]"


@pytest.mark.parametrize(("given", "expected"), [(None, "1"), ("3", "3")])
def test_numpy_starts_no_threads_unless_the_user_asks_for_them(given, expected) -> None:
    before = "import os; os.environ.pop('OPENBLAS_NUM_THREADS', None)\n"
    if given is not None:
        before += f"os.environ['OPENBLAS_NUM_THREADS'] = {given!r}\n"
    code = RUN.format(before=before, arguments=["--version"], heavy=HEAVY)
    code += "    print(os.environ['OPENBLAS_NUM_THREADS'])\n"

    done = in_a_fresh_interpreter(code)

    assert done.stdout.splitlines()[-1] == expected
