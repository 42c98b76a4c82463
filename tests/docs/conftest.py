"""The site, built once for the tests that look at it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest
from pages import DOCS

_BUILD_SECONDS: Final = 3_600  # the build takes more than 600 s on a machine with much else to do


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the site; a warning of Sphinx fails here. `REPUT_SITE` names where it stays."""
    for module in ("sphinx", "furo", "myst_parser"):
        pytest.importorskip(module)
    target = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "sphinx", "--fail-on-warning", "--fresh-env", "--quiet"]
    command += ["-d", str(tmp_path_factory.mktemp("doctrees")), "-c", str(DOCS / "site")]

    done = subprocess.run([*command, str(DOCS), str(target)], capture_output=True, text=True)

    assert done.returncode == 0, done.stderr
    kept = os.environ.get("REPUT_SITE")
    if kept is not None:  # a whole site, or the one that was there before
        shutil.rmtree(kept, ignore_errors=True)
        shutil.copytree(target, kept)
    return target


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Build the site first: it is of use also where a later test fails."""
    items.sort(key=lambda item: "built" not in getattr(item, "fixturenames", ()))
    for item in items:
        if "built" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.timeout(_BUILD_SECONDS))
