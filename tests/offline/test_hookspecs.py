"""The hooks of offline tools keep their form, and the page about them says what they are."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest

import reput
from reput.errors import PluginError
from reput.plugin import PluginSet
from reput_tools.offline import hookspecs, offline_hooks

PAGE = Path(__file__).resolve().parents[2] / "docs" / "offline.md"
HOOKS = {name: hook for name, hook in vars(hookspecs).items() if name.startswith("reput_tools_")}


def sections():
    """Arguments and text of the page by heading, in its order; only sections about a hook."""
    parts = re.split(r"^### `(\w+)\(([^)`]*)\)`$", PAGE.read_text(encoding="utf-8"), flags=re.M)
    return {
        name: (tuple(filter(None, given.split(", "))), text)
        for name, given, text in zip(parts[1::3], parts[2::3], parts[3::3], strict=True)
    }


def test_every_hook_has_its_section_with_its_arguments_in_the_same_order():
    signatures = {name: tuple(inspect.signature(hook).parameters) for name, hook in HOOKS.items()}

    found = {name: arguments for name, (arguments, _) in sections().items()}

    assert list(found.items()) == list(signatures.items())


@pytest.mark.parametrize("name", HOOKS)
def test_sections_and_docstrings_explain_every_argument(name):
    arguments, text = sections()[name]
    documented = re.findall(r"^    (\w+): ", inspect.getdoc(HOOKS[name]), flags=re.M)

    assert [argument for argument in arguments if f"**`{argument}`**" not in text] == []
    assert tuple(documented) == arguments


def test_a_plugin_without_these_hooks_answers_none():
    hooks = offline_hooks("plain", reput.Plugin())

    assert [name for name in HOOKS if getattr(hooks, name).get_hookimpls()] == []
    assert hooks.reput_tools_rebuilt_from() is None


class MisspeltPlugin(reput.Plugin):
    name = "misspelt"

    @reput.hookimpl
    def reput_dispatch(self, batch): ...

    @reput.hookimpl(optionalhook=True)
    def reput_tools_shard(self, context): ...


def test_a_misspelt_hook_is_found_by_the_tool_that_asks():
    PluginSet([MisspeltPlugin()], {})  # a store ignores it

    with pytest.raises(PluginError, match="reput_tools_shard is not a hook of reput_tools; known"):
        offline_hooks("misspelt", MisspeltPlugin())
