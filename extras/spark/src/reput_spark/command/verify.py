"""``reput spark verify``: check every record."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from reput_spark.command.engines import progress_of, spark_at
from reput_spark.command.options import master_option, paths_argument, split_size_option
from reput_tools.cli.kit import ExitCode, json_option, with_debug

if TYPE_CHECKING:
    from reput_spark.jobs.verify import Verified
    from reput_tools.offline import Rebuilt


@click.command(short_help="Check every record, and the files derived from them.")
@paths_argument
@click.option(
    "--derived",
    is_flag=True,
    help="If all records are valid, also compare the files derived from them: queues, index, …",
)
@split_size_option
@master_option
@json_option("one document at the end")
@with_debug
def verify(
    paths: tuple[str, ...], derived: bool, split_size: int | None, master: str, as_json: bool
) -> None:
    """Read every record of the logs at PATH: structure, own offset, checksum.

    With --derived the command rebuilds the plugins' files in another place and compares them.
    `reput verify` reports more about one store, without Spark.
    """
    from reput_spark.jobs.rebuild import rebuild
    from reput_spark.jobs.verify import verify as run
    from reput_tools.cli.kit import check_store
    from reput_tools.offline import SPLIT_SIZE

    stores = [check_store(path) for path in paths] if derived else []
    size = split_size or SPLIT_SIZE
    compared: dict[str, list[Rebuilt]] = {}
    with spark_at(master) as spark:
        with progress_of("verifying") as progress:
            found = run(spark, paths, progress=progress.update)
            seconds = progress.seconds
        for store in stores if not found.damages else []:
            with progress_of("comparing") as progress:
                told = progress.update
                compared[store] = rebuild(spark, store, split_size=size, progress=told, check=True)
    _print(found, compared, seconds, as_json=as_json)
    if found.damages or any(each.differences for built in compared.values() for each in built):
        raise click.exceptions.Exit(ExitCode.DAMAGED)


def _no_damage(found: Verified) -> str:
    return "every checksum matches" if found.message_count else "no message could be checked"


def _print(
    found: Verified, compared: dict[str, list[Rebuilt]], seconds: float, *, as_json: bool
) -> None:
    import attrs

    from reput_tools.cli.kit import (
        Column,
        format_count,
        format_size,
        print_built,
        print_json,
        print_table,
    )

    if as_json:
        document = attrs.asdict(found)
        document["damages"] = [{**attrs.asdict(each), "size": each.size} for each in found.damages]
        stores = [
            {"store": store, "plugins": [attrs.asdict(each) for each in built]}
            for store, built in compared.items()
        ]
        print_json({**document, "seconds": seconds, "derived": stores})
        return
    rate = format_size(round(found.size / max(seconds, 1e-9)))
    click.echo(
        f"{format_count(found.message_count, 'message')}, {format_size(found.size)}, {rate}/s: "
        + (format_count(len(found.damages), "damage") if found.damages else _no_damage(found))
    )
    if found.damages:
        rows = [
            [
                each.file,
                str(each.position),
                str(each.physical_offset),
                f"{each.size:,}",
                each.detail,
            ]
            for each in found.damages
        ]
        heads = [Column("file"), Column("position", right=True), Column("offset", right=True)]
        heads += [Column("bytes", right=True), Column("damage", shrink=True)]
        print_table(heads, rows)
    for store, built in compared.items():
        print_built(store, built)
