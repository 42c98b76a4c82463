"""``reput put``: stores lines, arguments, or objects in lines of JSON as messages."""

from __future__ import annotations

import contextlib
import os
import shlex
import stat
import time
import tomllib
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, BinaryIO

import click
from click.core import ParameterSource

from reput_tools.cli.kit.completion import complete_installed_plugin, complete_queue
from reput_tools.cli.kit.exitcodes import ExitCode
from reput_tools.cli.kit.failures import Failure, warn
from reput_tools.cli.kit.jsonkeys import json_option
from reput_tools.cli.kit.options import (
    CheckedPath,
    not_empty,
    path_argument,
    with_debug,
)
from reput_tools.cli.kit.output import format_count, print_json
from reput_tools.cli.kit.progressbar import ProgressBar
from reput_tools.cli.kit.storeopening import holds_a_store, open_to_write
from reput_tools.cli.kit.units import read_size
from reput_tools.cli.messages.options import one_topic, topic_arguments
from reput_tools.cli.messages.putresult import PutResult, print_stored

if TYPE_CHECKING:
    from reput import Store
    from reput.record import Message

_LOG = "commitlog"  # section of the configuration
_FILE_SIZE = "file_size"  # option in it
_ROCKETMQ_FILE_SIZE = 1 << 30  # mappedFileSizeCommitLog


def _property_pairs(
    context: click.Context, parameter: click.Parameter, values: tuple[str, ...]
) -> dict[str, str]:
    pairs = {}
    for value in values:
        name, separator, text = value.partition("=")
        if not separator or not name:
            raise click.BadParameter(f"{value!r} is not NAME=VALUE", context, parameter)
        if not text:
            reason = f"{name!r} has no value, and a property without one is none"
            raise click.BadParameter(reason, context, parameter)
        if name in pairs:
            reason = f"{name!r} is given twice, and a message has it once"
            raise click.BadParameter(reason, context, parameter)
        pairs[name] = text
    return pairs


_EXAMPLES = """\b
Examples:
  reput put STORE greetings hello --create
  echo hello | reput put STORE greetings
  reput put STORE orders --tag paid --property region=eu --file orders.txt
  reput cat STORE orders --json | reput put OTHER orders --json-lines --create
"""
_JSON = {
    "topic": "the topic",
    "message_count": "messages that were stored",
    "log_size": "bytes of their records",
    "first_msg_id": "id of the first message; null if there was nothing to store",
    "last_msg_id": "id of the last one",
    "queues[].queue_id": "a queue that has some of them",
    "queues[].first_queue_offset": "the first one in this queue",
    "queues[].end_queue_offset": "the place after the last one",
    "seconds": "how long it took",
}


@click.command(short_help="Store lines as messages.", epilog=_EXAMPLES)
@path_argument
@topic_arguments
@click.argument("bodies", metavar="[BODY]...", nargs=-1)
@click.option(
    "--file",
    metavar="FILE",
    type=click.File("rb"),
    default="-",
    help="Read this file instead of stdin.",
)
@click.option(
    "--json-lines", is_flag=True, help="Read each BODY or line as a JSON object; see above."
)
@click.option(
    "-q",
    "--queue",
    "queue_id",
    metavar="ID",
    type=click.IntRange(0, (1 << 31) - 1),
    shell_complete=complete_queue,
    help="The queue of the messages; otherwise the queues of the topic take turns.",
)
@click.option(
    "--tag",
    "tags",
    metavar="TAGS",
    callback=not_empty,
    help="Tags of every message; usually one.",
)
@click.option(
    "-k",
    "--key",
    "keys",
    metavar="WORD",
    multiple=True,
    callback=not_empty,
    help="A key of every message; may be repeated.",
)
@click.option(
    "--property",
    "properties",
    metavar="NAME=VALUE",
    multiple=True,
    callback=_property_pairs,
    help="A property of every message; may be repeated.",
)
@click.option(
    "--sync", is_flag=True, help="Wait after each piece of the input until it is on disk."
)
@click.option(
    "--create",
    is_flag=True,
    help="Create the store, in a new or empty directory, if it does not exist.",
)
@click.option(
    "--file-size",
    metavar="SIZE",
    callback=read_size,
    help="With --create: the size of the log's files, such as 16MiB. Default: 64 MiB, "
    "in files that grow. A broker needs the same mappedFileSizeCommitLog.",
)
@click.option(
    "--like-rocketmq",
    is_flag=True,
    help="With --create: use the sizes that a broker of RocketMQ expects, and ignore those in "
    "--config.",
)
@click.option(
    "--plugin",
    "plugins",
    metavar="NAME",
    multiple=True,
    shell_complete=complete_installed_plugin,
    help="A plugin of the store; may be repeated.",
)
@click.option(
    "--config",
    metavar="FILE",
    type=CheckedPath(exists=True, dir_okay=False, readable=False),
    help="TOML file with the store's options; they are recorded in the store.",
)
@json_option("the summary", _JSON)
@with_debug
def put(
    path: str,
    topic: str | None,
    topic_named: str | None,
    bodies: tuple[str, ...],
    file: BinaryIO,
    json_lines: bool,
    queue_id: int | None,
    tags: str | None,
    keys: tuple[str, ...],
    properties: dict[str, str],
    sync: bool,
    create: bool,
    file_size: int | None,
    like_rocketmq: bool,
    plugins: tuple[str, ...],
    config: str | None,
    as_json: bool,
) -> None:
    r"""Store each BODY, or each line of standard input, as a message of TOPIC in the store at PATH.

    An empty line is also a message. Lines are stored as they arrive, and all messages are on disk
    when the command ends. A refused message ends the command, and the error names its line; the
    messages before it stay stored. On an existing store, --plugin must name all plugins that the
    store uses, and adds the others; --config changes the recorded options; --file-size and
    --like-rocketmq are refused if the files have another size.

    With --json-lines each BODY or line is an object that may have `body`, `body_encoding` (utf-8,
    base64, hex), `tags`, `keys`, `properties`, `queue_id`, `flag`, `sys_flag`, `born_timestamp`,
    `born_host` and `reconsume_times`; the command ignores empty lines. It also takes the output of
    `reput cat --json`. It ignores the members that the store assigns, lines about lost messages and
    problems, and the bits 8, 16 and 32 of `sys_flag`; notes at the end list what it ignored. Any
    other member is an error. So is a value that would be lost: a member that occurs twice, tags or
    keys that contradict the properties, a property without a value, or the `sys_flag` of a half
    message or of a rolled-back message.
    """
    from reput_tools.cli.messages import putinput

    for name, option in (("TAGS", tags), ("KEYS", keys)):
        if name in properties and option:
            given = "--tag" if name == "TAGS" else "--key"
            raise click.UsageError(f"{given} and --property {name}=… are one property: give one")
    topic = one_topic(topic, topic_named)
    size_option = "--like-rocketmq" if like_rocketmq else "--file-size"
    if (like_rocketmq or file_size is not None) and not create:
        step = "leave it out" if holds_a_store(path) else "give --create, too"
        raise click.UsageError(f"{size_option} decides about a new store: {step}")
    if like_rocketmq and file_size is not None:
        raise click.UsageError("--like-rocketmq names sizes, and so does --file-size: give one")
    defaults = putinput.Defaults(topic, queue_id, tags, keys, properties)
    left_out = putinput.LeftOut()
    make: Callable[..., Message | None] = putinput.message_of_line
    if json_lines:
        make = partial(putinput.message_of_json, left_out=left_out)
    if bodies and _is_given("file"):
        raise click.UsageError("BODY and --file exclude each other: give one")
    if not bodies and file.isatty():
        warn("reading lines from the terminal; Ctrl-D ends")
    started = time.monotonic()
    stored = PutResult()
    size = _ROCKETMQ_FILE_SIZE if like_rocketmq else file_size
    options = config if size is None else _with_file_size(config, size)
    size_of_input = None if bodies else _size_of(file)
    with contextlib.ExitStack() as opened:
        with _refused_options(path, plugins, None if size is None else size_option):
            store = opened.enter_context(
                open_to_write(path, create=create, plugins=plugins or None, config=options)
            )
        progress = opened.enter_context(ProgressBar("storing", size_of_input, "bytes"))
        try:
            named = [[os.fsencode(body) for body in bodies]]
            for lines in named if bodies else putinput.line_batches(file):
                _store_lines(store, lines, lambda line: make(line, defaults), stored)
                if sync and stored.receipt is not None:
                    stored.receipt.wait()
                progress.advance(sum(map(len, lines)) + len(lines))
        except putinput.InputError as error:
            raise _refusal(stored.line_count + 1, error, stored) from error
        except KeyboardInterrupt:
            warn(f"interrupted; {_stored_before(stored)}, and perhaps more of the last lines")
            raise
    # Closing has put everything on disk and dispatched it: only now is the work done.
    seconds = time.monotonic() - started
    for note in left_out.notes():
        warn(note)
    if as_json:
        print_json(stored.document(topic, seconds))
    else:
        print_stored(stored, path, topic, seconds)


def _is_given(name: str) -> bool:
    source = click.get_current_context().get_parameter_source(name)
    return source is not ParameterSource.DEFAULT


@contextlib.contextmanager
def _refused_options(
    path: str, plugins: tuple[str, ...], size_option: str | None
) -> Iterator[None]:
    """Name options of this command in errors of the opening.

    Raises:
        click.BadParameter: the store has no log files of the given size.
        Failure: ``--plugin`` leaves out plugins that the store uses.
    """
    from reput.errors import ConfigError, PluginError
    from reput_tools.cli.kit.storeplugins import used_plugins

    try:
        yield
    except ConfigError as error:
        if size_option is None or (error.section, error.option) != (_LOG, _FILE_SIZE):
            raise
        raise click.BadParameter(error.reason, param_hint=size_option) from error
    except PluginError as error:
        left_out = sorted({*(used_plugins(path) or ())} - {*plugins})
        left_out = [name for name in left_out if not _is_policy(name)]
        if not plugins or error.plugin not in left_out:
            raise
        more = " ".join(f"--plugin {name}" for name in left_out)
        text = (
            f"{path}: the store also uses {', '.join(left_out)}; leave --plugin out, or add {more} "
            f"(`reput plugins {shlex.quote(path)} --remove {left_out[0]}` removes a plugin)"
        )
        raise Failure(text, ExitCode.UNAVAILABLE) from error


def _is_policy(plugin: str) -> bool:
    """Whether an installed plugin joins by its options, so that nobody has to name it."""
    from reput.plugin import installed

    return any(each.name == plugin and each.load().is_policy for each in installed())


def _with_file_size(config: str | None, size: int) -> Mapping[str, Any] | str | None:
    """Return the options with this size of log files."""
    sections: dict[str, Any] = {}
    if config is not None:
        try:
            with open(config, "rb") as file:
                sections = tomllib.load(file)
        except (OSError, tomllib.TOMLDecodeError):
            return config  # opening says what is wrong with it
    log = sections.get(_LOG, {})
    if not isinstance(log, dict):
        return config  # likewise
    return sections | {_LOG: log | {_FILE_SIZE: size}}


# --------------------------------------------------------------------------- storing


def _store_lines(
    store: Store,
    lines: list[bytes],
    make: Callable[[bytes], Message | None],
    stored: PutResult,
) -> None:
    from reput_tools.cli.messages.putinput import InputError

    numbered: list[tuple[int, Message]] = []
    refusal = None
    for line in lines:
        stored.line_count += 1
        try:
            message = make(line)
        except InputError as error:
            refusal = error
            break
        if message is not None:
            numbered.append((stored.line_count, message))
    if numbered:
        _store_messages(store, numbered, stored)
    if refusal is not None:
        raise _refusal(stored.line_count, refusal, stored)


def _store_messages(store: Store, numbered: list[tuple[int, Message]], stored: PutResult) -> None:
    from reput.errors import MessageIllegalError, PropertiesSizeError, PutError

    try:
        stored.add(store.put_many([message for _, message in numbered]))
    except (MessageIllegalError, PropertiesSizeError) as error:
        if len(numbered) == 1:
            raise _refusal(numbered[0][0], error, stored) from error
        # All were refused before the first byte. Put one at a time, the messages before the refused
        # one are stored, and the error can name its line.
        for one in numbered:
            _store_messages(store, [one], stored)
    except PutError as error:
        if error.stored is not None:
            stored.add(error.stored)
        raise Failure(f"{error}; {_stored_before(stored)}", ExitCode.REFUSED) from error


def _refusal(line: int, error: Exception, stored: PutResult) -> Failure:
    return Failure(f"line {line}: {error}; {_stored_before(stored)}", ExitCode.REFUSED)


def _stored_before(stored: PutResult) -> str:
    if not stored.count:
        return "nothing was stored"
    verb = "was" if stored.count == 1 else "were"
    return f"{format_count(stored.count, 'message')} before that {verb} stored"


def _size_of(file: BinaryIO) -> int | None:
    """Return the bytes to read; None if only the end of the input will tell."""
    try:
        status = os.fstat(file.fileno())
    except (OSError, ValueError):
        return None
    return status.st_size if stat.S_ISREG(status.st_mode) else None
