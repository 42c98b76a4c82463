"""``reput fill``: gives the files of a store their full size."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import click

from reput_tools.cli.kit.jsonkeys import json_option
from reput_tools.cli.kit.options import path_argument, with_debug

if TYPE_CHECKING:
    from reput import Store
    from reput_tools.offline import Traces

_EXAMPLES = """\b
Examples:
  reput fill STORE
"""
_JSON = {
    "path": "the store's directory",
    "is_changed": "whether its files grew until now",
    "topics[]": "topics that were added to `config/topics.json`, or got more queues there",
    "settings": "lines of `broker.conf` that a broker of this directory needs",
}


@click.command(short_help="Give files that grow their full size, for a broker.", epilog=_EXAMPLES)
@path_argument
@json_option("one document", _JSON)
@with_debug
def fill(path: str, as_json: bool) -> None:
    """Give the files of the store at PATH their full size, as a broker needs them.

    A new store of reput has small files, which grow. A broker refuses a file whose length is not
    the configured one. This command extends the files without taking disk space, and adds the
    store's topics to config/topics.json, because a broker serves no other topics. No plugin runs,
    and nothing is delivered or removed. New files have their full size from then on. The last
    lines of the output are the options that `broker.conf` needs. No other process may have the
    store open for writing.
    """
    import reput
    from reput_tools.cli.kit.brokerconf import full_sizes, settings_of, unqueued_advice
    from reput_tools.cli.kit.escape import escape_text
    from reput_tools.cli.kit.exitcodes import ExitCode
    from reput_tools.cli.kit.failures import Failure, warn
    from reput_tools.cli.kit.output import print_json
    from reput_tools.cli.kit.storeopening import follows_links
    from reput_tools.cli.kit.storeplugins import check_store
    from reput_tools.offline import lock_store
    from reput_tools.offline.closedstore.brokertopics import add_topics, topics_document
    from reput_tools.offline.closedstore.fullsizes import fill as fill_files

    check_store(path)
    with lock_store(path, writes=False, follow_links=follows_links()) as closed:
        _require_closed(closed)  # before the file `lock` is made
    with lock_store(path, follow_links=follows_links()) as closed:
        root = closed.root
        _require_closed(closed)
        with reput.open(root, "r", follow_links=follows_links()) as store:
            broken = [*store.problems, *_unusable(store)]
            if broken:
                text = f"{root}: nothing was changed: {broken[0]}"
                raise Failure(f"{text}; `reput verify` says what to do", ExitCode.DAMAGED)
            sizes, settings = full_sizes(store), settings_of(store)
            queues, default = _queue_counts(store), store.config.default_queue_count
        topics, is_own = topics_document(closed), closed.closed_at is not None
        # A broker that was the last writer knows what it serves.
        added = add_topics(topics, queues, default) if is_own or not topics.exists else []
        grew = fill_files(closed, sizes)
        if closed.unqueued_files:
            warn(f"before a broker opens it: {unqueued_advice(closed)}")
    if as_json:
        print_json({"path": root, "is_changed": grew, "topics": added, "settings": settings})
        return
    click.echo("all files have their full size now" if grew else "all files have their full size")
    if added:
        click.echo(f"added to config/topics.json: {escape_text(', '.join(added))}")
    for line in settings:
        click.echo(line)


def _require_closed(traces: Traces) -> None:
    from reput_tools.cli.kit.exitcodes import ExitCode
    from reput_tools.cli.kit.failures import Failure

    if not traces.was_closed:
        text = f"{traces.root}: nothing was changed: the store was not closed by its last writer"
        step = "a program that opens it for writing and closes it repairs that"
        raise Failure(f"{text}; {step}", ExitCode.DAMAGED)


def _unusable(store: Store) -> list[str]:
    """Return why plugins whose files are to be filled cannot be used."""
    return [
        f"the plugin {state.name!r} cannot be used: {state.last_error}"
        for state in store.plugins()
        if state.name not in store.plugin_objects
    ]


def _queue_counts(store: Store) -> dict[str, int]:
    """Return the highest queue id of each topic, plus 1; without topics that were deleted."""
    from reput.errors import NoReaderError

    deleted: Any = getattr(store.plugin_objects.get("consumer"), "deleted", None)
    counts: dict[str, int] = {}
    with contextlib.suppress(NoReaderError):
        for each in store.queues():
            name, queue_id = each.topic, each.queue_id
            if deleted is None or not deleted.hides(name, queue_id, each.max_queue_offset):
                counts[name] = max(queue_id + 1, counts.get(name, 0))
    return counts
