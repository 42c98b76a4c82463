"""The status page: one HTML document that loads nothing, runs nothing, and refreshes itself."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Sequence
from html import escape
from typing import TYPE_CHECKING, Final

from reput_client.remoting import address_text
from reput_tools.cli.kit import escape_text, format_size

if TYPE_CHECKING:
    from reput_server.monitoring.serverfigures import ServerFigures

__all__ = ["status_page"]

_ROWS_MAX: Final = 100
_TEXT_MAX: Final = 200
_AGAIN_SECONDS: Final = 10
_PORTS: Final = {"broker": "Broker", "names": "Name server"}
_TIMES: Final = {
    "send": "a send, until it is answered",
    "put": "a put of all sends that had come",
    "read": "a read for a pull",
}
_STYLE: Final = """
:root { color-scheme: light dark;
  --ground: #fff; --panel: #f6f7f9; --ink: #1c2330; --soft: #5b6473; --line: #dfe3e8;
  --failing: #b3261e; --degraded: #8a5a00; --ok: #1f7a45; }
@media (prefers-color-scheme: dark) { :root {
  --ground: #14181f; --panel: #1d232c; --ink: #e6e9ee; --soft: #9aa4b2; --line: #313a46;
  --failing: #ff8a80; --degraded: #f0c05a; --ok: #6fd39b; } }
* { box-sizing: border-box; }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--ground);
  margin: 0 auto; max-width: 68rem; padding: 1.2rem 1rem 3rem; overflow-wrap: anywhere; }
h1 { font-size: 1.5rem; line-height: 1.25; margin: .4rem 0 .2rem; }
h2 { font-size: 1.15rem; margin: 2rem 0 .5rem; border-bottom: 1px solid var(--line);
  padding-bottom: .25rem; }
p { margin: .4rem 0; } .soft { color: var(--soft); } a { color: inherit; }
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(9.5rem, 1fr)); gap: .6rem;
  margin: 1rem 0; }
.tile { background: var(--panel); border-radius: .5rem; padding: .6rem .8rem; }
.tile b { display: block; font-size: 1.25rem; font-variant-numeric: tabular-nums; }
.tile span { color: var(--soft); font-size: .85rem; }
.verdict { background: var(--panel); border-left: .3rem solid; border-radius: .3rem;
  padding: .45rem .8rem; margin: .8rem 0; }
.verdict b { text-transform: uppercase; font-size: .8rem; letter-spacing: .05em; }
.verdict small { display: block; color: var(--ink); font-size: .85rem; }
.failing { color: var(--failing); } .degraded { color: var(--degraded); } .ok { color: var(--ok); }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-size: .86rem; width: 100%; }
th, td { text-align: left; padding: .28rem .9rem .28rem 0; border-bottom: 1px solid var(--line);
  vertical-align: top; }
th { color: var(--soft); font-weight: 600; white-space: nowrap; }
.number { text-align: right; padding-right: 1.6rem; white-space: nowrap;
  font-variant-numeric: tabular-nums; }
footer { margin-top: 3rem; color: var(--soft); font-size: .85rem; }
"""


def status_page(found: ServerFigures) -> str:
    """Return the whole page."""
    title = _text(f"{found.broker} of {found.cluster}")
    access = "" if found.is_writable else ", for reading only"
    where = f"{_text(found.root)}{access}; clients find it at {_text(found.address)}"
    again = f"{_text(_time(found.at))}, and again every {_AGAIN_SECONDS} s."
    others = 'For programs: <a href="metrics">metrics</a>, <a href="health">health</a>.'
    return "\n".join(
        [
            "<!DOCTYPE html>",
            '<html lang="en"><head><meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f'<meta http-equiv="refresh" content="{_AGAIN_SECONDS}">',
            f"<title>{title}</title><style>{_STYLE}</style></head><body>",
            f"<header><h1>{title}</h1>",
            f'<p class="soft">{where}</p></header><main>',
            *_verdict(found),
            *_tiles(found),
            *_plugins(found),
            *_groups(found),
            *_topics(found),
            *_ports(found),
            *_calls(found),
            *_replicas(found),
            *_times(found),
            f"</main><footer>{again} {others}</footer></body></html>\n",
        ]
    )


def _verdict(found: ServerFigures) -> Iterable[str]:
    status = found.health.status
    yield f'<div class="verdict {status}"><b>{status}</b>'
    yield from (f"<small>{_text(each)}</small>" for each in found.health.reasons)
    yield "</div>"


def _tiles(found: ServerFigures) -> Iterable[str]:
    lag = sum(each.lag for each in found.groups.values())
    tiles = [
        (f"{found.put_rate:,.1f}/s", f"messages in, {found.put_count:,} since the start"),
        (f"{found.get_rate:,.1f}/s", f"messages out, {found.get_count:,} since the start"),
        (f"{lag:,}", "messages that groups have not consumed"),
        (format_size(found.log_end - found.log_start), "in the log"),
        (_age(found.at - found.since), "since the start"),
        (
            f"{sum(each.connection_count for each in found.ports.values()):,}",
            "connections",
        ),
        (f"{found.held_pulls:,}", "pulls that wait for messages"),
        (f"{found.waiting_sends:,}", f"sends that wait, the first for {found.send_wait_ms} ms"),
        (f"{found.failed_sends:,}", "sends that were not stored"),
    ]
    yield '<div class="tiles">'
    yield from (
        f'<div class="tile"><b>{_text(value)}</b><span>{_text(says)}</span></div>'
        for value, says in tiles
    )
    yield "</div>"


def _plugins(found: ServerFigures) -> Iterable[str]:
    rows = [
        [
            each.name,
            each.state,
            format_size(each.lag_size),
            f"{each.lag_count:,}",
            f"{each.message_count:,}",
            each.last_error or "",
        ]
        for each in found.plugins
    ]
    names = ["plugin", "state", "=behind", "=messages", "=seen", "last error"]
    return _table("Plugins", names, rows, len(rows))


def _groups(found: ServerFigures) -> Iterable[str]:
    largest = sorted(found.groups, key=lambda name: (-found.groups[name].lag, name))
    rows = []
    for name in largest[:_ROWS_MAX]:
        each = found.groups[name]
        topics = ", ".join(each.topics[:10]) + (", …" if len(each.topics) > 10 else "")
        rate = f"{each.rate:,.1f}/s"
        count, since = found.out.get(name, (0, 0))
        out = f"{count:,}, the first for {_age(found.at - since)}" if count else ""
        members = f"{each.member_count:,}" + (", which subscribe differently" * each.is_mixed)
        rows.append([name, f"{each.lag:,}", rate, out, members, topics])
    names = ["group", "=not consumed", "=messages out", "=not acknowledged", "=members", "topics"]
    return _table("Consumer groups", names, rows, len(largest))


def _topics(found: ServerFigures) -> Iterable[str]:
    def order(name: str) -> tuple[float, int, str]:
        return -found.topics[name].rate, -found.topics[name].stored_count, name

    largest = sorted(found.topics, key=order)
    rows = []
    for name in largest[:_ROWS_MAX]:
        each = found.topics[name]
        rows.append(
            [
                name,
                f"{each.rate:,.1f}/s",
                f"{each.put_count:,}",
                format_size(each.put_bytes),
                f"{each.stored_count:,}",
                f"{each.queue_count:,}",
            ]
        )
    names = ["topic", "=messages in", "=since the start", "=bytes", "=stored", "=queues"]
    return _table("Topics", names, rows, len(largest))


def _ports(found: ServerFigures) -> Iterable[str]:
    rows = [
        [
            _PORTS[name],
            "{}:{}".format(*each.address),
            f"{each.connection_count:,}",
            f"{each.request_count:,}",
            format_size(each.working_bytes),
            format_size(each.unread_bytes),
        ]
        for name, each in found.ports.items()
    ]
    names = ["port", "address", "=connections", "=requests", "=worked on", "=unread answers"]
    return _table("Connections", names, rows, len(rows))


def _calls(found: ServerFigures) -> Iterable[str]:
    calls = found.calls
    if not calls.answered and not calls.client_count:
        return
    most = sorted(calls.answered, key=lambda key: (-calls.answered[key], key))
    rows = [[name, code, f"{calls.answered[name, code]:,}"] for name, code in most[:_ROWS_MAX]]
    names = ["call", "code", "=answers since the start"]
    yield from _table("Clients of RocketMQ 5", names, rows, len(most))
    yield (
        f'<p class="soft">{calls.client_count:,} clients with {calls.stream_count:,} streams; '
        f"{calls.waiting_count:,} receives wait for messages.</p>"
    )


def _replicas(found: ServerFigures) -> Iterable[str]:
    if found.ha_address is None:
        return
    rows = [
        [
            address_text(each.address),
            "observer" if each.is_observer else "in sync" if each.is_in_sync else "behind",
            "" if each.is_observer else format_size(each.lag_size),
            format_size(each.sent_size),
            format_size(each.unsent_size),
        ]
        for each in found.replicas[:_ROWS_MAX]
    ]
    names = ["replica", "state", "=not acknowledged", "=sent", "=not read"]
    yield from _table("Replicas", names, rows, len(found.replicas))
    waits = f"Sends wait for {found.sync_replicas:,}." if found.sync_replicas else "No send waits."
    where = f"They get the log at {_text(address_text(found.ha_address))}."
    yield f'<p class="soft">{where} {waits}</p>'


def _times(found: ServerFigures) -> Iterable[str]:
    rows = []
    for name, each in found.times.items():
        count = sum(each.counts)
        mean = f"{each.total / count * 1000:,.2f} ms" if count else ""
        most = f"≤ {each.p99 * 1000:,.1f} ms" if count else ""
        rows.append([_TIMES[name], f"{count:,}", mean, most])
    return _table("Times since the start", ["of", "=counted", "=mean", "=99 of 100"], rows, 3)


def _table(
    title: str, names: Sequence[str], rows: Sequence[Sequence[str]], count: int
) -> Iterable[str]:
    """Return a table; a name that begins with ``=`` is of a column of numbers."""
    yield f"<h2>{_text(title)}</h2>"
    if not rows:
        yield '<p class="soft">None.</p>'
        return
    kinds = [' class="number"' if name.startswith("=") else "" for name in names]
    heads = zip(kinds, names, strict=True)
    yield '<div class="wide"><table><thead><tr>'
    yield "".join(f"<th{kind}>{_text(name.removeprefix('='))}</th>" for kind, name in heads)
    yield "</tr></thead><tbody>"
    for row in rows:
        cells = zip(kinds, row, strict=True)
        yield "<tr>" + "".join(f"<td{kind}>{_text(each)}</td>" for kind, each in cells) + "</tr>"
    yield "</tbody></table></div>"
    if count > len(rows):
        yield f'<p class="soft">The first {len(rows):,} of {count:,}.</p>'


def _text(text: str) -> str:
    """Return a text as content of an element, safe in HTML."""
    shown = escape_text(text[: _TEXT_MAX + 1])
    return escape(shown if len(text) <= _TEXT_MAX else f"{shown[:_TEXT_MAX]}…", quote=True)


def _time(timestamp: int) -> str:
    found = dt.datetime.fromtimestamp(timestamp / 1000, dt.UTC)
    return found.isoformat(sep=" ", timespec="seconds")


def _age(milliseconds: int) -> str:
    minutes, seconds = divmod(max(milliseconds, 0) // 1000, 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    words = [f"{days} d", f"{hours} h", f"{minutes} min", f"{seconds} s"]
    first = next((at for at, count in enumerate((days, hours, minutes)) if count), 3)
    return " ".join(words[first : first + 2])
