"""Open stores with consumer groups, whose clock and work are moved by hand."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from groupstores import PLUGINS, Steps


@pytest.fixture
def steps(tmp_path: Path) -> Iterator[Callable[..., Steps]]:
    """``steps(save_interval_ms=…)``: an open store with these options of the plugin."""
    made: list[Steps] = []

    def make(*, plugins: tuple[str, ...] = PLUGINS, **options: Any) -> Steps:
        found = Steps(tmp_path / f"store {len(made)}", plugins, options)
        found.open()
        made.append(found)
        return found

    yield make
    for each in made:
        each.store.close()


@pytest.fixture
def at(steps: Callable[..., Steps]) -> Steps:
    """Return an open store."""
    return steps()
