"""The pages of recorded and of made stores."""

from __future__ import annotations

import pytest
from clistores import run
from webpages import pages, story_store

__all__ = ["run"]


@pytest.fixture(scope="module")
def story(tmp_path_factory):
    """Pages of a store in which a message has a long story."""
    with pages(story_store(tmp_path_factory.mktemp("web") / "store")) as client:
        yield client
