"""What a path means where a store is written: by a write and by a stream, always the same."""

from __future__ import annotations

import os

import pytest

from reput_arrow.localpaths import local_path
from reput_arrow.logs.arrowdisk import disk_of
from reput_spark import SparkReputError


@pytest.mark.parametrize(
    ("path", "meant"),
    [
        ("/data/s", "/data/s"),
        ("/data/../data/s/", "/data/s"),
        ("/data/a:/b", "/data/a:/b"),
        ("file:/data/s", "/data/s"),
        ("file:///data/s", "/data/s"),
        ("FILE:///data/s", "/data/s"),
        ("file://localhost/data/s", "/data/s"),
        ("file:///data/my%20store", "/data/my store"),
        ("file:/data/my%20store", "/data/my%20store"),
    ],
)
def test_a_path_of_this_machine_is_found(path, meant):
    assert local_path(path) == meant
    if "localhost" not in path and path.islower():
        assert disk_of(path)[1] == meant  # a read finds what was written


def test_a_relative_path_begins_where_the_process_is(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    assert local_path("a/b") == os.path.join(tmp_path, "a", "b")


@pytest.mark.parametrize(
    "path",
    ["s3://bucket/s", "s3a://b/s", "hdfs:/data/s", "file:data/s", "file:", "file://host/data/s"],
)
def test_a_path_of_something_else_is_refused(path):
    with pytest.raises(SparkReputError, match="a store is written where files can be mapped"):
        local_path(path)
