"""What offline tools ask of plugins: hooks that no running store calls.

A plugin implements a hook by a method of the same name, marked
``@reput.hookimpl(optionalhook=True)``, that takes, by name, those of the hook's arguments that it
needs. Every hook may be left out; its text says what that means. The objects are of no open store,
except for `reput_tools_wrong_entries`: none of their other hooks need have been called.
`reput_tools.offline.offline_hooks` asks them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from reput.plugin import hookspec

if TYPE_CHECKING:
    from reput.errors import CorruptFileError
    from reput.files import Disk
    from reput.plugin import StoreContext
    from reput_tools.offline.contract.comparison import Compared, Comparison, Difference
    from reput_tools.offline.contract.hints import RecordHints
    from reput_tools.offline.contract.shards import ShardBuilder


# --------------------------------------------------------------------------- rebuilding


@hookspec(firstresult=True)
def reput_tools_shards(context: StoreContext) -> ShardBuilder | None:
    """Return the builder of the plugin's files from splits of the log, by several processes.

    Called in each process, on an object of its own. Without this hook, or if it returns None, one
    process builds the files in the order of the log.

    Args:
        context: as in a read-only store; new files take the sizes of that store's files.
    """


@hookspec(firstresult=True)
def reput_tools_rebuilt_from() -> Collection[str] | None:
    """Return directories, below the store's root, whose old files a rebuild reads beside the log.

    A repair brings them to the new store before it makes the plugin's files again.
    """


# --------------------------------------------------------------------------- comparing


@hookspec(firstresult=True)
def reput_tools_named_by_clock() -> Collection[str] | None:
    """Return directories whose files are named by the time at which they were made.

    The log does not determine these names: a comparison matches such files by their first 40 bytes,
    and then compares the order of the names.
    """


@hookspec(firstresult=True)
def reput_tools_compare(
    comparison: Comparison, differences: Sequence[Difference]
) -> Compared | None:
    """Judge ``differences`` between the plugin's files and those rebuilt from the log.

    Bytes may differ in something that the log does not determine; only the plugin knows. Called
    when a comparison has found differences.

    Args:
        comparison: the compared files.
        differences: of each file that differs, the first ``comparison.limit``.

    Returns:
        The real differences, and what could not be compared. None if the log determines everything,
        so that all of ``differences`` are real; the same without this hook.
    """


@hookspec(firstresult=True)
def reput_tools_explain(
    comparison: Comparison, differences: Sequence[Difference]
) -> Sequence[Difference] | None:
    """Explain where files differ: the found and expected values, and the messages.

    Called with real differences, after `reput_tools_compare`. Without this hook, bytes are shown,
    in hex, and no messages.

    Args:
        comparison: the compared files.
        differences: differences of the plugin's files.

    Returns:
        As many differences in the same order, with `Difference.found`, `Difference.expected` and
        `Difference.messages` filled in where the plugin knows them.
    """


@hookspec(firstresult=True)
def reput_tools_sizes(root: str, disk: Disk) -> Mapping[str, int | None] | None:
    """Return how large files must be that hold more than what follows from the log.

    A verification reports each of them that is shorter. Without this hook it knows only the sizes
    of files that a rebuild makes.

    Args:
        root: the store's directory.
        disk: file operations.

    Returns:
        Bytes by path below ``root``, of files that exist; None for a JSON document.
    """


@hookspec(firstresult=True)
def reput_tools_wrong_entries() -> Iterable[CorruptFileError] | None:
    """Read all entries of files that hold more than what follows from the log, and compare them.

    A verification opens the store as readers do, and calls this hook of each plugin while nobody
    writes. Names of files count as their contents do: a file in the place of another one is wrong.
    Nothing is changed.

    Returns:
        An error for each file that contradicts itself or its neighbours. None if the plugin has
        no such files.
    """


# --------------------------------------------------------------------------- repairing


@hookspec(firstresult=True)
def reput_tools_hints(root: str, disk: Disk) -> Iterable[RecordHints] | None:
    """Return what the plugin's files say of the log, however damaged both are.

    A repair asks which messages stood where the log is damaged now. Nothing is changed, and what
    cannot be read is left out.

    Args:
        root: the store's directory.
        disk: file operations.
    """
