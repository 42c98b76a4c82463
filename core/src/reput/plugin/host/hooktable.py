"""`PluginHooks`: the hooks of one plugin as attributes, checked once, when it is registered.

All code that calls a hook takes it from here, and calls it in the same way: by keyword, with all
arguments that the hook has. One protocol per hook lets mypy check these calls. A hook whose answer
the host checks before using it returns ``object`` here.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Protocol, Self

import attrs
import pluggy

from reput.errors import PluginError
from reput.plugin import hookspecs

if TYPE_CHECKING:
    import numpy.typing as npt

    from reput.plugin.base import Plugin
    from reput.plugin.context import StoreContext
    from reput.plugin.filters import MessageFilter
    from reput.plugin.rebuilding.sharding import ShardBuilder
    from reput.record.batch import DispatchBatch
    from reput.record.messages.message import Message

__all__ = ["PREFIX", "PluginHooks", "hook_names", "rank_of"]

PREFIX: Final = "reput_"
_MARK: Final = f"{hookspecs.PROJECT}_impl"  # where `hookspecs.hookimpl` leaves its options
_NOT_HEEDED: Final = ("wrapper", "hookwrapper", "specname")

Answered = Callable[[], object]
"""A hook without arguments."""


class OpenHook(Protocol):
    """`reput_open`."""

    def __call__(self, *, context: StoreContext) -> object: ...


class RecoverHook(Protocol):
    """`reput_recover`."""

    def __call__(self, *, max_physical_offset: int, progress: int) -> object: ...


class ReadyHook(Protocol):
    """`reput_ready`."""

    def __call__(self, *, queue_offsets: Mapping[tuple[str, int], int]) -> object: ...


class PutHook(Protocol):
    """`reput_put`."""

    def __call__(self, *, messages: Sequence[Message]) -> Sequence[Message] | None: ...


class EnrichHook(Protocol):
    """`reput_enrich`."""

    def __call__(self, *, batch: DispatchBatch) -> Mapping[str, npt.NDArray[Any]] | None: ...


class BatchHook(Protocol):
    """`reput_dispatch` and `reput_arrive`."""

    def __call__(self, *, batch: DispatchBatch) -> object: ...


class ShardsHook(Protocol):
    """`reput_shards`."""

    def __call__(self, *, context: StoreContext) -> ShardBuilder | None: ...


class WorkHook(Protocol):
    """`reput_work`."""

    def __call__(self, *, now: int) -> object: ...


class FilterHook(Protocol):
    """`reput_filter`."""

    def __call__(self, *, expression: str, kind: str | None, topic: str | None) -> object: ...


class ReadHook(Protocol):
    """`reput_read`."""

    def __call__(
        self,
        *,
        topic: str,
        queue_id: int,
        queue_offset: int,
        max_count: int,
        max_bytes: int,
        filter: MessageFilter | None,  # noqa: A002 - the word for it
    ) -> object: ...


class OffsetByTimeHook(Protocol):
    """`reput_offset_by_time`."""

    def __call__(self, *, topic: str, queue_id: int, timestamp: int, boundary: str) -> object: ...


class QueryHook(Protocol):
    """`reput_query`."""

    def __call__(
        self,
        *,
        topic: str,
        key: str,
        begin: int,
        end: int,
        limit: int | None,
        oldest_first: bool,
        after: int | None,
    ) -> object: ...


class TrimHook(Protocol):
    """`reput_trim`."""

    def __call__(self, *, min_physical_offset: int) -> object: ...


@attrs.frozen(eq=False, kw_only=True)
class PluginHooks:
    """For each hook, named without its prefix, the plugin's function or None.

    The fields are the hooks of `reput.plugin.hookspecs`, in their order; see there.
    """

    open: OpenHook | None = None
    recover: RecoverHook | None = None
    queue_offsets: Answered | None = None
    ready: ReadyHook | None = None
    put: PutHook | None = None
    enrich: EnrichHook | None = None
    dispatch: BatchHook | None = None
    arrive: BatchHook | None = None
    flush: Answered | None = None
    shards: ShardsHook | None = None
    work: WorkHook | None = None
    filter: FilterHook | None = None
    read: ReadHook | None = None
    offset_by_time: OffsetByTimeHook | None = None
    query: QueryHook | None = None
    queues: Callable[[], Any] | None = None
    trim: TrimHook | None = None
    hold: Answered | None = None
    report: Callable[[], Any] | None = None
    close: Answered | None = None
    takes: Mapping[str, frozenset[str]] = attrs.field(factory=dict)
    """Arguments that the plugin's function takes, by hook."""

    @classmethod
    def of(cls, name: str, plugin: Plugin) -> Self:
        """Check a plugin's hooks and build its table.

        Args:
            name: the plugin's name, for error texts.
            plugin: the plugin's object.

        Raises:
            PluginError: a hook that is not marked, unknown, has unknown arguments, or is marked
                with an option that reput ignores.
        """
        found = {hook: _checked(name, plugin, PREFIX + hook) for hook in _hooks_of(type(plugin))}
        takes = {hook: accepted for hook, (_, accepted) in found.items()}
        return cls(takes=takes, **{hook: function for hook, (function, _) in found.items()})

    @property
    def names(self) -> tuple[str, ...]:
        """The hooks that the plugin implements, without their prefix, in life-cycle order."""
        return tuple(name for name in hook_names() if getattr(self, name) is not None)


def hook_names() -> tuple[str, ...]:
    """Return the names of all hooks, without their prefix, in life-cycle order."""
    return tuple(field.name for field in attrs.fields(PluginHooks) if field.name != "takes")


def _hooks_of(kind: type) -> list[str]:
    """Return the methods of class ``kind`` that have a hook's prefix, without the prefix.

    Hooks of other distributions, which `hooks_of` asks for, are left out.
    """
    found = (each for each in dir(kind) if each.startswith(PREFIX))
    return [
        each.removeprefix(PREFIX)
        for each in found
        if callable(getattr(kind, each)) and not _is_of_another(getattr(kind, each), each)
    ]


def _is_of_another(method: Any, name: str) -> bool:
    is_optional = getattr(method, _MARK, {}).get("optionalhook", False)
    return is_optional and not hasattr(_contract().hook, name)


def rank_of(hook: Any) -> int:
    """Return when a plugin is asked among those that implement the hook: -1 early, 0, 1 late."""
    marked = getattr(hook, _MARK)
    return bool(marked["trylast"]) - bool(marked["tryfirst"])


@functools.cache
def _contract() -> pluggy.PluginManager:
    """Return a pluggy manager that knows all hooks, and in which no plugin is registered.

    A store calls hooks one plugin at a time, each on its own thread and with its own time limit, so
    pluggy's way of calling all plugins at once is of no use.
    """
    manager = pluggy.PluginManager(hookspecs.PROJECT)
    manager.add_hookspecs(hookspecs)
    return manager


def _checked(name: str, plugin: Plugin, hook: str) -> tuple[Any, frozenset[str]]:
    """Return a hook as a function of all its arguments, and the arguments that the plugin takes."""
    contract = _contract()
    caller: pluggy.HookCaller | None = getattr(contract.hook, hook, None)
    if caller is None or caller.spec is None:
        known = ", ".join(sorted(PREFIX + each for each in hook_names()))
        raise PluginError(name, f"{hook} is no hook; known: {known}")
    marked = contract.parse_hookimpl_opts(plugin, hook)
    if marked is None:
        raise PluginError(name, f"{hook} is not marked with @reput.hookimpl")
    refused = [*_NOT_HEEDED]
    if not caller.spec.opts["firstresult"]:
        refused += ["tryfirst", "trylast"]  # batches go through plugins by `runs_after`
    for option in refused:
        if marked.get(option):
            raise PluginError(name, f"{hook} is marked with {option}, which reput ignores")
    method = getattr(plugin, hook)
    implementation = pluggy.HookImpl(plugin, name, method, marked)
    # Arguments with a default count too: the plugin has the default for calls of its own.
    accepted = frozenset((*implementation.argnames, *implementation.kwargnames))
    offered = frozenset(caller.spec.argnames)
    if accepted - offered:
        raise PluginError(
            name,
            f"{hook} takes {', '.join(sorted(accepted - offered))}; the hook has "
            f"{', '.join(sorted(offered)) or 'no arguments'}",
        )
    if accepted == offered:
        return method, accepted
    return _by_accepted_arguments(method, accepted), accepted


def _by_accepted_arguments(
    method: Callable[..., Any], accepted: frozenset[str]
) -> Callable[..., Any]:
    """Return a function that takes all of the hook's arguments and passes on the ``accepted``."""

    @functools.wraps(method)  # with its mark
    def call(**arguments: Any) -> Any:
        return method(**{name: arguments[name] for name in accepted})

    return call
