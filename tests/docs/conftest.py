"""The site, built once for the tests that look at it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from pages import DOCS


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the site: what `REPUT_SITE` names, where ``make docs`` has built it before."""
    for module in ("sphinx", "furo", "myst_parser"):
        pytest.importorskip(module)
    kept = os.environ.get("REPUT_SITE")
    if kept is not None:
        return Path(kept)
    target = tmp_path_factory.mktemp("site") / "site"
    command = [sys.executable, str(DOCS / "site" / "build.py"), str(target)]

    done = subprocess.run(command, capture_output=True, text=True)

    assert done.returncode == 0, done.stderr
    return target
