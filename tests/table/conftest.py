"""What tests of tables share: the example, found by its name, and as if it was installed."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
COUNTER = EXAMPLES / "reput-counter" / "src"
sys.path += [str(EXAMPLES), str(COUNTER)]


@pytest.fixture
def installed_counter(tmp_path, monkeypatch):
    """Install the counter, for this process and those that it starts."""
    site = tmp_path / "site"
    about = site / "reput_counter-0.1.dist-info"
    about.mkdir(parents=True)
    shutil.copytree(COUNTER / "reput_counter", site / "reput_counter")
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: reput-counter\nVersion: 0.1\n")
    (about / "entry_points.txt").write_text(
        "[reput.plugins]\ncounter = reput_counter:CounterPlugin\n"
    )
    monkeypatch.syspath_prepend(str(site))
    return "counter"
