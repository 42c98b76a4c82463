"""``reput diff``: where two stores differ."""

from __future__ import annotations

import click

from reput_tools.cli.kit import (
    CheckedPath,
    ExitCode,
    ProgressBar,
    below,
    follow_links_option,
    follows_links,
    json_option,
    print_json,
    warn,
    with_debug,
)

_EXAMPLES = """\b
Examples:
  reput diff STORE COPY
  reput diff STORE COPY --ignore store_timestamp --ignore store_host
  reput diff STORE COPY --json | jq '.missing[] | select(.side == "a")'
"""
_SIDE = {
    "path": "the store's directory",
    "message_count": "its messages",
    "log_start": "where its log begins",
    "log_end": "where it ended when reading began",
    "is_open": "whether a process had the store open",
    "damaged[]": "physical offset and reason of each damage",
    "damage_count": "number of damages",
    "problems[]": "a text for each part of the store that cannot be used",
}
_JSON = {
    "equal": "whether nothing differs",
    **below("a", _SIDE),
    **below("b", _SIDE),
    "equal_count": "messages that are the same in both stores",
    "only_in_a": "messages that only A has",
    "only_in_b": "messages that only B has",
    "changed_count": "messages that differ",
    "fields": "an object with the number of changed messages, by the field that differs",
    "moved_count": "messages that are the same, and have another physical offset",
    "missing[]": "runs of messages that one store has: `side` (`a` or `b`), `topic`, `queue_id`, "
    "`first` and `last` (queue offsets), `count`, `in_queue`, `physical_offset`; each list ends "
    "after 1,000",
    "changed[]": "messages that differ: `topic`, `queue_id`, `queue_offset`, `fields`, "
    "`properties`, `physical_offset_a`, `physical_offset_b`",
    "queues[]": "queues with other ranges: `topic`, `queue_id`, and the ranges `a` and `b`",
    "values[]": "offsets and other values in `config/`: `file`, `name`, `a`, `b`",
    "settings[]": "options: `file`, `name`, `a`, `b`",
    "files[]": "derived files: `file`, `position`, `reason`",
    "files_compared[]": "directories of derived files that were compared",
    "not_compared[]": "parts that were not compared, and why",
    "seconds": "how long it took",
}


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
@json_option("one document", _JSON)
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
