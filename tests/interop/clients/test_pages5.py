"""The example tests of consumers in other languages run, each with its released client."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from stock.fives import PYTHON5, java, node_folder
from stock.kinds import executable
from stock.program import UnavailableError

HERE = Path(__file__).parent
EXAMPLES = HERE.parents[2] / "examples" / "broker-in-a-test"
_SECONDS = 300


def _java(directory: Path) -> Sequence[str]:
    return java(f"-Drocketmq.log.root={directory}", "OrdersTest.java")


def _node(directory: Path) -> Sequence[str]:
    (directory / "node_modules").symlink_to(node_folder() / "node_modules")
    return [executable("node"), "--test", "orders.test.js"]


def _go(directory: Path) -> Sequence[str]:
    for name in ("go.mod", "go.sum"):
        shutil.copy(HERE / "fives" / "go" / name, directory / name)
    program = executable("go")
    fetched = subprocess.run([program, "mod", "download"], cwd=directory, capture_output=True)
    if fetched.returncode:
        raise UnavailableError(f"the client cannot be fetched: {fetched.stderr.decode()[-300:]}")
    return [program, "test", "./..."]


KINDS = {
    "java": ("OrdersTest.java", _java),
    "js": ("orders.test.js", _node),
    "go": ("orders_test.go", _go),
}


@pytest.mark.parametrize("kind", KINDS)
def test_the_example_passes(kind: str, tmp_path: Path):
    name, prepared = KINDS[kind]
    shutil.copy(EXAMPLES / name, tmp_path)
    try:
        command = prepared(tmp_path)
    except UnavailableError as error:
        pytest.skip(str(error))
    folders = (str(Path(sys.executable).parent), os.environ["PATH"])
    environment = {**os.environ, "PATH": os.pathsep.join(folders)}

    done = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=_SECONDS
    )

    assert done.returncode == 0, done.stdout + done.stderr
    if kind == "java":
        assert done.stdout == "attempt 2\n"


@pytest.mark.skipif(
    not (PYTHON5 / "rocketmq").is_dir(), reason="needs rocketmq-python-client below REPUT_PYTHON5"
)
def test_the_snippet_of_the_page_runs():
    page = (HERE.parents[2] / "docs" / "clients-5.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"```python\n(.*?)```", page, flags=re.S)
    environment = {**os.environ, "PYTHONPATH": str(PYTHON5)}

    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=180
    )

    assert done.stdout.splitlines() == ["b'one book'"], done.stderr
