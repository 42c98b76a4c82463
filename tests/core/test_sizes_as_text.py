"""Options that are sizes may be texts, as on the command line."""

from __future__ import annotations

import pytest

import reput
from reput.errors import ConfigError, StoreNotFoundError


def test_a_size_may_be_a_text_with_its_unit(tmp_path):
    config = {"commitlog": {"file_size": "64KiB", "max_message_size": "1.5 kB"}}

    with reput.open(tmp_path / "store", plugins=(), config=config) as store:
        assert store.config.file_size == 64 << 10
        assert store.config.max_message_size == 1_500
    with reput.open(tmp_path / "store", config={"commitlog": {"file_size": "64KiB"}}) as store:
        assert store.config.file_size == 64 << 10


def test_a_file_of_options_may_have_such_texts(tmp_path):
    file = tmp_path / "store.toml"
    file.write_text('[commitlog]\nfile_size = "1MiB"\n')

    with reput.open(tmp_path / "store", plugins=(), config=file) as store:
        assert store.config.file_size == 1 << 20


@pytest.mark.parametrize("text", ["16MB2", "", "much", "65536", "-1MiB"])
def test_a_text_that_is_not_a_size_with_a_unit_is_refused_by_its_option(tmp_path, text):
    with pytest.raises(ConfigError, match=r"integer .* found str .*; a text with a unit"):
        reput.open(tmp_path / "store", plugins=(), config={"commitlog": {"file_size": text}})


@pytest.mark.parametrize("below", ["", "store", "a/b/store"])
def test_a_file_in_the_place_of_a_store_is_an_error_of_reput(tmp_path, below):
    (tmp_path / "file").write_text("no store")

    with pytest.raises(StoreNotFoundError, match="is a file"):
        reput.open(tmp_path / "file" / below)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
