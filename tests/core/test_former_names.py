"""Names of the release before go on working, with a warning that says what they are called now."""

from __future__ import annotations

import importlib

import pytest

import reput

FORMER = (
    ("reput", "Finding", "Corruption"),
    ("reput", "Hole", "MissingMessage"),
    ("reput.log", "CommitLogReader", "LogReader"),
    ("reput.plugin", "Hole", "MissingMessage"),
    ("reput.record", "Finding", "Corruption"),
    ("reput.record", "FindingReason", "CorruptionKind"),
)


@pytest.mark.parametrize(("door", "former", "name"), FORMER)
def test_a_former_name_is_the_same_thing_and_warns(door, former, name):
    module = importlib.import_module(door)

    with pytest.warns(DeprecationWarning, match=rf"is called {door}\.{name} now"):
        found = getattr(module, former)

    assert found is getattr(module, name)


@pytest.mark.parametrize("door", sorted({door for door, _, _ in FORMER}))
def test_a_name_that_never_was_is_an_error(door):
    with pytest.raises(AttributeError, match="has no attribute 'Nothing'"):
        importlib.import_module(door).Nothing  # noqa: B018 (what is missing is asked for)


def test_clean_log_warns_and_does_what_expire_log_does(tmp_path):
    with reput.open(tmp_path / "store", plugins=[]) as store:
        with pytest.warns(DeprecationWarning, match="expire_log"):
            report = store.clean_log(dry_run=True)

        assert report == store.expire_log(dry_run=True)
