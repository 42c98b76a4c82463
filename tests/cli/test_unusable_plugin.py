"""A plugin that cannot be made is told on the command line, too."""

from __future__ import annotations

import subprocess
import sys

import pytest
from unusableplugin import install_unusable_plugin

import reput

SMALL = {"commitlog": {"file_size": 4096}}


@pytest.mark.costly
def test_a_plugin_that_cannot_be_made_is_one_line_and_code_5(tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(install_unusable_plugin(tmp_path / "installed")))
    with reput.open(tmp_path / "store", plugins=[], config=SMALL):
        pass

    done = subprocess.run(
        [sys.executable, "-m", "reput_tools.cli", "backfill", tmp_path / "store", "unusable"],
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 5
    assert done.stderr.startswith("reput: plugin 'unusable'")
    assert done.stderr.count("\n") == 1
