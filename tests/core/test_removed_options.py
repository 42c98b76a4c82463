"""Options that a release has removed are ignored with a warning; unknown ones are refused."""

from __future__ import annotations

import pytest
from statefiles import change_manifest, manifest_of

import reput
from reput.errors import ConfigError

WARNING = "ignored option section=commitlog option=depth reason=it follows from the files"


@pytest.fixture
def root(tmp_path, monkeypatch):
    """A store whose manifest has an option that the log no longer has."""
    with reput.open(tmp_path, plugins=[], config={"commitlog": {"file_size": 4096}}):
        pass
    change_manifest(tmp_path, lambda text: text.replace(b'"file_size"', b'"depth": 3, "file_size"'))
    removed = {"depth": "it follows from the files"}
    monkeypatch.setattr(reput.CommitLogConfig, "removed_options", removed, raising=False)
    return tmp_path


def recorded(root):
    return manifest_of(root).config["commitlog"]


def warnings(caplog):
    found = [record.getMessage() for record in caplog.records if "option" in record.message]
    caplog.clear()
    return found


def test_a_recorded_option_that_was_removed_is_ignored_and_a_writer_warns_once(root, caplog):
    reput.open(root).close()
    first = warnings(caplog)
    reput.open(root).close()

    assert first == [WARNING]
    assert warnings(caplog) == []
    assert recorded(root) == {"file_size": 4096}


def test_a_reader_ignores_it_too_and_records_nothing(root, caplog):
    reput.open(root, "r").close()

    assert warnings(caplog) == [WARNING]
    assert recorded(root) == {"file_size": 4096, "depth": 3}


def test_a_given_option_that_was_removed_is_ignored(root, caplog):
    config = {"commitlog": {"depth": 4, "max_message_size": 100}}
    with reput.open(root, config=config) as store:
        store.put(reput.Message("t", b"x"))

    assert warnings(caplog) == [WARNING]
    assert recorded(root) == {"file_size": 4096, "max_message_size": 100}


def test_an_unknown_option_is_refused_and_the_removed_ones_are_not_named(root):
    with pytest.raises(ConfigError, match=r"\[commitlog\] dept: no such option; .*flush") as found:
        reput.open(root, config={"commitlog": {"dept": 3}})

    assert "depth" not in str(found.value)


def test_an_option_that_is_nearly_right_is_named(root):
    with pytest.raises(ConfigError, match=r"no such option; did you mean 'file_size'\? known: "):
        reput.open(root, config={"commitlog": {"file_sizes": 3}})
