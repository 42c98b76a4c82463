"""A queue that two plugins keep is one queue, as far as either can read it."""

from __future__ import annotations

import pytest
from openstores import plugin

import reput
from reput.plugin.readresults import QueueInfo

SMALL = {"commitlog": {"file_size": 65_536}}


def keeper(name, *extents):
    infos = [QueueInfo("T", 0, *extent) for extent in extents]
    return plugin(name, reput_queues=lambda self: infos)


@pytest.mark.parametrize(
    ("one", "other", "together"),
    [
        ((5, 9, 100), (2, 8, 90), (2, 9, 100)),  # compaction keeps what the log has lost
        ((0, 0, None), (2, 8, 90), (2, 8, 90)),  # an empty one says nothing
        ((2, 8, 90), (0, 0, None), (2, 8, 90)),
        ((2, 8, None), (3, 9, None), (2, 9, None)),
    ],
)
def test_extents_are_joined(tmp_path, one, other, together):
    both = [keeper("alpha", one), keeper("beta", other)]
    with reput.open(tmp_path, plugins=both, config=SMALL) as store:
        assert store.queues() == [QueueInfo("T", 0, *together)]


def test_queues_of_one_plugin_stay_as_they_are(tmp_path):
    with reput.open(tmp_path, plugins=[keeper("alpha", (0, 3, 7))], config=SMALL) as store:
        assert store.queues() == [QueueInfo("T", 0, 0, 3, 7)]
