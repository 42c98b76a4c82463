from __future__ import annotations

import sys
from pathlib import Path

import pytest

from reput_tools.cli.kit.programname import program


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "bin" / "reput"
    path.parent.mkdir()
    path.touch(mode=0o755)
    return path


def test_a_script_on_the_path_is_called_by_its_name(script, monkeypatch) -> None:
    monkeypatch.setenv("PATH", str(script.parent))
    monkeypatch.setattr(sys, "argv", [str(script), "demo"])

    assert program() == "reput"


def test_a_script_elsewhere_is_called_by_the_shortest_way_to_it(
    script, tmp_path, monkeypatch
) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr(sys, "argv", [str(script), "demo"])
    monkeypatch.chdir(tmp_path)

    assert program() == "bin/reput"


def test_a_module_is_called_as_one(monkeypatch) -> None:
    monkeypatch.setattr(sys, "argv", ["/somewhere/reput_cli/__main__.py"])

    assert program() == f"{sys.executable} -m reput_tools.cli"


def test_inside_another_program_the_name_will_do(monkeypatch) -> None:
    monkeypatch.setattr(sys, "argv", ["/usr/bin/pytest"])

    assert program() == "reput"
