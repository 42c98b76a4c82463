"""Hooks that another distribution specifies, and plugins implement beside those of the store."""

from __future__ import annotations

import sys
from types import ModuleType

import pytest

import reput
from reput.errors import PluginError
from reput.plugin import PluginSet, hooks_of, hookspec


@pytest.fixture
def specs():
    """A module of specifications, as a distribution ``acme`` would have it."""
    module = ModuleType("acme.hookspecs")

    @hookspec(firstresult=True)
    def acme_size(path, unit): ...

    @hookspec
    def acme_names(): ...

    module.acme_size, module.acme_names = acme_size, acme_names
    return module


class SizedPlugin(reput.Plugin):
    name = "sized"

    @reput.hookimpl
    def reput_dispatch(self, batch): ...

    @reput.hookimpl(optionalhook=True)
    def acme_size(self, path):
        return len(path)


def test_a_tool_asks_a_plugin_for_a_hook_of_the_tools_own(specs):
    hooks = hooks_of("sized", SizedPlugin(), specs)

    assert hooks.acme_size(path="abc", unit="bytes") == 3


def test_a_plugin_that_does_not_implement_the_hook_answers_nothing(specs):
    hooks = hooks_of("plain", reput.Plugin(), specs)

    assert hooks.acme_size(path="abc", unit="bytes") is None
    assert hooks.acme_names() == []


def test_a_store_ignores_hooks_of_other_distributions(tmp_path):
    class MirroredPlugin(reput.Plugin):
        name = "mirrored"

        @reput.hookimpl(optionalhook=True)
        def reput_mirror_size(self): ...

    plugins = PluginSet([MirroredPlugin()], {})
    with reput.open(tmp_path, plugins=[MirroredPlugin()]) as store:
        store.put(reput.Message("T", b""))

    assert plugins.hooks["mirrored"].takes == {}


def test_a_hook_of_the_store_stays_one_where_it_is_marked_as_optional():
    class CarefulPlugin(reput.Plugin):
        name = "careful"

        @reput.hookimpl(optionalhook=True)
        def reput_dispatch(self, batch): ...

    assert PluginSet([CarefulPlugin()], {}).hooks["careful"].takes.keys() == {"dispatch"}


def test_a_hook_that_the_tool_does_not_have_is_an_error_that_names_its_hooks(specs):
    class MisspeltPlugin(reput.Plugin):
        @reput.hookimpl(optionalhook=True)
        def acme_sise(self): ...

    with pytest.raises(
        PluginError, match="acme_sise is not a hook of acme; known: acme_names, acme_"
    ):
        hooks_of("misspelt", MisspeltPlugin(), specs)


def test_a_hook_of_the_tool_that_is_not_marked_is_an_error(specs):
    class ForgetfulPlugin(reput.Plugin):
        def acme_size(self, path): ...

    expected = r"acme_size is not marked with @reput\.hookimpl\(optionalhook=True\)"
    with pytest.raises(PluginError, match=expected):
        hooks_of("forgetful", ForgetfulPlugin(), specs)


def test_an_argument_that_the_tools_hook_does_not_have_is_an_error(specs):
    class WrongPlugin(reput.Plugin):
        @reput.hookimpl(optionalhook=True)
        def acme_size(self, paht): ...

    with pytest.raises(PluginError, match="acme_size takes paht; the hook has path, unit"):
        hooks_of("wrong", WrongPlugin(), specs)


def test_specifications_begin_with_the_name_of_their_package():
    named = ModuleType("acme.hookspecs")
    named.weigh = hookspec(lambda path: None)

    with pytest.raises(ValueError, match=r"acme\.hookspecs: weigh does not begin with acme_"):
        hooks_of("plain", reput.Plugin(), named)
    with pytest.raises(ValueError, match="did not find any 'reput' hooks"):
        hooks_of("plain", reput.Plugin(), sys)


def test_looking_for_hooks_calls_nothing_of_the_plugin(specs):
    class ShyPlugin(reput.Plugin):
        @property
        def acme_things(self):
            raise AssertionError("called")

    hooks_of("shy", ShyPlugin(), specs)  # raises nothing
