"""A sound store of ours, made once, and a copy of it for a test to damage."""

from __future__ import annotations

import shutil

import pytest
from verifiedstores import own_store


@pytest.fixture(scope="session")
def original(tmp_path_factory):
    return own_store(tmp_path_factory.mktemp("original") / "store")


@pytest.fixture
def root(original, tmp_path):
    return shutil.copytree(original, tmp_path / "store")
