"""``reput topics``: how many queues topics have, what may be done with them, and their end."""

from __future__ import annotations

from typing import Any

import click

from reput_tools.cli.kit import json_option, path_argument, with_debug

_EXAMPLES = """\b
Examples:
  reput topics create STORE orders --queues 8
  reput topics alter STORE orders --perm r
  reput topics delete STORE orders
"""
_PERMS = {"rw": 6, "r": 4, "w": 2}
_SETTINGS = {
    "path": "the store's directory",
    "topic": "the topic",
    "read_queue_nums": "number of queues that clients read",
    "write_queue_nums": "number of queues to which clients send",
    "perm": "RocketMQ's number: 4 to read, 2 to write, 6 for both",
    "order": "RocketMQ's setting of this name, as are the next two",
    "topic_filter_type": "see `order`",
    "topic_sys_flag": "see `order`",
    "attributes": "an object with attributes of RocketMQ 5, such as `cleanup.policy`",
}
_DELETED = {
    "path": "the store's directory",
    "topic": "the topic",
    "groups[]": "groups whose offsets were removed",
}
_PERM = click.option(
    "--perm",
    type=click.Choice(list(_PERMS)),
    help="Whether clients may read (r), write (w) or both (rw).",
)
_QUEUES = click.option(
    "--queues", metavar="COUNT", type=click.IntRange(1, 65_536), help="Number of queues."
)


@click.group("topics", short_help="Create, alter and delete topics.", epilog=_EXAMPLES)
def topics() -> None:
    """Create, alter and delete topics, in config/topics.json.

    You need not create a topic before the first put, because reput creates it then. Brokers read
    the file. Consumers read the queues that the file names, even before their first message.
    """


@topics.command("create", short_help="Add a topic.")
@path_argument
@click.argument("topic")
@_QUEUES
@_PERM
@json_option("one document", _SETTINGS)
@with_debug
def create(path: str, topic: str, queues: int | None, perm: str | None, as_json: bool) -> None:
    r"""Add TOPIC to the store at PATH. Default: four queues, for reading and writing.

    No other process may write the store meanwhile.
    """
    _change(path, topic, queues, perm, as_json, is_new=True)


@topics.command("alter", short_help="Change a topic.")
@path_argument
@click.argument("topic")
@_QUEUES
@_PERM
@json_option("one document", _SETTINGS)
@with_debug
def alter(path: str, topic: str, queues: int | None, perm: str | None, as_json: bool) -> None:
    r"""Change the given settings of TOPIC in the store at PATH.

    If you reduce the number of queues, messages of the removed queues stay in the log, but groups
    do not read them. No other process may write the store meanwhile.
    """
    if queues is None and perm is None:
        raise click.UsageError("nothing to change: name --queues or --perm")
    _change(path, topic, queues, perm, as_json, is_new=False)


@topics.command("delete", short_help="Delete a topic.")
@path_argument
@click.argument("topic")
@click.option("-y", "--yes", "is_sure", is_flag=True, help="Do not ask.")
@json_option("one document", _DELETED)
@with_debug
def delete(path: str, topic: str, is_sure: bool, as_json: bool) -> None:
    r"""Delete TOPIC in the store at PATH, and the offsets of groups in it.

    Groups and brokers no longer see its messages, also after `reput rebuild`; messages that are
    put later create the topic again. The log keeps the old messages until retention removes
    them, and `reput cat` shows them. No other process may write the store meanwhile.
    """
    from reput_consumer.command.storeopening import changing_groups
    from reput_consumer.names import checked_topic
    from reput_tools.cli.kit import (
        check_store,
        confirm,
        escape_text,
        known_topics,
        no_topic,
        print_json,
    )

    check_store(path)
    try:
        checked_topic(topic)
    except ValueError as error:
        raise click.UsageError(escape_text(str(error))) from None
    if not is_sure:
        confirm(f"Delete topic {topic}, and the offsets that groups have of it?")
    with changing_groups(path) as (store, plugin):
        groups = plugin.port.offsets.groups_of(topic)
        if not plugin.delete_topic(topic):
            raise no_topic(path, topic, known_topics(store))
        root = store.root
    if as_json:
        print_json({"path": root, "topic": topic, "groups": groups})
    else:
        of_groups = f", with the offsets of {', '.join(groups)}" if groups else ""
        click.echo(f"{topic}: deleted{of_groups}")


def _change(
    path: str, topic: str, queues: int | None, perm: str | None, as_json: bool, *, is_new: bool
) -> None:
    import attrs

    from reput_consumer.command.storeopening import changing_groups
    from reput_consumer.metadata.topicsettings import TopicSettings
    from reput_consumer.names import checked_topic
    from reput_tools.cli.kit import (
        ExitCode,
        Failure,
        check_store,
        did_you_mean,
        escape_text,
        print_json,
    )

    check_store(path)
    try:
        checked_topic(topic)
    except ValueError as error:
        raise click.UsageError(escape_text(str(error))) from None
    changes: dict[str, Any] = {}
    if queues is not None:
        changes |= {"read_queue_nums": queues, "write_queue_nums": queues}
    if perm is not None:
        changes["perm"] = _PERMS[perm]
    with changing_groups(path) as (store, plugin):
        known = plugin.topics.get(topic)
        if is_new and known is not None:
            text = f"topic {topic} is there already; `reput topics alter {path} {topic}` changes it"
            raise Failure(text, ExitCode.REFUSED)
        if known is None and not is_new:
            hint = did_you_mean(topic, plugin.topics.names())
            step = hint or f"; `reput topics create {path} {topic}` adds it"
            text = f"no topic {topic} in config/topics.json{step}"
            raise Failure(text, ExitCode.NOT_FOUND)
        settings = attrs.evolve(known or TopicSettings(topic=topic), **changes)
        plugin.topics.put(settings)
        root = store.root
    if as_json:
        print_json({"path": root, **attrs.asdict(settings)})
    else:
        words = {number: word for word, number in _PERMS.items()}
        may = words.get(settings.perm, str(settings.perm))
        click.echo(f"{topic}: {settings.read_queue_nums} queues, {may}")
