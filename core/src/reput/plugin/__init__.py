"""The contract between a store and its plugins: the hooks, their arguments and their answers.

This package also finds the installed plugins. It must not know when hooks are called, or on which
thread.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from reput.lazyexports import lazy_exports

if TYPE_CHECKING:
    from reput.plugin.base import NoConfig as NoConfig
    from reput.plugin.base import Plugin as Plugin
    from reput.plugin.base import build_config as build_config
    from reput.plugin.discovery import InstalledPlugin as InstalledPlugin
    from reput.plugin.discovery import how_to_install as how_to_install
    from reput.plugin.discovery import installed as installed
    from reput.plugin.discovery import plugin_name as plugin_name
    from reput.plugin.hookspecs import hookimpl as hookimpl
    from reput.plugin.hookspecs import hookspec as hookspec
    from reput.plugin.hooktable import PluginHooks as PluginHooks
    from reput.plugin.hooktable import hooks_of as hooks_of
    from reput.plugin.messagefilter import BitMaps as BitMaps
    from reput.plugin.messagefilter import MessageFilter as MessageFilter
    from reput.plugin.pluginset import PluginSet as PluginSet
    from reput.plugin.pluginset import default_plugins as default_plugins
    from reput.plugin.pluginset import dispatch_order as dispatch_order
    from reput.plugin.putinterest import PutInterest as PutInterest
    from reput.plugin.readresults import MissingMessage as MissingMessage
    from reput.plugin.readresults import QueryResult as QueryResult
    from reput.plugin.readresults import QueueInfo as QueueInfo
    from reput.plugin.readresults import ReadColumns as ReadColumns
    from reput.plugin.readresults import ReadResult as ReadResult
    from reput.plugin.storeaccess import Hold as Hold
    from reput.plugin.storeaccess import StoreAccess as StoreAccess
    from reput.plugin.storeaccess import TrimReport as TrimReport
    from reput.plugin.storecontext import StateNotes as StateNotes
    from reput.plugin.storecontext import StoreContext as StoreContext
    from reput.validators import AGE_MAX_MS as AGE_MAX_MS
    from reput.validators import INT32_MAX as INT32_MAX
    from reput.validators import integer_between as integer_between
    from reput.validators import number_between as number_between
    from reput.validators import parse_size as parse_size
else:
    __getattr__, __dir__ = lazy_exports(__name__)
