"""``reput diff``: where two stores differ."""

from __future__ import annotations

import click

from reput_tools.cli.kit import (
    CheckedPath,
    ExitCode,
    ProgressBar,
    follow_links_option,
    follows_links,
    json_option,
    print_json,
    warn,
    with_debug,
)

__all__ = ["diff"]

_EXAMPLES = """\b
Examples:
  reput diff STORE COPY
  reput diff STORE COPY --ignore store_timestamp --ignore store_host
  reput diff STORE COPY --json | jq '.missing[] | select(.side == "a")'
"""


@click.command(short_help="Show where two stores differ.", epilog=_EXAMPLES)
@follow_links_option
@click.argument("path_a", metavar="A", type=CheckedPath(readable=False))
@click.argument("path_b", metavar="B", type=CheckedPath(readable=False))
@click.option(
    "--physical",
    is_flag=True,
    help="Also report messages that have another physical offset.",
)
@click.option(
    "--ignore",
    "ignored",
    metavar="FIELD",
    multiple=True,
    help="A field of messages that may differ: store_timestamp, store_host, properties, …",
)
@json_option("one document")
@with_debug
def diff(path_a: str, path_b: str, physical: bool, ignored: tuple[str, ...], as_json: bool) -> None:
    r"""Show where the stores at A and B differ.

    The command compares messages (matched by topic, queue and queue offset), ranges of queues,
    offsets of consumers, options, and derived files. It reads both logs once, in bounded memory. It
    needs no plugin and changes nothing. The exit code is 0 if the stores are equal, and 1 if they
    differ.
    """
    from reput_tools.doctor.comparison.stores import compare_stores

    with ProgressBar("comparing", None, "bytes") as progress:
        try:
            found = compare_stores(
                path_a,
                path_b,
                physical=physical,
                ignored=ignored,
                follow_links=follows_links(),
                progress=progress.update,
            )
        except ValueError as error:
            raise click.BadParameter(str(error), param_hint="--ignore") from None
    for side in (found.a, found.b):
        for problem in side.problems:
            warn(problem)
    if as_json:
        print_json(found.as_json())
    else:
        from reput_tools.doctor.comparison.diffprint import print_diff

        print_diff(found)
    if not found.is_equal:
        raise click.exceptions.Exit(ExitCode.DAMAGED)
