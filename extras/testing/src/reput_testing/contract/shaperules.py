"""Contract tests about the class itself: its hooks, its configuration, its entry point."""

from __future__ import annotations

import ast
import importlib
import inspect
import json
import pickle
import re
import textwrap
from importlib.metadata import EntryPoint
from importlib.util import find_spec
from pathlib import Path

import attrs
import pytest

from reput.errors import ConfigError
from reput.plugin import Plugin, PluginHooks, hooks_of, hookspecs, installed
from reput_testing.contract.basecontract import ContractRules

_PREFIX = "reput_"
_SECTION = re.compile(r"^\[[a-z]+\] ")  # of the list of commands


class ShapeRules(ContractRules):
    """Rules that can be checked without a message."""

    def test_it_is_a_plugin_found_under_its_name(self) -> None:
        """An installed plugin's entry point leads to a subclass of `reput.Plugin`."""
        assert issubclass(self.plugin_class, Plugin)
        assert self.name.isidentifier(), "the name is a directory, a section and an entry point"

    def test_every_hook_is_marked_and_known(self) -> None:
        """A method ``reput_…`` that is not marked, or that is not a hook, would never be called."""
        known = {
            name: set(inspect.signature(hook).parameters)
            for name, hook in vars(hookspecs).items()
            if name.startswith(_PREFIX)
        }
        found = {name for name in dir(self.plugin_class) if name.startswith(_PREFIX)}

        for name in found - self._hooks_of_tools():
            method = getattr(self.plugin_class, name)
            assert name in known, f"{name} is not a hook of reput"
            assert hasattr(method, f"{hookspecs.PROJECT}_impl"), f"{name} lacks @reput.hookimpl"
            arguments = set(list(inspect.signature(method).parameters)[1:])
            assert arguments <= known[name], f"{name} has arguments that the hook does not have"

    def test_marked_methods_have_the_names_of_hooks(self) -> None:
        """A method marked ``@reput.hookimpl`` under another name would never be called."""
        marked = {
            name
            for name, method in inspect.getmembers(self.plugin_class)
            if hasattr(method, f"{hookspecs.PROJECT}_impl")
        }

        known = {name for name in vars(hookspecs) if name.startswith(_PREFIX)}
        assert marked <= known | self._hooks_of_tools()
        assert marked, "a plugin without hooks does nothing"

    def test_hooks_of_tools_are_hooks_that_the_tools_have(self) -> None:
        """A store ignores a hook that is marked as optional, also one that is misspelt."""
        owners = {each: each.partition(".")[0] for each in self.hook_specifications}
        prefixes = tuple(f"{owner}_" for owner in owners.values())
        unknown = [name for name in self._hooks_of_tools() if not name.startswith(prefixes)]

        assert unknown == [], "name the module that specifies them in `hook_specifications`"
        for module, owner in owners.items():
            if find_spec(owner) is not None:
                hooks_of(self.name, self.plugin(), importlib.import_module(module))

    def _hooks_of_tools(self) -> set[str]:
        """Return the hooks that are not the store's: marked as optional, and of another name."""
        return {
            name
            for name, method in inspect.getmembers(self.plugin_class)
            if getattr(method, f"{hookspecs.PROJECT}_impl", {}).get("optionalhook")
            and name not in vars(hookspecs)
        }

    def test_a_policy_sees_no_messages_and_keeps_no_files(self, tmp_path: Path) -> None:
        """A store may be opened without a policy, so nothing of it may fall behind."""
        if not self.plugin_class.is_policy:
            pytest.skip("the plugin is not a policy")

        outcome = self.build(tmp_path / "store", self.log())

        assert PluginHooks.of(self.name, self.plugin()).dispatch is None
        assert not outcome.files

    def test_plugins_are_compared_by_identity(self) -> None:
        """A store compares plugins, and holds them in sets: ``==`` must not compare their state."""
        one, other = self.plugin(), self.plugin()

        assert one == one
        assert one != other, "write @attrs.define(eq=False)"
        assert len({one, other}) == 2

    def test_an_unknown_option_is_an_error_that_names_the_known(self) -> None:
        """A mistyped option is not ignored."""
        known = {field.name for field in attrs.fields(self.plugin_class.config_type)}

        with pytest.raises(ConfigError) as raised:
            self.plugin_class.from_section(self.name, {"no_such_option": 1})

        assert raised.value.section == self.name
        assert raised.value.option == "no_such_option"
        assert set(raised.value.known) == known
        assert all(option in str(raised.value) for option in known)

    def test_its_configuration_is_a_frozen_class_of_keywords_with_defaults(self) -> None:
        """One class per plugin declares all options, their types and their defaults."""
        config_type = self.plugin_class.config_type

        config = config_type()

        for field in attrs.fields(config_type):
            assert field.kw_only, f"{field.name} can be given by position"
            with pytest.raises(attrs.exceptions.FrozenInstanceError):
                setattr(config, field.name, getattr(config, field.name))
        assert config == config_type(), "two configurations of the same options are equal"
        assert self.plugin_class.from_section(self.name, {}).config == config

    def test_every_option_has_a_docstring(self) -> None:
        """Each option of the class has a docstring below it that explains the option."""
        config_type = self.plugin_class.config_type
        assert inspect.getdoc(config_type), f"{config_type.__name__} has no docstring"
        try:
            source = textwrap.dedent(inspect.getsource(config_type))
        except OSError:
            pytest.skip("the source is not there")

        documented = _documented_names(source)

        options = {field.name for field in attrs.fields(config_type) if not field.inherited}
        assert options <= documented, "options without a docstring under them"

    def test_its_configuration_pickles(self) -> None:
        """Processes of a rebuild and of Spark get the configuration by pickle."""
        config = self.plugin().config

        assert pickle.loads(pickle.dumps(config)) == config

    def test_its_report_can_be_written_as_json(self, tmp_path: Path) -> None:
        """`reput_report` returns JSON-like values, for an empty store and for a full one."""
        log = self.log()
        with self.driver(tmp_path / "store", log) as driver:
            for _ in range(2):
                report = driver.call("reput_report")
                assert report is None or isinstance(json.loads(json.dumps(dict(report))), dict)
                driver.catch_up()

    def test_its_commands_say_what_they_do(self) -> None:
        """Each entry point ``reput.commands`` of the distribution is a command with help."""
        click = pytest.importorskip("click")
        offered = _commands_beside(self.plugin_name)
        if not offered:
            pytest.skip("the plugin's distribution has no commands")

        for entry_point in offered:
            name, _, text = entry_point.name.partition(" ")
            line = _SECTION.sub("", text.strip()).rstrip(".")
            command = entry_point.load()
            assert isinstance(command, click.Command), f"{entry_point.value} is not a click.Command"
            assert command.help, f"the command {name} does not say what it does"
            said = command.get_short_help_str(limit=200).rstrip(".")
            assert line in ("", said), f"`reput --help` says: {line}"


def _commands_beside(name: str | None) -> list[EntryPoint]:
    """Return the commands of the distribution that offers the plugin ``name``."""
    for found in installed():
        if found.name == name and found.entry_point.dist is not None:
            return list(found.entry_point.dist.entry_points.select(group="reput.commands"))
    return []


def _documented_names(source: str) -> set[str]:
    """Return the fields of the class in ``source`` that are followed by a string."""
    (definition,) = ast.parse(source).body
    assert isinstance(definition, ast.ClassDef)
    names = set()
    for field, text in zip(definition.body, definition.body[1:], strict=False):
        is_text = isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant)
        target = getattr(field, "target", None) or (getattr(field, "targets", None) or [None])[0]
        if is_text and isinstance(target, ast.Name):
            names.add(target.id)
    return names
