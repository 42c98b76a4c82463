"""The kit's own tests try all parts of a proof: they show that each of its cases can fail."""

from __future__ import annotations

import pytest

from reput_testing.casebudget import PART_VARIABLE


@pytest.fixture(autouse=True)
def all_parts(monkeypatch):
    """A bad plugin is found by some case, which may be one of another interpreter's part."""
    monkeypatch.delenv(PART_VARIABLE, raising=False)
