"""The example tests of consumers in other languages run, each with its released client."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import mavenparts
import pytest
from stock.kinds import built, executable
from stock.program import UnavailableError

HERE = Path(__file__).parent
EXAMPLES = HERE.parents[2] / "examples" / "broker-in-a-test"
_JAVA = "5.2.0"
_SECONDS = 300


def _java(directory: Path) -> Sequence[str]:
    try:
        class_path = mavenparts.build(HERE / "fives" / "java", _JAVA)
        program = mavenparts.executable("java")
    except mavenparts.JavaUnavailableError as error:
        raise UnavailableError(str(error)) from None
    home = f"-Drocketmq.log.root={directory}"
    return [program, *mavenparts.SMALL_JVM, home, "-cp", class_path, "OrdersTest.java"]


def _node(directory: Path) -> Sequence[str]:
    install = ["npm", "install", "--no-audit", "--no-fund", "--no-package-lock", "--silent"]
    target = built("fives/node", install, copied=("package.json", "program.js"))
    (directory / "node_modules").symlink_to(target / "node_modules")
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
