"""``reput compact``: compact a store's topics now."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import click

from reput_tools.cli.kit import ExitCode, jobs_option, json_option, path_argument, with_debug

if TYPE_CHECKING:
    from reput_tools.offline import Engine

_EXAMPLES = """\b
Examples:
  reput compact STORE
  reput compact STORE prices --json
  reput compact STORE --jobs 4
"""

_WORTH_PROCESSES = 1 << 30  # bytes; below that, starting processes takes longer than the work
_JSON = {
    "queues[].topic": "topic of a queue that had messages to drop",
    "queues[].queue_id": "the queue",
    "queues[].messages_before": "messages before",
    "queues[].messages_after": "messages after",
    "queues[].size_before": "bytes of records before",
    "queues[].size_after": "bytes of records after",
    "queues[].files_before": "pairs of files before",
    "queues[].files_after": "pairs of files after",
}


@click.command(short_help="Compact topics now.", epilog=_EXAMPLES)
@path_argument
@click.argument("topic", required=False)
@jobs_option("the number of processors, or 1 for small topics")
@json_option("one document at the end", _JSON)
@with_debug
def compact(path: str, topic: str | None, jobs: int | None, as_json: bool) -> None:
    """Keep only the latest message of each key in the compacted topics at PATH.

    Without TOPIC it compacts all of them. It first closes the files that are being written, so that
    it also compacts the newest messages. Another process must not have the store open for writing.
    If the store does not use the plugin compaction, the command ends with code 3.
    """
    from reput_compaction.plugin import CompactionPlugin
    from reput_compaction.resulttable import print_compacted
    from reput_tools.cli.kit import Failure, ProgressBar, check_store, check_used, open_to_write

    check_used(check_store(path), "compaction")
    with open_to_write(path) as store:
        plugin = store.plugin(CompactionPlugin)  # first: it may not have been opened
        with ProgressBar("dispatching", None, "bytes") as bar:
            store.wait_dispatched(progress=bar.update)
        if jobs is None and plugin.kept_size < _WORTH_PROCESSES:
            jobs = 1
        with ProgressBar("compacting", None, "bytes") as bar, _engine(jobs) as engine:
            try:
                results = plugin.compact(topic, progress=bar.update, engine=engine)
            except ValueError as error:
                raise Failure(str(error), ExitCode.NOT_FOUND) from None
    print_compacted(results, as_json=as_json)


def _engine(jobs: int | None) -> contextlib.AbstractContextManager[Engine | None]:
    from reput_tools.offline import LocalEngine

    engine = LocalEngine(jobs)
    return contextlib.nullcontext() if engine.is_here else engine
