"""The keys of a batch, whatever the number of its topics."""

from __future__ import annotations

import pytest

import reput
from reput_index.batchkeys import KeysOfBatch, hash_of


@pytest.mark.parametrize(("topic_count", "message_count"), [(1, 40), (3, 60), (30, 60), (50, 50)])
def test_each_key_has_the_hash_of_its_topic_and_text(tmp_path, topic_count, message_count):
    topics = [f"T{number % topic_count}" for number in range(message_count)]
    with reput.open(tmp_path / "s", plugins=[]) as store:
        for number, topic in enumerate(topics):
            store.put(reput.Message(topic, b"", keys=f"k{number}"))
        (batch,) = store.scan()
        keys_of = KeysOfBatch()
        found = [keys_of(part).hashes.tolist() for part in (batch, batch[message_count // 2 :])]

    expected = [hash_of(topic, f"k{number}") for number, topic in enumerate(topics)]
    assert found == [expected, expected[message_count // 2 :]]
