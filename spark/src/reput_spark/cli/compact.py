"""``reput spark compact``: keep the latest message of every key."""

from __future__ import annotations

import click

from reput_cli.kit import ExitCode, follow_links_option, json_option, with_debug
from reput_spark.cli.engines import engine_of, progress_of
from reput_spark.cli.options import engine_options

__all__ = ["compact"]


@click.command(short_help="Keep the latest message of every key.")
@click.argument("path")
@follow_links_option
@click.argument("topics", nargs=-1, metavar="[TOPIC]...")
@engine_options
@json_option("one document at the end")
@with_debug
def compact(
    path: str,
    topics: tuple[str, ...],
    master: str,
    jobs: int | None,
    split_size: int | None,
    as_json: bool,
) -> None:
    """Compact each TOPIC of the store at PATH, or all that are compacted, as `reput compact`."""
    from reput.errors import ReputError
    from reput_cli.kit import Failure, check_store, check_used, follows_links
    from reput_spark.jobs.compact import compact_with

    root = check_store(path)
    check_used(root, "compaction")
    with engine_of(master, jobs) as engine, progress_of("compacting") as progress:
        try:
            done = compact_with(
                engine,
                root,
                topics or None,
                split_size=split_size,
                progress=progress.update,
                follow_links=follows_links(),
            )
        except ValueError as error:
            if isinstance(error, ReputError):  # of the store's configuration
                raise
            raise Failure(str(error), ExitCode.NOT_FOUND) from None
    from reput_compaction.printing import print_compacted  # it is there, as the store uses it

    print_compacted(done, as_json=as_json)
