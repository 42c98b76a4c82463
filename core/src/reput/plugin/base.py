"""`Plugin`, the base class of every plugin, and how its configuration is built."""

from __future__ import annotations

import inspect
import logging
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Self

import attrs

from reput.errors import ConfigError, PluginError, ReputError
from reput.validators import parse_size

if TYPE_CHECKING:
    from reput.plugin.putinterest import PutInterest

logger = logging.getLogger(__name__)


@attrs.frozen(kw_only=True)
class NoConfig:
    """A plugin without options."""


# The base has no fields of its own: a subclass declares `config` and its state with attrs.
class Plugin:
    """Base class of all plugins: one object per store; its hooks are marked ``@hookimpl``.

    A subclass is an ``attrs.define(eq=False)`` class whose first field is ``config``.
    """

    name: ClassVar[str] = ""
    """Name of a plugin that a store is given as an object; an installed plugin has the name of its
    entry point."""
    config_type: ClassVar[type] = NoConfig
    """Frozen, keyword-only attrs class of the plugin's options. Its class attribute
    ``removed_options``, if it has one, maps names of former options to the reason why they are
    ignored: a store that recorded one is opened, with a warning. Its class attribute
    ``small_sizes``, if it has one, maps options to their values in new stores whose files are small
    (the argument ``sizes`` of `reput.open`)."""
    runs_after: ClassVar[frozenset[str]] = frozenset()
    """Plugins that, where they are active, see each batch before this one."""
    requires: ClassVar[frozenset[str]] = frozenset()
    """Plugins without which this one cannot work; they also run before it."""
    is_policy: ClassVar[bool] = False
    """Whether the plugin only performs actions on the store, and has no files that become
    incomplete while the store does not use it. A section of the configuration is enough for a store
    to use such a plugin, and the store may be opened without it."""
    store_methods: ClassVar[frozenset[str]] = frozenset()
    """Methods of the plugin that users may call on the open store itself, ``store.consumer(…)``,
    unless `reput.Store` has that name; `reput.Store.plugin` gives all others."""

    @property
    def queue_counts(self) -> Mapping[str, int]:
        """How many queues, 1 or more, the topics have that the plugin knows, by topic.

        They take turns for messages that are put without a queue. The store asks at opening, and
        after `StoreContext.renew_interest`.
        """
        return {}

    @property
    def put_interest(self) -> PutInterest | None:
        """Messages that the plugin's `reput_put` has to see; None for all.

        The store asks at opening, and after `StoreContext.renew_interest`. It stores messages that
        no plugin has to see without calling a hook, and columns without splitting them.
        """
        return None

    def __init__(self, config: Any = None) -> None:
        self.config = config

    @classmethod
    def from_section(cls, name: str, section: Mapping[str, Any]) -> Self:
        """Make the plugin from its section of the store's configuration.

        Raises:
            ConfigError: an unknown option, or a value that its option does not take.
            PluginError: the class takes no configuration, or cannot be made.
        """
        if not attrs.has(cls.config_type):
            reason = f"config_type of {cls.__name__} is not an attrs class: {cls.config_type!r}"
            raise PluginError(name, reason)
        config = build_config(cls.config_type, name, section)
        by_name = "config" in inspect.signature(cls).parameters
        if attrs.has(cls) and not by_name:
            # The options would silently go to the first field.
            raise PluginError(
                name,
                f"{cls.__name__} has no field 'config' for its options; "
                "declare one as its first field, such as `config: Any = None`",
            )
        try:
            return cls(config=config) if by_name else cls(config)
        except ReputError:
            raise
        except Exception as error:  # a plugin may raise anything
            reason = f"{cls.__name__} cannot be made: {type(error).__name__}: {error}"
            raise PluginError(name, reason) from error


def build_config(config_type: type, section: str, options: Mapping[str, Any]) -> Any:
    """Build an object of ``config_type`` from a mapping of options, as TOML gives it.

    An option that the class has removed is ignored, with a warning in the log.

    Raises:
        ConfigError: an unknown option (the known ones are named), or a value refused by the class.
    """
    known = attrs.fields_dict(config_type)
    if not isinstance(options, Mapping):
        raise ConfigError(section, "(section)", f"a table of options expected, not {options!r}")
    kept = without_removed(config_type, options)
    for option in sorted(options.keys() - kept.keys()):
        reason = config_type.removed_options[option]  # type: ignore[attr-defined]
        logger.warning("ignored option section=%s option=%s reason=%s", section, option, reason)
    for option in kept:
        if option not in known:
            raise ConfigError(section, str(option), "no such option", tuple(sorted(known)))
    try:
        return config_type(**kept)
    except ConfigError:
        raise  # by a class that compares several options, and names one of them
    except (ValueError, TypeError) as error:
        sized = {option: _size(option, value) for option, value in kept.items()}
        if sized != kept:
            return build_config(config_type, section, sized)
        reason = str(error.args[0]) if error.args else str(error)
        if len(error.args) == 4 and "must be in" in reason:  # by the validator `in_` of attrs
            _, attribute, allowed, found = error.args
            reason = (
                f"{attribute.name}: {' or '.join(map(repr, allowed))} expected, found {found!r}"
            )
        named = (word for word in re.findall(r"\w+", reason) if word in kept)
        option = next(named, ", ".join(kept) or "(section)")
        reason = reason.removeprefix(f"{option}: ")
        if _is_text_of_size(option, kept.get(option)):
            reason += "; a text with a unit is allowed, too, such as '16MiB'"
        raise ConfigError(section, option, reason) from error


def _is_text_of_size(option: str, value: Any) -> bool:
    """Whether an option that is a size has a text as its value."""
    return option.endswith(("_size", "_bytes")) and isinstance(value, str)


def _size(option: str, value: Any) -> Any:
    """Return the bytes of a text such as ``16MiB``, of an option that is a size; else ``value``."""
    if not _is_text_of_size(option, value) or value.isdigit():
        return value
    try:
        return parse_size(value)
    except ValueError:
        return value  # the option's own check refuses it


def without_removed(config_type: type, options: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return ``options`` without the options that ``config_type`` has removed."""
    removed = options.keys() & getattr(config_type, "removed_options", ())
    return {each: options[each] for each in options if each not in removed} if removed else options
