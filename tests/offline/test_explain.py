"""What stands where files differ: a plugin's words, or bytes where it has none."""

from __future__ import annotations

import attrs
import numpy as np
import pytest

import reput
from reput.errors import PluginError
from reput.files import Disk
from reput.plugin import Plugin
from reput_tools.offline import Comparison, Difference, offline_hooks
from reput_tools.offline.rebuilder.explain import explained
from reput_tools.offline.rebuilder.rebuilddriver import _weighed


@pytest.fixture
def comparison(tmp_path):
    with reput.open(
        tmp_path / "store",
        plugins=(),
        threads=False,
        config={"commitlog": {"file_size": 16_384}},
    ) as store:
        store.put(reput.Message("t", b"x", queue_id=3, keys="k1 k2"))
    with reput.open(tmp_path / "store", mode="r", plugins=()) as store:
        for name, data in (("mine", b"\x01\x02\x03"), ("built", bytes(range(40)))):
            (tmp_path / name).mkdir()
            (tmp_path / name / "file").write_bytes(data)
        yield Comparison(
            str(tmp_path / "mine"),
            str(tmp_path / "built"),
            store.log,
            Disk(),
            frozenset(),
            damaged=((100, 200), (300, 400)),
        )


class Silent(Plugin):
    pass


class Failing(Plugin):
    @reput.hookimpl(optionalhook=True)
    def reput_tools_explain(self, comparison, differences):
        raise ValueError("a plugin's mistake")


class Forgetful(Plugin):
    @reput.hookimpl(optionalhook=True)
    def reput_tools_explain(self, comparison, differences):
        return differences[1:]


class Telling(Plugin):
    @reput.hookimpl(optionalhook=True)
    def reput_tools_explain(self, comparison, differences):
        return [attrs.evolve(each, found="a word", kind="word") for each in differences]


@pytest.mark.parametrize("plugin", [Silent, Failing, Forgetful])
def test_without_a_plugins_words_bytes_are_shown(plugin, comparison):
    differences = [
        Difference("file", 1, "differs", size=2),
        Difference("file", 2, "differs", size=38),
        Difference("gone", 0, "the file is missing", kind="missing", built_path="file"),
    ]

    told = explained(offline_hooks("told", plugin()), comparison, differences)

    assert [each.found for each in told] == ["02 03", "03 …", "no file"]
    assert told[0].expected == "01 02"
    assert told[1].expected == " ".join(f"{byte:02x}" for byte in range(2, 18)) + " …"
    assert [each.position for each in told] == [1, 2, 0]


def test_what_a_plugin_says_counts(comparison):
    (told,) = explained(
        offline_hooks("told", Telling()), comparison, [Difference("file", 1, "differs", size=2)]
    )

    assert (told.found, told.kind) == ("a word", "word")


def test_a_comparison_knows_which_records_the_log_has_lost(comparison):
    lost = comparison.is_lost(np.array([-1, 0, 99, 100, 199, 200, 350, 400]))

    assert comparison.is_partial
    assert lost.tolist() == [True, False, False, True, True, False, True, False]
    assert not attrs.evolve(comparison, damaged=()).is_partial


def test_a_message_is_named_by_what_the_log_says_of_it(comparison):
    known, unknown = comparison.touched(0), comparison.touched(7)

    assert str(known) == "t/3@0 key k1"
    assert comparison.touched(0, "k2").key == "k2"
    assert str(unknown) == "?/?@?"
    assert unknown.physical_offset == 7


class Judging(Plugin):
    name = "judging"

    @reput.hookimpl(optionalhook=True)
    def reput_tools_compare(self, comparison, differences):
        raise KeyError("a plugin's mistake")


def test_a_mistake_in_a_plugins_judgement_is_an_error_of_that_plugin(comparison):
    hooks = offline_hooks("judging", Judging())

    with pytest.raises(PluginError, match=r"judging.*KeyError.*a plugin's mistake"):
        _weighed("judging", hooks, comparison, [Difference("file", 1, "differs")])
