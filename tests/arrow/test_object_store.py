"""Logs in an object store, through Arrow's own client of S3."""

from __future__ import annotations

import urllib.parse

import pytest
from objectstore import object_store
from pyarrow import fs

import reput
from reput_arrow import table

pytestmark = pytest.mark.skipif(
    not hasattr(fs, "S3FileSystem"), reason="this pyarrow was built without S3"
)
CONFIG = {"commitlog": {"file_size": 65_536}}
COLUMNS = ["topic", "queue_offset", "keys", "body"]


@pytest.fixture
def bucket(tmp_path, monkeypatch):
    """Settings of a path in a bucket with two brokers' stores; what is asked of its server."""
    for name, count in (("broker-a", 300), ("broker-b", 20)):
        with reput.open(tmp_path / "logs" / name / "store", config=CONFIG, plugins=()) as store:
            for number in range(count):
                store.put(reput.Message("orders", b"%d" % number * 100, keys=f"k{number}"))
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "for-tests")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    with object_store(tmp_path) as server:
        endpoint = f"http://127.0.0.1:{server.server_address[1]}"
        settings = {"endpoint_override": endpoint, "region": "eu-west-1"}
        yield tmp_path / "logs", urllib.parse.urlencode(settings), server.asked


def test_a_log_in_an_object_store_is_the_log(bucket):
    local, settings, asked = bucket

    found = table(f"s3://logs/broker-a/store?{settings}", columns=COLUMNS)

    assert found == table(local / "broker-a" / "store", columns=COLUMNS)
    assert found.num_rows == 300
    assert any(each.startswith("GET logs/broker-a/store/commitlog/0") for each in asked)


def test_stores_of_several_brokers_in_a_bucket(bucket):
    _, settings, asked = bucket

    found = table(f"s3://logs/*/store?{settings}", columns=["broker"], topic="orders")

    brokers = found.column("broker").to_pylist()
    assert (brokers.count("broker-a"), brokers.count("broker-b")) == (300, 20)
    assert not any(each.split()[0] in ("PUT", "POST", "DELETE") for each in asked)


def test_a_store_that_is_not_in_the_bucket_is_told(bucket):
    _, settings, _ = bucket

    with pytest.raises(reput.errors.StoreNotFoundError, match="broker-c"):
        table(f"s3://logs/broker-c/store?{settings}", columns=["topic"])
