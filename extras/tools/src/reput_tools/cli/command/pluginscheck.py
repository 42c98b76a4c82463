"""``reput plugins check``: runs the rules for every plugin against an installed one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from reput.installhints import install_command
from reput_tools.cli.kit.completion import complete_installed_plugin
from reput_tools.cli.kit.exitcodes import ExitCode
from reput_tools.cli.kit.failures import Failure
from reput_tools.cli.kit.jsonkeys import json_option
from reput_tools.cli.kit.options import with_debug

if TYPE_CHECKING:
    from reput.plugin import InstalledPlugin
    from reput_tools.cli.plugins.contractcheck import Score

_EXAMPLES = """\b
Examples:
  reput plugins check words
  reput plugins check words --quick
  reput plugins check index --set slots_per_file=20 --set items_per_file=60
"""
_JSON = {
    "plugin": "the plugin",
    "distribution": "the distribution that has it",
    "version": "version of the distribution",
    "passed": "number of rules that passed",
    "failed": "number of rules that failed",
    "skipped": "number of rules that were skipped",
    "rules[].group": "the group of a rule",
    "rules[].rule": "its name",
    "rules[].says": "what it requires",
    "rules[].outcome": "`passed`, `failed` or `skipped`",
    "rules[].seconds": "how long it took",
    "rules[].reason": "why it failed or was skipped; empty if it passed",
}


@click.command(
    short_help="Check an installed plugin by the rules for all plugins.", epilog=_EXAMPLES
)
@click.argument("name", shell_complete=complete_installed_plugin)
@click.option("--quick", is_flag=True, help="Skip power cuts and killed processes.")
@click.option(
    "--set",
    "given",
    multiple=True,
    metavar="OPTION=VALUE",
    help="An option of the plugin for this check, such as small files; may be repeated.",
)
@json_option("one document", _JSON)
@with_debug
def check(name: str, quick: bool, given: tuple[str, ...], as_json: bool) -> None:
    r"""Check that the installed plugin NAME obeys the rules for all plugins.

    The rules repeat messages, move the ends of batches, damage files, cut and trim the log, make
    disks fail, cut the power and kill processes. After each of these, the plugin must have the same
    state and the same files as an undisturbed plugin. The state is the result of the plugin's
    method contract_state. Without this method the command compares only files. A rule requires that
    some message changes the state: a plugin that skips most messages needs a static method
    contract_messages that returns messages on which it acts. The command needs `reput[testing]`.
    The exit code is 1 if the plugin broke a rule.
    """
    from reput_tools.cli.kit.output import print_json
    from reput_tools.cli.kit.progressbar import ProgressBar

    found, options = _installed(name), _options(given)
    check_plugin = _rules()
    with ProgressBar("checking", None, "rules") as progress:
        scores = check_plugin(found, options, quick=quick, progress=progress.update)
    if as_json:
        print_json(_document(found, scores))
    else:
        _print_scores(found, scores)
    if any(score.outcome == "failed" for score in scores):
        raise click.exceptions.Exit(ExitCode.DAMAGED)


def _installed(name: str) -> InstalledPlugin:
    from reput.errors import PluginNotFoundError
    from reput.plugin import installed

    for found in installed():
        if found.name == name:
            found.load()
            return found
    raise PluginNotFoundError(name, "no plugin of this name is installed")


def _rules() -> Any:
    try:
        from reput_tools.cli.plugins.contractcheck import check_plugin
    except ModuleNotFoundError as error:
        text = (
            f"the rules need {error.name}: {install_command('testing')}; if reput is the wheel "
            "reput_all, install it with the extra testing instead"
        )
        raise Failure(text, ExitCode.UNAVAILABLE) from error
    return check_plugin


def _options(given: tuple[str, ...]) -> dict[str, Any]:
    import json

    options: dict[str, Any] = {}
    for each in given:
        option, is_given, text = each.partition("=")
        if not (option and is_given):
            raise click.BadParameter(f"{each!r} is not OPTION=VALUE", param_hint="--set")
        try:
            options[option] = json.loads(text)
        except ValueError:
            options[option] = text
    return options


def _document(found: InstalledPlugin, scores: list[Score]) -> dict[str, Any]:
    import attrs

    return {
        "plugin": found.name,
        "distribution": found.distribution,
        "version": found.version,
        **_counts(scores),
        "rules": [attrs.asdict(score) for score in scores],
    }


def _counts(scores: list[Score]) -> dict[str, int]:
    outcomes = [score.outcome for score in scores]
    return {outcome: outcomes.count(outcome) for outcome in ("passed", "failed", "skipped")}


def _print_scores(found: InstalledPlugin, scores: list[Score]) -> None:
    from reput_tools.cli.kit.output import Column, print_heading, print_table
    from reput_tools.cli.plugins.contractcheck import GROUPS

    print_heading(f"{found.name}  ({found.distribution} {found.version})", space=False)
    rows = []
    for group, about in GROUPS.items():
        own = [score for score in scores if score.group == group]
        counts = _counts(own)
        if own:
            seconds = sum(score.seconds for score in own)
            verdict = "FAILED" if counts["failed"] else "ok" if counts["passed"] else "skipped"
            numbers = [str(counts[each]) for each in ("passed", "failed", "skipped")]
            rows.append([group, verdict, *numbers, f"{seconds:.1f} s", about])
    columns = [Column("RULES"), Column("")]
    columns += [Column(title, right=True) for title in ("PASSED", "FAILED", "SKIPPED", "TIME")]
    print_table([*columns, Column("ABOUT", shrink=True)], rows)
    for score in scores:
        if score.outcome == "failed":
            print_heading(f"{score.group}: {score.rule}")
            click.echo(f"  {score.says}")
            click.echo(f"  {score.reason}")
    click.echo()
    counts = _counts(scores)
    verdict = "breaks rules" if counts["failed"] else "keeps the rules"
    click.echo(
        f"{found.name} {verdict}: {counts['passed']} passed, {counts['failed']} failed, "
        f"{counts['skipped']} skipped"
    )
