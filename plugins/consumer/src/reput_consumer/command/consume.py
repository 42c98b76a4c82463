"""``reput consume``: read messages as a member of a group, and print them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from reput_tools.cli.kit import json_option, path_argument, with_debug

if TYPE_CHECKING:
    from reput_consumer.api.receivedmessage import ReceivedMessage

_EXAMPLES = """\b
Examples:
  reput consume STORE billing orders --from latest
  reput consume STORE billing orders --tag 'paid || refunded' --count 100 --json
"""
_JSON = {
    "topic": "its topic",
    "queue_id": "its queue",
    "queue_offset": "its place in the queue",
    "tags": "its tags, or null",
    "keys[]": "its keys",
    "properties": "an object with all properties",
    "reconsume_times": "number of failed deliveries before this one",
    "born_timestamp": "when the producer made it",
    "store_timestamp": "when the store took it",
    "msg_id": "the offset message id",
    "body_base64": "the body, in base64",
}


@click.command("consume", short_help="Read messages as a consumer group.", epilog=_EXAMPLES)
@path_argument
@click.argument("group")
@click.argument("topic")
@click.option("--tag", "tags", metavar="TAGS", help="Only messages with one of these tags: A || B.")
@click.option("--where", metavar="CONDITION", help="Only messages that this SQL condition selects.")
@click.option(
    "--from",
    "start",
    type=click.Choice(["earliest", "latest"]),
    default="earliest",
    show_default=True,
    help="Where a group begins if it has not read the topic yet.",
)
@click.option(
    "-n",
    "--count",
    "max_count",
    metavar="N",
    type=click.IntRange(min=1),
    help="Stop after N messages.",
)
@json_option("a line for each message", _JSON)
@with_debug
def consume(
    path: str,
    group: str,
    topic: str,
    tags: str | None,
    where: str | None,
    start: str,
    max_count: int | None,
    as_json: bool,
) -> None:
    r"""Print the messages of TOPIC that GROUP has not consumed, and mark them as consumed.

    The command ends after the messages that exist now. A message counts as consumed when it is
    printed, so the next call continues after it. No other process may write the store at PATH
    meanwhile; `reput cat` can read meanwhile, and changes nothing.
    """
    from reput_consumer.command.storeopening import changing_groups, require_topic
    from reput_consumer.names import checked_group
    from reput_consumer.selectors import Selector, selectors_of, sql
    from reput_tools.cli.kit import check_store, escape_text

    check_store(path)
    if tags is not None and where is not None:
        raise click.UsageError("--tag and --where: one of the two")
    try:
        checked_group(group)
        selector = Selector.of(tags) if where is None else sql(where)
        selectors_of({topic: selector})
    except ValueError as error:
        raise click.UsageError(escape_text(str(error))) from None
    count = 0
    with changing_groups(path) as (store, plugin):
        require_topic(store, topic, path)
        consumer = _consumer(plugin, group, {topic: selector}, start)
        with consumer:
            for message in consumer:
                _print(message, as_json)
                count += 1
                if count == max_count:
                    break
    if not as_json:
        from reput_tools.cli.kit import format_count

        click.echo(f"{format_count(count, 'message')} consumed by {group}", err=True)


def _consumer(plugin: Any, group: str, topics: Any, start: str) -> Any:
    try:
        return plugin.consumer(group, topics, start=start, until="end")
    except ValueError as error:
        raise click.UsageError(str(error)) from None


def _print(message: ReceivedMessage, as_json: bool) -> None:
    from reput_tools.cli.kit import escape_text, json_line

    if as_json:
        import base64

        click.echo(json_line(_document(message, base64.b64encode(message.body).decode())), nl=False)
        return
    place = f"{message.topic}/{message.queue.queue_id}@{message.queue_offset}"
    words = [place, *(f"tags={message.tags}" for _ in [0] if message.tags)]
    if message.keys:
        words.append(f"keys={' '.join(message.keys)}")
    if message.reconsume_times:
        words.append(f"failed={message.reconsume_times}")
    text = message.body.decode("utf-8", "backslashreplace")
    click.echo(f"{escape_text(' '.join(words))}  {escape_text(text)}")


def _document(message: ReceivedMessage, body: str) -> dict[str, Any]:
    return {
        "topic": message.topic,
        "queue_id": message.queue.queue_id,
        "queue_offset": message.queue_offset,
        "tags": message.tags,
        "keys": list(message.keys),
        "properties": message.properties,
        "reconsume_times": message.reconsume_times,
        "born_timestamp": message.born_timestamp,
        "store_timestamp": message.store_timestamp,
        "msg_id": message.msg_id,
        "body_base64": body,
    }
