"""``reput transactions``: list messages of open transactions, and end transactions by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from reput_tools.cli.kit import STORE_KEYS, json_option, path_argument, with_debug

if TYPE_CHECKING:
    from collections.abc import Sequence

    from reput import Store
    from reput_transaction.messages.halfmessage import HalfMessage

_NAME = "transaction"
_EXAMPLES = """\b
Examples:
  reput transactions STORE
  reput transactions STORE --json | jq -r '.transactions[].id'
  reput transactions STORE --commit 7F0000010001A1B2C3D400000000002A
  reput transactions STORE --roll-back 7F0000010001A1B2C3D400000000002A
"""
_JSON = {
    **STORE_KEYS,
    "transactions[].id": "id of the message, which `--commit` and `--roll-back` take",
    "transactions[].msg_id": "its offset message id",
    "transactions[].member_of": "id of a transaction with several messages, or null",
    "transactions[].topic": "the topic for which it is; null if unreadable",
    "transactions[].queue_id": "the queue for which it is; null if unreadable",
    "transactions[].keys[]": "its keys",
    "transactions[].tags": "its tags, or null",
    "transactions[].group": "its producer group",
    "transactions[].born_timestamp": "when the producer made it",
    "transactions[].store_timestamp": "when the store took it",
    "transactions[].age_ms": "its age",
    "transactions[].times_checked": "how often the application was asked",
    "transactions[].half_queue_offset": "its place in the queue of half messages",
    "transactions[].physical_offset": "its place in the log",
    "transactions[].body_size": "bytes of its body",
}
_ENDED = {
    "path": "the store's directory",
    "ended[].id": "an id that was given",
    "ended[].outcome": "`commit` or `rollback`",
    "ended[].physical_offset": "the committed message, or the op marker of a rollback; null if an "
    "earlier id has already ended the same transaction",
}


@click.command(
    "transactions",
    short_help="List half messages, and commit them or roll them back.",
    epilog=_EXAMPLES,
)
@path_argument
@click.option("--group", metavar="NAME", help="Only messages of this producer group.")
@click.option(
    "--commit", "commits", metavar="ID", multiple=True, help="Make the message ID visible."
)
@click.option("--roll-back", "rollbacks", metavar="ID", multiple=True, help="Drop the message ID.")
@click.option("-y", "--yes", "is_sure", is_flag=True, help="Do not ask.")
@json_option("one document", _JSON, {"With `--commit` or `--roll-back`": _ENDED})
@with_debug
def transactions(
    path: str,
    group: str | None,
    commits: tuple[str, ...],
    rollbacks: tuple[str, ...],
    is_sure: bool,
    as_json: bool,
) -> None:
    r"""List the messages of the store at PATH whose transaction has not ended, oldest first.

    --commit and --roll-back end the transaction of the message ID, and write op markers that a
    crash has lost. You may give both several times. If a transaction has several messages, they
    commit or roll back all of them. The command asks first, and no other process may have the store
    open for writing. The exit code is 6 if the store refuses the message of a commit: roll it back.

    Without these two options the command changes nothing, and another process may write the store.
    The command does not ask any application, and does not add the plugin to the store.
    """
    if commits or rollbacks:
        _end(path, commits, rollbacks, is_sure, as_json)
        return
    from reput_tools.cli.kit import open_to_read, print_json
    from reput_transaction.plugin import TransactionPlugin

    with open_to_read(path, plugins=_to_read(path)) as store:
        found = store.plugin(TransactionPlugin).dangling(group=group)
        now = _now()
        if as_json:
            rows = [_document(half, now) for half in found]
            problems = list(store.problems)
            print_json({"path": store.root, "problems": problems, "transactions": rows})
        elif found:
            _print(path, found, now)
        else:
            click.echo(f"No open transactions in the store at {store.root}.")


def _now() -> int:
    from reput.files import system_clock

    return system_clock()


def _to_read(path: str) -> list[str]:
    from reput.plugin import installed

    # The queues tell where to begin in a store of RocketMQ; without them the whole log is read.
    known = {found.name for found in installed()}
    return [name for name in ("consumequeue", _NAME) if name in known]


# --------------------------------------------------------------------------- ending


def _end(
    path: str, commits: Sequence[str], rollbacks: Sequence[str], is_sure: bool, as_json: bool
) -> None:
    from reput_tools.cli.kit import confirm, open_to_read, print_json
    from reput_transaction.plugin import TransactionPlugin

    both = sorted({*commits} & {*rollbacks})
    if both:
        raise click.UsageError(f"{both[0]}: commit it or roll it back")
    wanted = [(name, "commit") for name in commits] + [(name, "rollback") for name in rollbacks]
    with open_to_read(path, plugins=_to_read(path)) as store:
        now = _now()
        _look_for(store, [name for name, _ in wanted])
        if not is_sure:
            by_id = {
                each.transaction_id: each for each in store.plugin(TransactionPlugin).dangling()
            }
            for name, outcome in wanted:
                verb = "Commit" if outcome == "commit" else "Roll back"
                half = by_id.get(name)
                click.echo(f"{verb} {name if half is None else _summary(half, now)}", err=True)
    if not is_sure:
        confirm("End these transactions?")
    ended = _end_now(path, wanted)
    if as_json:
        print_json({"path": path, "ended": ended})
        return
    for each in ended:
        done = "committed" if each["outcome"] == "commit" else "rolled back"
        click.echo(f"{each['id']}: {done}")


def _look_for(store: Store, names: Sequence[str]) -> None:
    from reput_tools.cli.kit import ExitCode, Failure
    from reput_transaction.plugin import TransactionPlugin

    found = store.plugin(TransactionPlugin).dangling()
    known = {name for half in found for name in (half.transaction_id, half.msg_id)}
    for name in names:
        if name not in known:
            text = f"{name}: no open transaction has this id; `reput transactions PATH` lists them"
            raise Failure(text, ExitCode.NOT_FOUND)


def _end_now(path: str, wanted: Sequence[tuple[str, str]]) -> list[dict[str, Any]]:
    from reput_tools.cli.kit import check_store, open_with_plugin
    from reput_transaction.errors import TransactionEndedError
    from reput_transaction.plugin import TransactionPlugin

    ended: list[dict[str, Any]] = []
    with open_with_plugin(check_store(path), _NAME) as store:
        transactions = store.plugin(TransactionPlugin)
        for name, outcome in wanted:
            try:
                end = transactions.commit if outcome == "commit" else transactions.rollback
                receipt = end(name)
            except TransactionEndedError:
                # A message before it in the list ended the same transaction.
                ended.append({"id": name, "outcome": outcome, "physical_offset": None})
                continue
            offset = receipt.physical_offset
            ended.append({"id": name, "outcome": outcome, "physical_offset": offset})
        # RocketMQ recognizes ended transactions by op markers, which are put after a flush.
        store.flush()
        transactions.settle()
    return ended


# --------------------------------------------------------------------------- showing


def _document(half: HalfMessage, now: int) -> dict[str, Any]:
    return {
        "id": half.transaction_id,
        "msg_id": half.msg_id,
        "member_of": half.member_of,
        "topic": half.topic,
        "queue_id": half.queue_id,
        "keys": list(half.keys),
        "tags": half.tags,
        "group": half.group,
        "born_timestamp": half.born_timestamp,
        "store_timestamp": half.store_timestamp,
        "age_ms": half.age_ms(now),
        "times_checked": half.times_checked,
        "half_queue_offset": half.queue_offset,
        "physical_offset": half.physical_offset,
        "body_size": len(half.body),
    }


def _summary(half: HalfMessage, now: int) -> str:
    from reput_tools.cli.kit import format_duration

    age = format_duration(max(half.age_ms(now), 0) / 1_000)
    return f"{half.transaction_id}: {_place(half)}, {age} old"


def _place(half: HalfMessage) -> str:
    return f"{half.topic or '?'}/{'?' if half.queue_id is None else half.queue_id}"


def _print(path: str, found: Sequence[HalfMessage], now: int) -> None:
    from reput_tools.cli.kit import Column, format_count, format_duration, name_column, print_table

    columns = [
        Column("AGE", right=True),
        Column("FOR", shrink=True),
        Column("KEYS", shrink=True),
        name_column("GROUP"),
        Column("CHECKED", right=True),
        Column("ID"),
    ]
    rows = [
        (
            format_duration(max(half.age_ms(now), 0) / 1_000),
            _place(half),
            " ".join(half.keys) or "-",
            half.group or "-",
            f"{half.times_checked}",
            half.transaction_id,
        )
        for half in found
    ]
    print_table(columns, rows)
    click.echo()
    click.echo(
        f"{format_count(len(found), 'open transaction')}; end the first with `reput transactions "
        f"{path} --commit {found[0].transaction_id}`, or with --roll-back in place of --commit"
    )
