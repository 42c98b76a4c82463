"""``reput info``: what a store holds and how it is."""

from __future__ import annotations

import gc
import shlex
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from reput_tools.cli.kit.completion import complete_topic
from reput_tools.cli.kit.exitcodes import ExitCode
from reput_tools.cli.kit.failures import no_reader, warn
from reput_tools.cli.kit.jsonkeys import STORE_KEYS, below, json_option
from reput_tools.cli.kit.options import path_argument, with_debug
from reput_tools.cli.kit.output import (
    format_count,
    format_size,
    print_facts,
    print_heading,
    print_json,
)
from reput_tools.cli.kit.progressbar import ProgressBar
from reput_tools.cli.kit.storeopening import follows_links, look_at, open_to_read
from reput_tools.cli.kit.timestamps import format_timestamp
from reput_tools.cli.messages.lossoutput import damage_document, print_damages
from reput_tools.cli.messages.messagekeys import DAMAGE_KEYS, TOPIC_KEYS
from reput_tools.cli.messages.queuereader import choose_queues
from reput_tools.cli.messages.statefileoutput import (
    STATE_FILE_KEYS,
    print_state_file,
    state_file_document,
)
from reput_tools.cli.messages.topicfacts import TopicFacts, print_topics, topic_document, topics_of
from reput_tools.cli.plugins.pluginkeys import ENGINE_KEYS, STATE_KEYS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from reput import PluginState, Store
    from reput.log import Damage
    from reput.plugin import QueueInfo
    from reput_tools.offline import Traces

_WORTH_A_LINE = 64 << 10  # smaller parts are not worth a line
_WRITERS = {
    "reput": "reput",
    "rocketmq": "Apache RocketMQ",
    "rocketmq 5": "Apache RocketMQ 5 (by its files)",
    "rocketmq 5.4": "Apache RocketMQ 5.4 or later (by its files)",
}


_EXAMPLES = """\b
Examples:
  reput info STORE
  reput info STORE --topic orders --queues
  reput info STORE --state
"""
_JSON = {
    **STORE_KEYS,
    "role": "`primary`, or `replica` for a store that takes a master's bytes",
    "master": "name of a replica's master, or null",
    "written_by": "`reput`, `rocketmq`, `rocketmq 5`, or `rocketmq 5.4`, as far as files show it",
    **ENGINE_KEYS,
    "clean": "whether the last writer has closed the store",
    "abort_file": "whether the file `abort` exists: the store is open, or was not closed",
    "writer_pid": "the process that has the store open for writing, or null",
    "log.min_physical_offset": "where the log begins",
    "log.max_physical_offset": "where it ends",
    "log.size": "bytes between these",
    "log.file_size": "bytes of one file",
    "log.file_count": "number of files",
    "log.grows": "whether the files grow, so that a broker needs `reput fill` first",
    "broker_settings": "lines of `broker.conf` that a broker of this directory needs",
    "log.unqueued_files": "the number of log files, if the store has no queues and more than ten: "
    "a broker since 5.4 needs `reput backfill STORE consumequeue` first; otherwise 0",
    "log.first_store_timestamp": "store time of the first message, or null",
    "log.last_store_timestamp": "store time of the last message, or null",
    "finding.physical_offset": "place of the first damage; `finding` is null without damage",
    "finding.reason": "the kind of damage, a short name",
    "finding.detail": "the values found and expected, for people",
    **below("damages[]", DAMAGE_KEYS | {"file": "file of the log; `damages` needs `--scan`"}),
    "checkpoint.log_timestamp": "store time up to which the log is on disk; `checkpoint` may be "
    "null",
    "checkpoint.queues_timestamp": "the same of the queues",
    "checkpoint.index_timestamp": "the same of the key index",
    "checkpoint.replica_offset": "RocketMQ's `masterFlushedOffset`",
    "checkpoint.confirm_offset": "RocketMQ's `confirmPhyOffset`",
    "checkpoint.queues_offset": "physical offset of the last record up to which queues are flushed",
    "disk_sizes": "an object with the bytes on disk, by part of the store",
    "losses.count": "ranges of the log that are lost; `reput losses` lists them",
    "losses.size": "their bytes",
    "losses.message_count": "messages that the topics below have lost, also after the log's end; "
    "with `--topic` of that one",
    "retention": "what the plugin of this name reports, such as `is_active`, `due_count` and "
    "`due_size` (files to remove), `held_count`, `held_size` and `holds` (files held back); null "
    "without it",
    **below("state", STATE_FILE_KEYS),
    **below("plugins[]", STATE_KEYS),
    **below("topics[]", TOPIC_KEYS | {"topic": "its name; `topics` is null if no plugin knows it"}),
}


@click.command(short_help="Show what a store holds, and its state.", epilog=_EXAMPLES)
@path_argument
@click.option(
    "-t", "--topic", metavar="TOPIC", shell_complete=complete_topic, help="Show only this topic."
)
@click.option(
    "--queues", "show_queues", is_flag=True, help="Show every queue instead of totals by topic."
)
@click.option(
    "--scan",
    is_flag=True,
    help="Read the whole log, verify every checksum, count what can be read and list all damage.",
)
@click.option(
    "--state",
    "show_state",
    is_flag=True,
    help="Show what `reput/state` says of log and plugins, entry by entry.",
)
@json_option("one document with every queue", _JSON)
@with_debug
def info(
    path: str, topic: str | None, show_queues: bool, scan: bool, show_state: bool, as_json: bool
) -> None:
    r"""Show what the store at PATH holds: log range, log files, topics, queues, plugins.

    The command changes nothing in the store, and another process may write it meanwhile. Without
    --scan it checks only the end of the log. --scan also finds damage in the middle, and needs no
    plugin. The exit code is 1 if the log ends in damage, or if --scan finds damage.
    """
    from reput_tools.cli.plugins.pluginstateoutput import states_of

    gc.set_threshold(200_000)  # importing what opens a store makes half as many objects that stay
    with open_to_read(path) as store:
        queues, damages = _queues(store, scan=scan)
        if topic is not None and queues is not None:
            queues = choose_queues(queues, store.root, topic)
        facts = _Facts(
            store,
            None if queues is None else topics_of(queues),
            look_at(store.root),
            damages,
            states_of(store),
            topic,
        )
        if as_json:
            state = {"state": state_file_document(facts.traces) if show_state else None}
            print_json(_document(facts) | state)
        else:
            _print(facts, show_queues=show_queues)
            if show_state:
                print_heading("State file")
                print_state_file(facts.traces)
    if facts.damages or facts.store.recovery.finding is not None:
        raise click.exceptions.Exit(ExitCode.DAMAGED)


class _Facts(NamedTuple):
    """The facts found in the store."""

    store: Store
    topics: list[TopicFacts] | None
    """None where no plugin can tell."""
    traces: Traces
    damages: list[Damage] | None
    """All damage; None where the log was not read."""
    states: list[PluginState]
    only: str | None
    """The topic that was asked for; None for all."""

    def times(self) -> tuple[int | None, int | None]:
        """Return store times of the first and last message; None where not known."""
        store = self.store
        first = store.log.store_timestamp_at(store.log.min_physical_offset)
        last = max(
            (
                time
                for topic in self.topics or ()
                if (time := topic.last_update_timestamp) is not None
            ),
            default=0,
        )
        last = max(last, store.recovery.last_store_timestamp)
        return (first if first > 0 else None), (last or None)

    def lost_count(self) -> int:
        """Return how many messages the queues have lost, those after the log's end included."""
        from reput.log import GONE

        topics = self.topics or ()
        known = {(each.topic, each.queue_id): each for facts in topics for each in facts.queues}
        count = sum(topic.lost_count for topic in topics)
        for loss in self.store.losses():
            first, end = loss.queue_offset, loss.queue_end_offset
            if loss.reason != GONE or first is None or end is None:
                continue
            if loss.start_offset < self.store.log.min_physical_offset:
                continue  # retention has removed what was there
            if self.only not in (None, loss.topic):
                continue
            count += max(end - first, 0)
            queue = known.get((loss.topic or "", loss.queue_id or 0))
            if queue is not None:
                span = queue.max_queue_offset - queue.min_queue_offset
                inside = min(end, queue.max_queue_offset) - max(first, queue.min_queue_offset)
                # A repaired store does not give these offsets again: the queue counts them, too.
                count -= max(min(inside, span - queue.message_count), 0)
        return count


def _queues(store: Store, *, scan: bool) -> tuple[Sequence[QueueInfo] | None, list[Damage] | None]:
    """Return queues, and the damage that a scan found; no queues if no plugin keeps any."""
    if scan:
        from reput_tools.cli.messages.topiccensus import census

        with ProgressBar("reading the log", None, "bytes") as progress:
            found = census(store, progress.update)
        return found.queues, found.damages
    from reput.errors import NoReaderError

    log = store.log
    try:
        queues = store.queues()
        if store.losses():
            from reput_tools.cli.messages.topiccensus import queues_counted

            queues = queues_counted(store, queues)
        if not queues and log.max_physical_offset > log.min_physical_offset:
            warn(_empty_queues(store))
        return queues, None
    except NoReaderError as error:
        text = no_reader(error, store.root)
        warn(f"topics are not shown: {text}; --scan counts them by reading the whole log")
        return None, None


def _empty_queues(store: Store) -> str:
    """Say how the messages of a log without queues can be seen."""
    from reput.files import Disk
    from reput.storefiles import find_broker_files

    text = "no queue holds anything yet, though the log does; "
    disk = Disk().at(store.root, follow_links=follows_links())
    try:
        found = find_broker_files(store.root, disk, disk.list_names(store.root))
        is_refused = any(each.why_refused(store.root, disk) for each in found)
    finally:
        disk.release()
    if is_refused:
        return f"{text}--scan counts by reading the whole log (opening for writing is refused)"
    return f"{text}opening the store for writing fills them, --scan counts without"


# --------------------------------------------------------------------------- for programs


def _document(facts: _Facts) -> dict[str, Any]:
    from reput_tools.cli.kit.brokerconf import settings_of
    from reput_tools.cli.kit.enginefacts import engine_document
    from reput_tools.cli.messages.lossoutput import lost_size
    from reput_tools.cli.plugins.pluginstateoutput import plugin_documents

    store, traces = facts.store, facts.traces
    log = store.log
    first, last = facts.times()
    return {
        "path": store.root,
        "role": store.role,
        "master": store.master,
        "written_by": traces.written_by,
        "engine": engine_document(),
        "problems": list(store.problems),
        "clean": store.clean,
        "abort_file": traces.has_abort,
        "writer_pid": traces.writer_pid,
        "log": {
            "min_physical_offset": log.min_physical_offset,
            "max_physical_offset": log.max_physical_offset,
            "size": log.max_physical_offset - log.min_physical_offset,
            "file_size": log.file_size,
            "file_count": log.file_count,
            "grows": store.config.grows,
            "unqueued_files": traces.unqueued_files,
            "first_store_timestamp": first,
            "last_store_timestamp": last,
        },
        "broker_settings": settings_of(store),
        "finding": _finding_document(facts),
        "damages": None
        if facts.damages is None
        else [damage_document(log, damage) for damage in facts.damages],
        "checkpoint": _checkpoint_document(traces),
        "disk_sizes": traces.sizes(),
        "losses": {
            "count": len(store.losses()),
            "size": lost_size(store.losses()),
            "message_count": facts.lost_count(),
        },
        "retention": _retention_document(store),
        "plugins": plugin_documents(store, facts.states),
        "topics": None if facts.topics is None else list(map(topic_document, facts.topics)),
    }


def _checkpoint_document(traces: Traces) -> dict[str, Any] | None:
    found = traces.checkpoint
    if found is None:
        return None
    return {
        "log_timestamp": found.log_timestamp,
        "queues_timestamp": found.queues_timestamp,
        "index_timestamp": found.index_timestamp,
        "replica_offset": found.replica_offset,
        "confirm_offset": found.confirm_offset,
        "queues_offset": found.queues_offset,
    }


def _finding_document(facts: _Facts) -> dict[str, Any] | None:
    """Return the first known damage."""
    finding = facts.store.recovery.finding
    if facts.damages:
        first = facts.damages[0]
        place, reason, detail = first.start_offset, first.reason, first.detail
    elif finding is not None:
        place, reason, detail = finding.physical_offset, finding.reason.name, finding.detail
    else:
        return None
    return {"physical_offset": place, "reason": reason, "detail": detail}


# --------------------------------------------------------------------------- for people


def _print(facts: _Facts, *, show_queues: bool) -> None:
    from reput_tools.cli.plugins.pluginstateoutput import print_states

    print_heading(f"Store {facts.store.root}", space=False)
    print_facts(_lines(facts))
    if facts.states:
        print_heading("Plugins")
        print_states(facts.store.root, facts.states)
    if facts.damages:
        print_heading("Damage")
        print_damages(facts.store.log, facts.damages)
    if facts.store.recovery.finding is not None:
        warn(_what_comes(facts.store))
    if facts.topics is not None:
        print_heading("Queues" if show_queues else "Topics")
        print_topics(facts.topics, show_queues=show_queues)


def _what_comes(store: Store) -> str:
    return (
        "the next opening for writing cuts the log before the damage; what it cuts is kept in "
        f"{store.root}/reput/lost+found"
    )


def _lines(facts: _Facts) -> Iterator[tuple[str, str]]:
    from reput_tools.cli.kit.brokerconf import settings_of, unqueued_advice
    from reput_tools.cli.kit.enginefacts import engine_line

    log, traces = facts.store.log, facts.traces
    size = format_size(log.max_physical_offset - log.min_physical_offset)
    first, last = map(format_timestamp, facts.times())
    files = format_count(log.file_count, "file")
    if facts.store.master is not None:
        yield "role", f"replica of {facts.store.master}: takes no puts until it is promoted"
    yield "log", f"physical offsets {log.min_physical_offset} to {log.max_physical_offset}, {size}"
    up_to = " at most" if facts.store.config.grows else ""
    yield "log files", f"{files} of {format_size(log.file_size)}{up_to}"
    if facts.topics is not None:
        count = sum(topic.message_count for topic in facts.topics)
        queues = format_count(sum(len(topic.queues) for topic in facts.topics), "queue")
        topics = format_count(len(facts.topics), "topic") if facts.only is None else facts.only
        lost = facts.lost_count()
        lacks = f" ({format_count(lost)} lost)" if lost else ""
        yield "messages", f"{format_count(count)}{lacks} in {topics}, {queues}"
    yield "stored", f"{first} to {last} (UTC)"
    yield "written by", _WRITERS[str(traces.written_by)]
    yield "closed", _closed(facts.store.clean, traces)
    yield "damage", _damage(facts)
    yield from _losses(facts)
    yield from _retention(facts.store)
    checkpoint = traces.checkpoint
    if checkpoint is not None:
        yield "checkpoint", f"log flushed to {format_timestamp(checkpoint.log_timestamp)}"
    for name, part in sorted(traces.sizes().items(), key=lambda part: -part[1]):
        if part >= _WORTH_A_LINE:
            yield f"{name}/", format_size(part)
    for line in settings_of(facts.store):
        yield "broker.conf", line
    if facts.store.config.grows:
        yield "for a broker", f"reput fill {shlex.quote(facts.store.root)}"
    if traces.unqueued_files:
        yield "for a broker", unqueued_advice(traces)
    yield engine_line()


def _damage(facts: _Facts) -> str:
    finding = facts.store.recovery.finding
    if facts.damages:
        places = format_count(len(facts.damages), "place")
        size = format_size(sum(damage.size for damage in facts.damages))
        return f"{size} in {places}, listed below"
    if facts.damages is not None:
        return "none that a checksum shows, in all of the log"
    where = "none at the log's end" if finding is None else str(finding)
    return f"{where}; --scan looks at all of it"


def _losses(facts: _Facts) -> Iterator[tuple[str, str]]:
    """Yield what was lost or skipped, if anything was, and the command that lists it."""
    from reput_tools.cli.messages.lossoutput import lost_size

    root = shlex.quote(facts.store.root)
    losses = facts.store.losses()
    if losses:
        size = format_size(lost_size(losses))
        count = format_count(len(losses), "range")
        yield "lost", f"{size} in {count}, listed by: reput losses {root}"
    for state in facts.states:
        if state.skipped_count:
            count = format_count(state.skipped_count, "message")
            command = f"reput dead-letters {root} {state.name}"
            yield "dead letters", f"{count} that {state.name} skipped, listed by: {command}"


def _retention_document(store: Store) -> dict[str, Any] | None:
    """Return what the plugin of that name reports; None without it."""
    found: dict[str, Any] | None = store.report()["plugins"].get("retention")
    return found


def _retention(store: Store) -> Iterator[tuple[str, str]]:
    """Yield what the configuration would remove, and what a plugin holds back."""
    from reput_tools.cli.kit.pluginreport import report_of

    facts = report_of(store, "retention")
    if not facts.get("is_active"):
        return
    due = f"{format_count(facts['due_count'], 'file')}, {format_size(facts['due_size'])} to go"
    if facts["held_count"]:
        names = ", ".join(sorted({hold["plugin"] or "the log" for hold in facts["holds"]}))
        due += f"; {format_size(facts['held_size'])} kept for {names}, shown by: reput clean "
        due += f"{shlex.quote(store.root)} --dry-run"
    yield "old files", due


def _closed(clean: bool, traces: Traces) -> str:
    if clean:
        return "yes"
    if (pid := traces.writer_pid) is not None:
        return f"no, process {pid} is writing"
    return "no: a process writes it, or never closed it (there is a file abort)"
