"""``reput plugins``: which plugins are installed, and what those of a store are doing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from reput.cli.failures import warn
from reput.cli.opening import open_to_read
from reput.cli.options import json_option, with_debug
from reput.cli.output import (
    Column,
    format_size,
    print_facts,
    print_heading,
    print_json,
    print_table,
)

if TYPE_CHECKING:
    from reput.pluginset import InstalledPlugin
    from reput.store import Store

__all__ = ["plugin_documents", "plugins", "print_states"]


_EXAMPLES = """\b
Examples:
  reput plugins
  reput plugins STORE
"""


@click.command(short_help="List plugins, installed or of a store.", epilog=_EXAMPLES)
@click.argument("path", type=click.Path(), required=False)
@json_option("one document")
@with_debug
def plugins(path: str | None, as_json: bool) -> None:
    r"""List the installed plugins: what they do, the hooks that they implement, their options.

    With PATH list the plugins of the store there: how far each has seen the log, and what went
    wrong. Installed is not active: a store uses the plugins that it was made with.
    """
    if path is None:
        documents = [_document(found) for found in _installed()]
        if as_json:
            print_json({"installed": documents})
        else:
            _print_installed(documents)
        return
    with open_to_read(path) as store:
        if as_json:
            print_json({"path": store.root, "plugins": plugin_documents(store)})
        else:
            _print_active(store)


# --------------------------------------------------------------------------- installed


def _installed() -> list[InstalledPlugin]:
    from reput.pluginset import installed

    return installed()


def _document(found: InstalledPlugin) -> dict[str, Any]:
    from reput.cli.plugindocs import hooks_of, options_of, summary_of
    from reput.errors import PluginError

    document: dict[str, Any] = {
        "name": found.name,
        "distribution": found.distribution,
        "version": found.version,
        "class": found.value,
        "error": None,
    }
    try:
        kind = found.load()
    except PluginError as error:
        warn(str(error))
        return document | {"error": error.reason}
    return document | {
        "summary": summary_of(kind),
        "default": kind.default,
        "runs_after": sorted(kind.runs_after),
        "requires": sorted(kind.requires),
        "hooks": hooks_of(kind),
        "options": [option._asdict() for option in options_of(kind)],
    }


def _print_installed(documents: list[dict[str, Any]]) -> None:
    if not documents:
        click.echo(
            "No plugin is installed. To read by topic and queue: pip install reput-consumequeue"
        )
        return
    for place, document in enumerate(documents):
        if place:
            click.echo()
        _print_one(document)


def _print_one(document: dict[str, Any]) -> None:
    title = f"{document['name']}  ({document['distribution']} {document['version']})"
    print_heading(title, space=False)
    if document["error"] is not None:
        print_facts([("broken", document["error"])])
        return
    facts = [("does", document["summary"])]
    if document["default"]:
        facts.append(("active", "in every new store, unless the store names others"))
    if document["requires"]:
        facts.append(("requires", ", ".join(document["requires"])))
    if document["runs_after"]:
        facts.append(("runs after", ", ".join(document["runs_after"])))
    facts.append(("hooks", ", ".join(name.removeprefix("reput_") for name in document["hooks"])))
    print_facts(facts)
    if document["options"]:
        click.echo()
        columns = [Column("OPTION"), Column("DEFAULT"), Column("MEANS", shrink=True)]
        rows = [
            (option["name"], repr(option["default"]), option["description"])
            for option in document["options"]
        ]
        print_table(columns, rows)


# --------------------------------------------------------------------------- of a store


def plugin_documents(store: Store) -> list[dict[str, Any]]:
    """The active plugins for ``--json``."""
    facts = plugin_facts(store)
    return [
        {
            "name": state.name,
            "version": state.version,
            "state": state.state,
            "dispatched_to": state.dispatched_to,
            "lag_size": state.lag_size,
            "last_error": state.last_error,
            "facts": facts.get(state.name, {}),
        }
        for state in store.plugins()
    ]


def plugin_facts(store: Store) -> dict[str, dict[str, Any]]:
    """What plugins report of themselves (hook ``reput_report``), by name."""
    import attrs

    from reput.reputloop import PluginState

    reports = store.report()["plugins"]
    known = {field.name for field in attrs.fields(PluginState)}
    return {
        name: {key: value for key, value in report.items() if key not in known}
        for name, report in reports.items()
    }


def _print_active(store: Store) -> None:
    if not store.plugins():
        click.echo(f"The store at {store.root} uses no plugins.")
        return
    print_states(store)
    for name, facts in plugin_facts(store).items():
        if facts:
            print_heading(name)
            print_facts((key, str(value)) for key, value in facts.items())


def print_states(store: Store) -> None:
    """Table of a store's plugins; their errors go to stderr."""
    states = store.plugins()
    columns = [
        Column("PLUGIN"),
        Column("VERSION"),
        Column("STATE"),
        Column("DISPATCHED TO", right=True),
        Column("BEHIND BY", right=True),
    ]
    rows = [
        (
            state.name,
            state.version,
            state.state,
            str(state.dispatched_to),
            format_size(state.lag_size) if state.lag_size else "-",
        )
        for state in states
    ]
    print_table(columns, rows)
    for state in states:
        if state.last_error:
            warn(f"plugin {state.name!r}: {state.last_error}")
