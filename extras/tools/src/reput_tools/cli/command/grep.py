"""``reput grep``: prints the messages that hold a text, and meet other conditions."""

from __future__ import annotations

import shlex
import sys
from functools import partial
from typing import TYPE_CHECKING

import click

from reput_tools.cli.kit.completion import complete_topic
from reput_tools.cli.kit.exitcodes import ExitCode
from reput_tools.cli.kit.failures import Failure, warn
from reput_tools.cli.kit.jsonkeys import json_option
from reput_tools.cli.kit.knowntopics import check_topics, known_topics, no_topic
from reput_tools.cli.kit.options import not_empty, path_argument, with_debug
from reput_tools.cli.kit.output import problem_lines
from reput_tools.cli.kit.storeopening import open_to_read
from reput_tools.cli.kit.suggestions import nearest
from reput_tools.cli.messages.bodies import bodies, raw_option
from reput_tools.cli.messages.filteroptions import conditions_of, with_filter
from reput_tools.cli.messages.grepoutput import (
    marker,
    print_json_matches,
    print_matches,
    print_totals,
)
from reput_tools.cli.messages.messagekeys import MESSAGE_KEYS, PROBLEM_KEYS
from reput_tools.cli.messages.messagerender import message_document, renderer
from reput_tools.cli.messages.options import (
    body_option,
    count_option,
    format_option,
    since_option,
    tag_option,
    until_option,
    where_option,
)

if TYPE_CHECKING:
    from reput import Store
    from reput_tools.cli.messages.bodysearch import BodySearch
    from reput_tools.cli.messages.messagesearch import Wanted

_LATEST = (1 << 63) - 1


def _no_empty_text(
    context: click.Context, parameter: click.Parameter, value: str | None
) -> str | None:
    # Spaces are a text to look for, other than in names.
    if value == "":
        raise click.BadParameter("it is empty, and any body holds nothing", context, parameter)
    return value


_EXAMPLES = """\b
Examples:
  reput grep STORE 'out of stock'
  reput grep STORE -E 'amount":\\s*[0-9]{4}' -t orders --since -1h
  reput grep STORE timeout -i -C 2
  reput grep STORE -t orders --key order-42
  reput grep STORE -t orders --where "region = 'eu' AND amount > 100" --json
"""


@click.command(short_help="Find messages by body, key, tag, property and time.", epilog=_EXAMPLES)
@path_argument
@click.argument("pattern", required=False, callback=_no_empty_text)
@click.argument("topics", nargs=-1, metavar="[TOPIC]...", shell_complete=complete_topic)
@click.option(
    "-t",
    "--topic",
    "named",
    metavar="TOPIC",
    multiple=True,
    callback=not_empty,
    shell_complete=complete_topic,
    help="Only messages of this topic; may be repeated. Default: all topics.",
)
@click.option(
    "-e",
    "--regexp",
    "expression",
    metavar="PATTERN",
    callback=_no_empty_text,
    help="The PATTERN, if it begins with a dash or is also the name of a topic.",
)
@click.option(
    "-E",
    "--extended-regexp",
    "is_regex",
    is_flag=True,
    help="PATTERN is a Python regular expression.",
)
@click.option(
    "-F",
    "--fixed-strings",
    "is_text",
    is_flag=True,
    help="PATTERN is a text (the default).",
)
@click.option(
    "-i", "--ignore-case", is_flag=True, help="Ignore the difference between upper and lower case."
)
@click.option(
    "-k",
    "--key",
    metavar="WORD",
    callback=not_empty,
    help="Only messages with this key: their unique key, or one of their keys.",
)
@tag_option
@where_option
@since_option
@until_option
@click.option(
    "-C",
    "--context",
    metavar="N",
    type=click.IntRange(0, 1_000),
    default=0,
    help="Also print the N messages before and after each match in its queue.",
)
@count_option(1)
@click.option("-c", "--total", is_flag=True, help="Print only the number of matches, by topic.")
@format_option
@body_option
@raw_option
@json_option(
    "one object a line, with every field",
    MESSAGE_KEYS | {"is_match": "with `--context`: false for a neighbour of a match"},
    {
        "A problem of the store, before all messages": PROBLEM_KEYS,
        "With `--total`, one document": {
            "message_count": "matches",
            "topics[].topic": "a topic that has some",
            "topics[].message_count": "its matches",
        },
    },
)
@with_debug
def grep(
    path: str,
    pattern: str | None,
    topics: tuple[str, ...],
    named: tuple[str, ...],
    expression: str | None,
    is_regex: bool,
    is_text: bool,
    ignore_case: bool,
    key: str | None,
    tag: str | None,
    where: str | None,
    since: int | None,
    until: int | None,
    context: int,
    count: int | None,
    total: bool,
    template: str | None,
    body: str,
    raw: bool,
    as_json: bool,
) -> None:
    """Print the messages in the store at PATH whose body contains PATTERN.

    PATTERN is a text; with -E it is a regular expression. You may omit it if you give other
    conditions. A message must meet all conditions. Messages are printed in the order in which they
    were stored. With --key and --topic, and without -C, the command uses the plugin `index`, and
    reads the part of the log that is not in the index yet; otherwise it reads the log. It changes
    nothing in the store. The exit code is 3 if it finds no message.

    With -C, `>` marks matches, and `--` separates messages that are not adjacent. With --since,
    reading begins at the last log file whose first message was stored before that time, and it ends
    after --until; the command still finds every message if a clock was set back by less than a
    minute.
    """
    from reput_tools.cli.messages.messagesearch import Wanted, by_key, by_reading

    if is_regex and is_text:
        raise click.UsageError("-E takes PATTERN for a regular expression, -F for text: give one")
    if total and (context or template is not None or count is not None):
        raise click.UsageError("--total prints only numbers: no --context, --count or --format")
    given = any(each is not None for each in (key, tag, where, since, until))
    if pattern is None and expression is None and not given:
        raise click.UsageError("Missing argument 'PATTERN': a text to look for in bodies.")
    body_of = bodies(raw=raw)
    with open_to_read(path, plugins=with_filter(path, None, where)) as store:
        text, chosen = _asked(store, pattern, (*topics, *named), expression, has_others=given)
        needle = _needle(text, is_regex, ignore_case)
        wanted = Wanted(
            frozenset(chosen) or None,
            needle,
            key,
            conditions_of(store, chosen[0] if len(chosen) == 1 else None, tag, where),
            since or 0,
            _LATEST if until is None else until,
            body_of,
            not raw,
        )
        if key is not None and chosen and not context:
            found = by_key(store, wanted)
        else:
            found = by_reading(store, wanted, context)
        render = renderer(template, body, as_json, "\n", body_of, marker(needle))
        if as_json and not total:
            sys.stdout.buffer.write(problem_lines(store.problems))
        if total:
            number = print_totals(found, as_json=as_json)
        elif as_json:
            document = partial(message_document, body=body, body_of=body_of)
            number = print_json_matches(found, document, count, has_marks=bool(context))
        else:
            is_plain = template is None and body != "raw"
            has_marks = bool(context) and is_plain
            number = print_matches(found, render, count, has_marks=has_marks)
        sys.stdout.flush()
        if wanted.is_damaged:
            raise click.exceptions.Exit(ExitCode.DAMAGED)
        known = known_topics(store)
        if known:
            known |= wanted.seen  # the log may have messages of deleted topics
            check_topics(store.root, sorted(wanted.topics or ()), known)
        if not number:
            raise _nothing(store, wanted, text, known | wanted.seen)


def _asked(
    store: Store,
    pattern: str | None,
    topics: tuple[str, ...],
    expression: str | None,
    *,
    has_others: bool,
) -> tuple[str | None, tuple[str, ...]]:
    """Return the pattern, None for any body, and the topics, none for all.

    The only argument may be a topic beside other conditions, as it always was one before bodies
    could be looked into.
    """
    if expression is not None:
        return expression, topics if pattern is None else (pattern, *topics)
    if pattern is None or topics:
        return pattern, topics
    if pattern not in known_topics(store):
        return pattern, ()
    quoted = shlex.quote(pattern)
    if has_others:
        warn(f"{pattern!r} is taken for the topic: say -t {quoted}; -e {quoted} looks into bodies")
        return None, (pattern,)
    warn(f"{pattern!r} is also a topic; `reput cat {shlex.quote(store.root)} {quoted}` prints it")
    return pattern, topics


def _needle(text: str | None, is_regex: bool, ignore_case: bool) -> BodySearch | None:
    from reput_tools.cli.messages.bodysearch import BodySearch

    if text is None:
        return None
    return BodySearch.of(text, is_regex=is_regex, ignore_case=ignore_case)


def _nothing(store: Store, wanted: Wanted, text: str | None, known: set[str]) -> Failure:
    """Return the failure that says that nothing was found, and what may have been meant."""
    for topic in sorted(wanted.topics or ()):  # without queues, only some topics may be known
        if topic not in known and nearest(topic, known) is not None:
            return no_topic(store.root, topic, known)
    where = "" if wanted.topics is None else f" of topic {', '.join(map(repr, wanted.topics))}"
    hint = ""
    if wanted.topics is None and text in known:
        hint = f"; {text!r} is a topic: -t {shlex.quote(text or '')} looks into its messages"
    return Failure(f"no message{where} meets the conditions{hint}", ExitCode.NOT_FOUND)
