"""The site takes its place when it is whole."""

from __future__ import annotations

import importlib.util
import subprocess
from pathlib import Path

import pytest
from pages import DOCS


@pytest.fixture
def builder():
    spec = importlib.util.spec_from_file_location("build_site", DOCS / "site" / "build.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_build_that_fails_leaves_the_site_that_was_there(builder, tmp_path, monkeypatch):
    def fail(command, **options):
        Path(command[-1]).mkdir()
        Path(command[-1], "half.html").touch()
        raise subprocess.CalledProcessError(2, command)

    monkeypatch.setattr(subprocess, "run", fail)
    site = tmp_path / "site"
    site.mkdir()
    (site / "index.html").write_text("old")

    with pytest.raises(subprocess.CalledProcessError):
        builder.build(site)

    assert [path.name for path in tmp_path.rglob("*.html")] == ["index.html"]


def test_a_site_that_is_whole_replaces_the_one_before(builder, tmp_path, monkeypatch):
    def succeed(command, **options):
        Path(command[-1]).mkdir()
        Path(command[-1], "new.html").touch()

    monkeypatch.setattr(subprocess, "run", succeed)
    site = tmp_path / "dist" / "site"
    site.mkdir(parents=True)
    (site / "index.html").write_text("old")

    builder.build(site)

    assert [path.name for path in tmp_path.rglob("*.html")] == ["new.html"]
