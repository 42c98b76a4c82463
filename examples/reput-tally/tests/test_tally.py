"""A distribution outside of reput asks plugins for a hook that it specifies itself."""

from __future__ import annotations

import pytest

import reput
from reput.errors import PluginError
from reput.plugin import hooks_of
from reput_tally import hookspecs, tally


def test_a_plugin_of_another_author_answers(tmp_path):
    with reput.open(tmp_path, plugins=["audit"]) as store:
        for topic in ("orders", "orders", "returns"):
            store.put(reput.Message(topic, b"body"))

    assert tally(str(tmp_path), "orders") == {"audit": 2}


class MisspeltPlugin(reput.Plugin):
    @reput.hookimpl(optionalhook=True)
    def reput_tally_cuont(self, root, topic): ...


class ConfusedPlugin(reput.Plugin):
    @reput.hookimpl(optionalhook=True)
    def reput_tally_count(self, path): ...


@pytest.mark.parametrize(
    ("plugin", "error"),
    [
        (
            MisspeltPlugin(),
            "reput_tally_cuont is not a hook of reput_tally; known: reput_tally_count",
        ),
        (ConfusedPlugin(), "reput_tally_count takes path; the hook has root, topic"),
    ],
)
def test_a_hook_that_is_not_as_specified_is_an_error(plugin, error):
    with pytest.raises(PluginError, match=error):
        hooks_of("mistaken", plugin, hookspecs)
