"""The states and the order of a store's plugins, for people and as JSON."""

from __future__ import annotations

import contextlib
import shlex
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import attrs
import click

from reput.errors import CorruptFileError
from reput_tools.cli.kit.failures import warn
from reput_tools.cli.kit.output import (
    Column,
    format_count,
    format_size,
    print_facts,
    print_heading,
    print_table,
)
from reput_tools.cli.kit.storeopening import look_at
from reput_tools.cli.kit.timestamps import format_timestamp

if TYPE_CHECKING:
    from collections.abc import Container, Iterator, Sequence

    from reput import PluginState, Store
    from reput_tools.offline import Traces

_USUAL_POLICY = "suspend"
_IN_WORDS = {"reading": "idle"}
"""Words for people: "reading" means that no process has the store open for writing."""
_FIELDS = (
    "name",
    "version",
    "state",
    "dispatched_to",
    "lag_size",
    "lag_count",
    "lag_is_exact",
    "policy",
    "batch_count",
    "message_count",
    "mean_batch_ms",
    "max_batch_ms",
    "skipped_count",
    "total_batch_ms",
    "failure_count",
    "last_error",
)


@attrs.frozen
class PlanStep:
    """One plugin's place in the dispatch order."""

    name: str
    runs_after: tuple[str, ...]
    """Active plugins that see each batch before it, by its ``runs_after``."""
    requires: tuple[str, ...]
    """Active plugins that it cannot run without."""
    required_by: tuple[str, ...]
    hooks: tuple[str, ...]
    """Hooks that it implements, without their prefix, in life-cycle order."""


def plan_of(store: Store) -> list[PlanStep]:
    """Return, for each plugin in dispatch order, what it runs after and requires."""
    from reput_tools.cli.plugins.plugindocs import hooks_of  # imports pluggy

    active = store.plugin_objects
    return [
        PlanStep(
            name,
            tuple(sorted(set(plugin.runs_after) & active.keys())),
            tuple(sorted(plugin.requires)),
            tuple(sorted(key for key, other in active.items() if name in other.requires)),
            tuple(hook.removeprefix("reput_") for hook in hooks_of(type(plugin))),
        )
        for name, plugin in active.items()
    ]


def states_of(store: Store) -> list[PluginState]:
    """Return the plugins' states; for a read-only store, those in the process that writes it.

    A plugin that is not installed here, such as one that a program gave as an object, has the
    state that the last writer recorded.
    """
    from reput.storefiles import READING, Phase

    states = store.plugins()
    if store.writable:
        return states
    found = look_at(store.root)
    with contextlib.suppress(CorruptFileError, OSError):  # opening has reported them
        states += _recorded(store, found, {state.name for state in states})
    if not found.is_open:
        return states
    return [
        attrs.evolve(state, state=Phase.RUNNING) if state.state == READING else state
        for state in states
    ]


def _recorded(store: Store, found: Traces, known: Container[str]) -> Iterator[PluginState]:
    """Yield the states of plugins that the store uses, and that are not ``known``."""
    from reput import PluginState
    from reput.storefiles import READING, Phase

    manifest = found.manifest
    for name in () if manifest is None else manifest.plugins:
        if name in known:
            continue
        record = found.records.load(name)
        noted = found.dispatched_to(name)
        reached = record.dispatched_to if noted is None else noted
        yield PluginState(
            name=name,
            version="",
            state=READING if record.state == Phase.RUNNING else record.state,
            dispatched_to=reached,
            lag_size=max(store.log.max_physical_offset - reached, 0),
            last_error=record.last_error,
            **record.figures(),
        )


# --------------------------------------------------------------------------- for programs


def plugin_documents(store: Store, states: Sequence[PluginState]) -> list[dict[str, Any]]:
    """Return the active plugins for ``--json``."""
    facts = plugin_facts(store)
    return [
        {name: getattr(state, name) for name in _FIELDS} | {"facts": facts.get(state.name, {})}
        for state in states
    ]


def plugin_facts(store: Store) -> dict[str, dict[str, Any]]:
    """Return the plugins' reports (hook ``reput_report``), by name."""
    from reput import PluginState

    reports = store.report()["plugins"]
    known = {field.name for field in attrs.fields(PluginState)}
    return {
        name: {key: value for key, value in report.items() if key not in known}
        for name, report in reports.items()
    }


# --------------------------------------------------------------------------- for people


def print_active(store: Store) -> None:
    """Print a table of a store's plugins, and the report of each."""
    states = states_of(store)
    print_states(store.root, states)
    skipped = {state.name: state.skipped_count for state in states}
    for name, reported in plugin_facts(store).items():
        facts = [*_in_words(reported)]
        if skipped[name]:
            command = f"reput dead-letters {shlex.quote(store.root)} {name}"
            facts.append(("skipped", f"{format_count(skipped[name], 'message')}: {command}"))
        if facts:
            print_heading(name)
            print_facts(facts)


def _in_words(reported: Mapping[str, Any], within: str = "") -> Iterator[tuple[str, str]]:
    """Yield a report's names and values as people read them; mappings one value a line."""
    for key, value in reported.items():
        name = f"{within}{key}"
        if isinstance(value, Mapping) and value:
            yield from _in_words(value, f"{name}.")
        elif isinstance(value, bool):
            yield name, "yes" if value else "no"
        elif isinstance(value, list | tuple | set | frozenset | Mapping):
            yield name, ", ".join(map(_word, value)) or "-"
        elif key.endswith("_timestamp") and isinstance(value, int) and value > 0:
            yield name, f"{format_timestamp(value)} (UTC)"
        else:
            yield name, _word(value)


def _word(value: Any) -> str:
    """Return one value; of a mapping in a list, its names and values."""
    if isinstance(value, Mapping):
        return " ".join(f"{name} {_word(each)}" for name, each in value.items())
    return "-" if value in (None, "") else str(value)


def print_states(root: str, states: Sequence[PluginState]) -> None:
    """Print a table of a store's plugins; their problems, and what to do, go to stderr."""
    columns = [
        Column("PLUGIN"),
        Column("VERSION"),
        Column("STATE"),
        Column("DISPATCHED TO", right=True),
        Column("BEHIND BY", shrink=True),
        Column("BATCH MEAN/MAX", right=True, shrink=True),
    ]
    rows = [
        [
            state.name,
            state.version or "-",
            _IN_WORDS.get(state.state, state.state),
            str(state.dispatched_to),
            _behind(state),
            _per_batch(state),
        ]
        for state in states
    ]
    if any(state.policy != _USUAL_POLICY for state in states):
        columns.append(Column("POLICY"))
        for row, state in zip(rows, states, strict=True):
            row.append(state.policy)
    if any(state.skipped_count for state in states):
        columns.append(Column("DEAD LETTERS", right=True, shrink=True))
        for row, state in zip(rows, states, strict=True):
            row.append(format_count(state.skipped_count) if state.skipped_count else "-")
    print_table(columns, rows)
    for line in _notes(root, states):
        warn(line)


def _behind(state: PluginState) -> str:
    if not state.lag_size:
        return "-"
    if not state.lag_count:
        return format_size(state.lag_size)  # not counted: the plugin is not installed
    about = "" if state.lag_is_exact else "~"
    return f"{format_size(state.lag_size)}, {about}{format_count(state.lag_count, 'message')}"


def _per_batch(state: PluginState) -> str:
    if not state.batch_count:
        return "-"
    return f"{_digits(state.mean_batch_ms)}/{_digits(state.max_batch_ms)} ms"


def _digits(milliseconds: float) -> str:
    return f"{milliseconds:,.{0 if milliseconds >= 100 else 1 if milliseconds >= 1 else 2}f}"


def _notes(root: str, states: Sequence[PluginState]) -> Iterator[str]:
    """Yield what needs the operator's attention, each with the next step."""
    from reput.storefiles import Phase

    place = shlex.quote(root)
    for state in states:
        name, error = state.name, state.last_error
        resume = f"go on with: reput resume {place} {name}"
        if state.state == Phase.SUSPENDED:
            yield f"plugin {name!r} is suspended{f': {error}' if error else ''}; {resume}"
        elif state.state == Phase.HALTED:
            yield f"plugin {name!r} is halted, and all others with it: {error}; {resume}"
        elif state.state == Phase.RETRYING:
            yield f"plugin {name!r} fails and is tried again by itself: {error}"
        elif state.state == Phase.STALLED:
            yield f"plugin {name!r} is stalled, and goes on if its call returns: {error}"
        elif error:
            yield f"plugin {name!r}: {error}"


def print_plan(steps: Sequence[PlanStep]) -> None:
    """Print the order in which plugins get batches, and the reasons for this order."""
    click.echo("Messages go to the plugins in this order:\n")
    width = max(len(step.name) for step in steps)
    for number, step in enumerate(steps, 1):
        click.echo(f"{number:3}. {step.name:{width}}  {_reasons(step)}".rstrip())
    click.echo()
    click.echo(
        '"after": it sees each batch later.  "requires": it also stops while the other one does.\n'
        "Where nothing else decides, the name does."
    )


def _reasons(step: PlanStep) -> str:
    parts = []
    after = [name for name in step.runs_after if name not in step.requires]
    if step.requires:
        parts.append(f"requires {', '.join(step.requires)}")
    if after:
        parts.append(f"after {', '.join(after)}")
    if step.required_by:
        parts.append(f"required by {', '.join(step.required_by)}")
    return "; ".join(parts) or "tied to none of the others"
