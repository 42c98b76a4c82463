"""Decides plugins and options of a store: the caller's on top of the manifest's."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

import attrs

from reput.errors import ConfigError, CorruptFileError, PluginError
from reput.log.config import LOG_SECTION, CommitLogConfig
from reput.plugin.base import Plugin
from reput.plugin.discovery import how_to_install, is_own, plugin_name, plugins_argument
from reput.plugin.pluginset import CORE_SECTIONS, default_plugins
from reput.record.layout import BLANK_MIN_SIZE, RECORD_MIN_SIZE
from reput.store.operations.arguments import path_argument

if TYPE_CHECKING:
    from reput.dispatch.manifest import Manifest
    from reput.files.mappedfilequeue import MappedFileQueue
    from reput.plugin.discovery import InstalledPlugin

    Sections = Mapping[str, Mapping[str, Any]]

DISPATCH_SECTION: Final = "dispatch"


def read_sections(
    config: Mapping[str, Mapping[str, Any]] | str | os.PathLike[str] | None,
) -> Sections:
    """Return the configuration sections of a mapping or a TOML file.

    Raises:
        ConfigError: the file cannot be read, or is not TOML.
        TypeError: ``config`` is neither a mapping nor a path.
    """
    if config is None:
        return {}
    if isinstance(config, Mapping):
        return config
    path = path_argument("config", config)
    try:
        with open(path, "rb") as file:
            return tomllib.load(file)
    except OSError as error:
        reason = f"the configuration cannot be read: {error.strerror or error}"
        raise ConfigError(path, "(file)", reason) from error
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(path, "(file)", f"not valid TOML: {error}") from error


def decide(
    manifest: Manifest | None,
    wanted: Iterable[str | Plugin] | None,
    given: Mapping[str, Mapping[str, Any]],
    forget: frozenset[str],
    writable: bool,
    offered: Collection[InstalledPlugin],
) -> tuple[list[str | Plugin], Mapping[str, Mapping[str, Any]]]:
    """Return plugins and configuration sections of a store.

    Raises:
        PluginError: a writer leaves out a plugin that the store uses.
        ConfigError: a section is not a table, or its reput plugin is not installed.
    """
    recorded = {} if manifest is None else manifest.config
    remembered = [] if manifest is None else [n for n in manifest.plugins if n not in forget]
    by_name = {found.name: found for found in offered}
    if wanted is None:
        defaults = default_plugins(given, offered) if manifest is None else []
        names: list[str | Plugin] = [*defaults, *remembered]
    else:
        names = list(wanted)
    active = {item if isinstance(item, str) else plugin_name(item) for item in names}
    with_options = {name for name, options in recorded.items() if options} - forget
    for name in sorted((with_options | given.keys()) - active - {*CORE_SECTIONS}):
        found = by_name.get(name)
        # Recorded for a plugin that joined by its section alone: if it is not installed, a writer
        # must not go on as if nobody had configured it.
        is_missed = found is None and writable and name not in given and name not in remembered
        if is_missed or (found is not None and found.load().is_policy):
            names.append(name)
            active.add(name)
    if writable:
        left_out = sorted(name for name in {*remembered} - active if not _is_policy(name, by_name))
        if left_out:
            raise PluginError(
                left_out[0],
                f"the store uses {', '.join(left_out)}, and the files of a plugin that is left out "
                f"fall behind; open the store with {plugins_argument([*names, *left_out])}, or "
                f"give up plugins with forget={left_out!r}",
            )
    sections: dict[str, dict[str, Any]] = {}
    for name, options in recorded.items():
        if name in CORE_SECTIONS or name in active:
            sections[name] = dict(options)
    for name, options in given.items():
        if not isinstance(options, Mapping):
            raise ConfigError(name, "(section)", _no_table(name, options))
        if name not in {*CORE_SECTIONS, *by_name, *active} and is_own(name):
            reason = f"the plugin is not installed ({how_to_install(name)})"
            raise ConfigError(name, "(section)", reason)
        sections[name] = {**sections.get(name, {}), **options}
    return names, sections


def _no_table(name: str, value: object) -> str:
    reason = f"a table of options expected, not {value!r}"
    if name in attrs.fields_dict(CommitLogConfig):
        right = {LOG_SECTION: {name: value}}
        reason += f"; {name} is an option of {LOG_SECTION}: config={right!r}"
    return reason


def _is_policy(name: str, installed: Mapping[str, InstalledPlugin]) -> bool:
    found = installed.get(name)
    return found is not None and found.load().is_policy


def with_small_sizes(
    names: Iterable[str | Plugin], sections: Sections, by_name: Mapping[str, InstalledPlugin]
) -> Sections:
    """Return ``sections`` with the options of small files, where the caller does not set them.

    Each class of options has its own, as the class attribute ``small_sizes``; plugins that are
    given as objects have theirs already.
    """
    kinds: dict[str, type] = {LOG_SECTION: CommitLogConfig}
    for name in names:
        if isinstance(name, str) and name in by_name:
            kinds[name] = by_name[name].load().config_type
    small = {name: getattr(kind, "small_sizes", {}) for name, kind in kinds.items()}
    found = {name: {**sizes, **sections.get(name, {})} for name, sizes in small.items() if sizes}
    return {**sections, **found}


def with_file_size(
    config: CommitLogConfig, files: MappedFileQueue, given: Mapping[str, Mapping[str, Any]]
) -> CommitLogConfig:
    """Return ``config`` with the size of the log's files, if there are any.

    Raises:
        ConfigError: the option ``file_size`` contradicts the files.
        CorruptFileError: the files are too short to be a log's.
    """
    if not files.bases:
        return config
    found = files.file_size
    if found < RECORD_MIN_SIZE + BLANK_MIN_SIZE:
        path = files.path(files.bases[0])
        raise CorruptFileError(path, found, "the file is too short to be part of a log")
    asked = config.file_size if "file_size" in given.get(LOG_SECTION, {}) else found
    if asked != found:
        raise ConfigError(
            LOG_SECTION,
            "file_size",
            f"the store's files have {found} bytes; leave the option out, or give that size",
        )
    return config if found == config.file_size else attrs.evolve(config, file_size=found)
