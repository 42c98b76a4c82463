"""The contract between a store and its plugins: the hooks, their arguments and their answers.

This package also finds the installed plugins. It must not know when hooks are called, or on which
thread.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from reput.doors import door

if TYPE_CHECKING:
    from reput.bounds import AGE_MAX_MS as AGE_MAX_MS
    from reput.bounds import INT32_MAX as INT32_MAX
    from reput.bounds import number_between as number_between
    from reput.bounds import parse_size as parse_size
    from reput.bounds import whole_between as whole_between
    from reput.plugin.access import Hold as Hold
    from reput.plugin.access import StoreAccess as StoreAccess
    from reput.plugin.access import TrimReport as TrimReport
    from reput.plugin.answers import MissingMessage as MissingMessage
    from reput.plugin.answers import QueryResult as QueryResult
    from reput.plugin.answers import QueueInfo as QueueInfo
    from reput.plugin.answers import ReadColumns as ReadColumns
    from reput.plugin.answers import ReadResult as ReadResult
    from reput.plugin.base import NoConfig as NoConfig
    from reput.plugin.base import Plugin as Plugin
    from reput.plugin.base import build_config as build_config
    from reput.plugin.context import StoreContext as StoreContext
    from reput.plugin.discovery import InstalledPlugin as InstalledPlugin
    from reput.plugin.discovery import how_to_install as how_to_install
    from reput.plugin.discovery import installed as installed
    from reput.plugin.discovery import plugin_name as plugin_name
    from reput.plugin.filters import BitMaps as BitMaps
    from reput.plugin.filters import MessageFilter as MessageFilter
    from reput.plugin.hookspecs import hookimpl as hookimpl
    from reput.plugin.hookspecs import hookspec as hookspec
    from reput.plugin.hooktable import PluginHooks as PluginHooks
    from reput.plugin.hooktable import hooks_of as hooks_of
    from reput.plugin.interest import PutInterest as PutInterest
    from reput.plugin.pluginset import PluginSet as PluginSet
    from reput.plugin.pluginset import default_plugins as default_plugins
    from reput.plugin.pluginset import dispatch_order as dispatch_order

_HOMES = {
    "AGE_MAX_MS": "reput.bounds",
    "INT32_MAX": "reput.bounds",
    "BitMaps": "filters",
    "Hold": "access",
    "InstalledPlugin": "discovery",
    "MessageFilter": "filters",
    "MissingMessage": "answers",
    "NoConfig": "base",
    "Plugin": "base",
    "PluginHooks": "hooktable",
    "PluginSet": "pluginset",
    "PutInterest": "interest",
    "QueryResult": "answers",
    "QueueInfo": "answers",
    "ReadColumns": "answers",
    "ReadResult": "answers",
    "StoreAccess": "access",
    "StoreContext": "context",
    "TrimReport": "access",
    "build_config": "base",
    "default_plugins": "pluginset",
    "dispatch_order": "pluginset",
    "hookimpl": "hookspecs",
    "hooks_of": "hooktable",
    "hookspec": "hookspecs",
    "how_to_install": "discovery",
    "installed": "discovery",
    "number_between": "reput.bounds",
    "parse_size": "reput.bounds",
    "plugin_name": "discovery",
    "whole_between": "reput.bounds",
}

__all__ = [*_HOMES]

if not TYPE_CHECKING:  # a name that is not listed is an error for mypy, too
    __getattr__, __dir__ = door(__name__, _HOMES)
