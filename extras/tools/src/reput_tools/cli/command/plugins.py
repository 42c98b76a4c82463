"""``reput plugins``: which plugins are installed, and what those of a store are doing."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any

import click

from reput.installhints import install_command
from reput_tools.cli.kit.completion import complete_plugin
from reput_tools.cli.kit.confirmation import confirm
from reput_tools.cli.kit.failures import warn
from reput_tools.cli.kit.jsonkeys import STORE_KEYS, below, json_option
from reput_tools.cli.kit.options import (
    STORE_PATH,
    follow_links_option,
    not_empty,
    with_debug,
)
from reput_tools.cli.kit.output import (
    Column,
    format_size,
    print_facts,
    print_heading,
    print_json,
    print_table,
)
from reput_tools.cli.kit.storeopening import open_to_read
from reput_tools.cli.plugins.pluginkeys import (
    ENGINE_KEYS,
    INSTALLED_KEYS,
    PLAN_KEYS,
    REMOVED_KEYS,
    STATE_KEYS,
)

if TYPE_CHECKING:
    from reput.plugin import InstalledPlugin


_EXAMPLES = """\b
Examples:
  reput plugins
  reput plugins STORE
  reput plugins STORE --plan
  reput plugins STORE --remove index
  reput plugins new words
  reput plugins check words
  reput plugins query STORE counter "SELECT * FROM counter"
"""


class PluginsCommand(click.Command):
    """The list of plugins, and the commands ``new``, ``check`` and ``query``."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of the commands, as a group does."""
        return [*_BELOW]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command:
        """Return one of the commands."""
        return _command_below(cmd_name)

    def make_context(
        self,
        info_name: str | None,
        args: list[str],
        parent: click.Context | None = None,
        **extra: Any,
    ) -> click.Context:
        """Read the command line of the list, or of the command that its first word names."""
        if args and args[0] in _BELOW:
            command = _command_below(args[0])
            return command.make_context(f"{info_name} {args[0]}", args[1:], parent, **extra)
        return super().make_context(info_name, args, parent, **extra)


_BELOW = ("new", "check", "query")


def _command_below(name: str) -> click.Command:
    from reput_tools.cli.command.pluginscheck import check
    from reput_tools.cli.command.pluginsnew import new
    from reput_tools.cli.command.pluginsquery import query

    return {"new": new, "check": check, "query": query}[name]


@click.command(
    cls=PluginsCommand,
    short_help="List the installed plugins, or the plugins of a store.",
    epilog=_EXAMPLES,
)
@click.argument("path", type=STORE_PATH, required=False)
@follow_links_option
@click.option(
    "--plan", is_flag=True, help="Show the order in which a store's plugins get messages."
)
@click.option(
    "--remove",
    "removed",
    metavar="PLUGIN",
    callback=not_empty,
    shell_complete=complete_plugin,
    help="Stop using a plugin in this store; its files stay.",
)
@click.option("-y", "--yes", is_flag=True, help="With --remove: do not ask.")
@json_option(
    "one document",
    forms={
        "Without PATH": ENGINE_KEYS | below("installed[]", INSTALLED_KEYS),
        "With PATH": {
            **STORE_KEYS,
            **ENGINE_KEYS,
            **below("plugins[]", STATE_KEYS),
            **below("plan[]", PLAN_KEYS),
        },
        "With `--remove`": REMOVED_KEYS,
    },
)
@with_debug
def plugins(path: str | None, plan: bool, removed: str | None, yes: bool, as_json: bool) -> None:
    r"""List the installed plugins: what they do, the hooks that they implement, their options.

    With PATH the command lists the plugins of that store with their progress in the log, their
    speed and their errors. Another process may have the store open. A store does not use every
    installed plugin. It uses the plugins that it was created with, and plugins added later.

    A plugin is `running`, `idle` (no process has the store open for writing), `retrying` after a
    failure, `stalled` in a call that does not return, `waiting` for a plugin that it requires,
    `suspended` because it failed or a user suspended it, or `halted`: it failed, and its policy
    stops all dispatching. `reput resume` continues the last two. BEHIND BY is the part of the log
    that it has not seen; with `~`, messages are estimated. BATCH is the time for a batch since the
    store was opened.

    With --remove the store stops using a plugin, and the command removes the plugin's options and
    progress. The plugin need not be installed any more. Its files stay, and the output shows how to
    delete them. If you add the plugin later, it derives everything from the log again. The command
    asks first; if nobody can answer, as in a script, it needs --yes. Another process must not have
    the store open for writing, and no other plugin may require this one.

    `reput plugins query PATH PLUGIN SQL` queries a plugin that keeps a table. For authors: `reput
    plugins new NAME` creates the folder of a new plugin, and `reput plugins check NAME` checks an
    installed plugin; see their --help. If the directory of a store is named new, check or query,
    write ./new, ./check or ./query.
    """
    from reput_tools.cli.kit.enginefacts import engine_document, engine_line

    if path is None:
        if plan:
            raise click.UsageError("--plan shows the order of one store's plugins: give PATH, too")
        if removed is not None:
            raise click.UsageError("--remove takes a plugin out of one store: give PATH, too")
    if yes and removed is None:
        raise click.UsageError("--yes answers what --remove asks: give that, too")
    if path is not None and removed is not None:
        if plan:
            raise click.UsageError("--plan shows the order, and --remove changes it: give one")
        _remove(path, removed, yes=yes, as_json=as_json)
        return
    if path is None:
        engine = engine_document()  # first: a mistake about it would be every plugin's
        documents = [_document(found) for found in _installed()]
        if as_json:
            print_json({"engine": engine, "installed": documents})
        else:
            _print_installed(documents)
            click.echo()
            print_facts([engine_line()])
        return
    _show_store(path, plan=plan, as_json=as_json)


def _remove(path: str, plugin: str, *, yes: bool, as_json: bool) -> None:
    from reput_tools.cli.plugins.removal import found_to_remove, remove

    found = found_to_remove(path, plugin)
    if not yes:
        confirm(f"Have the store at {found.root} no longer use {plugin!r}?")
    remove(found)
    if as_json:
        print_json(found.document())
        return
    click.echo(f"{plugin}: the store does not use it any more")
    facts = [
        ("stays", f"{name} ({format_size(size)})") for name, size in sorted(found.sizes.items())
    ]
    if found.how_to_delete:
        facts.append(("delete it with", found.how_to_delete))
    else:
        facts.append(("stays", "whatever it has written under another name than its own"))
    if found.options:
        options = ", ".join(f"{name} = {value!r}" for name, value in sorted(found.options.items()))
        facts.append(("options forgotten", options))
    again = f"reput backfill {shlex.quote(found.root)} {plugin}"
    facts.append(("add it again", f"{again}, which derives its files from the log again"))
    print_facts(facts)


def _show_store(path: str, *, plan: bool, as_json: bool) -> None:
    import attrs

    from reput_tools.cli.kit.enginefacts import engine_document, engine_line
    from reput_tools.cli.plugins import pluginstateoutput as pluginstateoutput

    with open_to_read(path) as store:
        if as_json:
            documents = pluginstateoutput.plugin_documents(
                store, pluginstateoutput.states_of(store)
            )
            steps = [attrs.asdict(step) for step in pluginstateoutput.plan_of(store)]
            problems = list(store.problems)
            print_json(
                {
                    "path": store.root,
                    "engine": engine_document(),
                    "problems": problems,
                    "plugins": documents,
                    "plan": steps,
                }
            )
        elif not pluginstateoutput.states_of(store):
            click.echo(f"The store at {store.root} uses no plugins.")
        elif plan:
            pluginstateoutput.print_plan(pluginstateoutput.plan_of(store))
        else:
            pluginstateoutput.print_active(store)
            click.echo()
            print_facts([engine_line()])


# --------------------------------------------------------------------------- installed


def _installed() -> list[InstalledPlugin]:
    from reput.plugin import installed

    return installed()


def _document(found: InstalledPlugin) -> dict[str, Any]:
    from reput.errors import PluginError
    from reput_tools.cli.plugins.plugindocs import hooks_of, options_of, summary_of

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
        "default": found.is_default,
        "runs_after": sorted(kind.runs_after),
        "requires": sorted(kind.requires),
        "hooks": hooks_of(kind),
        "options": [option.plain()._asdict() for option in options_of(kind.config_type)],
    }


def _print_installed(documents: list[dict[str, Any]]) -> None:
    if not documents:
        command = install_command("consumequeue")
        click.echo(f"No plugin is installed. To read by topic and queue: {command}")
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
        titles = ["DEFAULT", "VALUES", "MEANS"]
        columns = [Column("OPTION"), *(Column(title, shrink=True) for title in titles)]
        rows = [
            (
                option["name"],
                repr(option["default"]),
                option["values"],
                f"{option['description']} {option['when']}".strip(),
            )
            for option in document["options"]
        ]
        print_table(columns, rows)
