"""RocketMQ's own topics are listed in one module."""

from __future__ import annotations

from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("name", ["OFFSET_MOVED_EVENT", "SELF_TEST_TOPIC", "BenchmarkTest"])
def test_a_name_that_only_lists_of_topics_have_is_in_one_module(name):
    sources = (
        path for each in ("core", "plugins", "extras") for path in ROOT.glob(f"{each}/**/*.py")
    )
    found = [path for path in sources if "src" in path.parts and f'"{name}"' in path.read_text()]

    assert [path.name for path in found] == ["reservednames.py"]
