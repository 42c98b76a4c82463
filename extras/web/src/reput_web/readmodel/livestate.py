"""The page Server: what the process that serves or follows the store does at the moment.

The process sends plain values (`reput_server.monitoring.livedocument`); a value that is missing,
as an older or a newer process may send other ones, is shown as unknown.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import attrs

from reput_tools.cli.kit import format_count, format_duration, format_size

_ROWS_MAX: Final = 200
_UNKNOWN: Final = "?"
_PORTS: Final = {"broker": "Broker", "names": "Name server"}
_TIMES: Final = {
    "send": "send, until it is answered",
    "put": "put of all sends that have arrived",
    "read": "read for a pull",
}
_SEVERITIES: Final = {"ok": "good", "degraded": "warning", "failing": "loss"}
_STATES: Final = {"following": "good", "connecting": "notice", "master gone": "warning"}

Document = Mapping[str, Any]


@attrs.frozen
class Tile:
    """One figure."""

    name: str
    value: str


@attrs.frozen
class LiveTable:
    """One table; a column whose name begins with ``=`` holds numbers."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    has_words: bool = False
    """Whether the first column has words, which are translated, and not names."""


@attrs.frozen(kw_only=True)
class LiveState:
    """What the page shows."""

    title: str
    timestamp: int | None
    severity: str
    status: str
    reasons: tuple[str, ...]
    rates: tuple[Tile, ...]
    """Also on the first page."""
    tiles: tuple[Tile, ...]
    tables: tuple[LiveTable, ...]


def live_state(found: Document) -> LiveState:
    """Return what is shown of a process's figures."""
    return _follower(found) if found.get("kind") == "follower" else _server(found)


def live_plugins(found: Document) -> list[tuple[str, str, int, str | None]]:
    """Return name, state, lag in bytes and last error of the plugins of the process."""
    return [
        (str(each.get("name")), str(each.get("state")), int(each.get("lag_size", 0)), error)
        for each in _list(found, "plugins")
        for error in (each.get("last_error"),)
    ]


def _server(found: Document) -> LiveState:
    health = _object(found, "health")
    status = str(health.get("status", _UNKNOWN))
    at, since = found.get("at"), found.get("since")
    age = None if at is None or since is None else at - since
    connections = sum(each.get("connections", 0) for each in _list(found, "ports"))
    rates = [_rate(name, _object(found, "rates").get(key)) for name, key in _RATES]
    return LiveState(
        title=str(found.get("name", "")),
        timestamp=at,
        severity=_SEVERITIES.get(status, "notice"),
        status=status,
        reasons=tuple(map(str, health.get("reasons", ()))),
        rates=(*rates, Tile("connections", format_count(connections))),
        tiles=(
            Tile("since the start", _duration(age)),
            *(Tile(name, _shown(format_count, found.get(key))) for name, key in _COUNTS),
            Tile("wait of the first send", _duration(found.get("send_wait_ms"))),
            *_more_tiles(found),
        ),
        tables=tuple(each for each in _server_tables(found) if each.rows),
    )


def _more_tiles(found: Document) -> Sequence[Tile]:
    """Return tiles of what not every server has."""
    tiles = []
    replication, calls = _object(found, "replication"), _object(found, "calls")
    if replication:
        count = _shown(format_count, replication.get("sync_replicas"))
        tiles.append(Tile("replicas that sends wait for", count))
        tiles.append(Tile("rounds that replicas had too late", _late(replication)))
    if calls.get("clients"):
        tiles.append(Tile("clients of RocketMQ 5", _shown(format_count, calls["clients"])))
        tiles.append(Tile("receives that wait", _shown(format_count, calls.get("waiting"))))
    return tiles


def _late(replication: Document) -> str:
    return _shown(format_count, replication.get("late_rounds"))


_RATES: Final = (("messages in, a second", "in"), ("messages out, a second", "out"))
_COUNTS: Final = (
    ("messages in since the start", "put_count"),
    ("messages out since the start", "get_count"),
    ("pulls that wait for messages", "held_pulls"),
    ("sends that wait", "waiting_sends"),
    ("reads that wait", "waiting_reads"),
    ("sends that were not stored", "failed_sends"),
)


def _server_tables(found: Document) -> Sequence[LiveTable]:
    replication = _object(found, "replication")
    calls = _object(found, "calls")
    return (
        LiveTable(
            "Connections",
            ("Port", "Address", "=Connections", "=Requests", "=Worked on", "=Unread answers"),
            _rows(
                _list(found, "ports"),
                lambda each: _PORTS.get(str(each.get("name")), str(each.get("name"))),
                lambda each: str(each.get("address")),
                lambda each: _shown(format_count, each.get("connections")),
                lambda each: _shown(format_count, each.get("requests")),
                lambda each: _shown(format_size, each.get("working_bytes")),
                lambda each: _shown(format_size, each.get("unread_bytes")),
            ),
            has_words=True,
        ),
        LiveTable(
            "Times since the start",
            ("Of", "=Counted", "=Mean", "=99 of 100 below"),
            _rows(
                _list(found, "times"),
                lambda each: _TIMES.get(str(each.get("name")), str(each.get("name"))),
                lambda each: _shown(format_count, each.get("count")),
                lambda each: _milliseconds(each.get("mean_ms")),
                lambda each: _milliseconds(each.get("p99_ms")),
            ),
            has_words=True,
        ),
        LiveTable(
            "Replicas",
            ("Replica", "State", "=Not acknowledged", "=Sent", "=Not read"),
            _rows(
                _list(replication, "replicas"),
                lambda each: str(each.get("address")),
                lambda each: str(each.get("state")),
                lambda each: _shown(format_size, each.get("lag_size")),
                lambda each: _shown(format_size, each.get("sent_size")),
                lambda each: _shown(format_size, each.get("unsent_size")),
            ),
        ),
        LiveTable(
            "Clients of RocketMQ 5",
            ("Call", "Code", "=Answers since the start"),
            _rows(
                _list(calls, "answered"),
                lambda each: str(each.get("call")),
                lambda each: str(each.get("code")),
                lambda each: _shown(format_count, each.get("count")),
            ),
        ),
        LiveTable(
            "Busiest topics",
            ("Topic", "=Messages a second", "=Since the start", "=Bytes"),
            _rows(
                _list(found, "topics"),
                lambda each: str(each.get("topic")),
                lambda each: f"{each.get('rate', 0):,.1f}",
                lambda each: _shown(format_count, each.get("put_count")),
                lambda each: _shown(format_size, each.get("put_bytes")),
            ),
        ),
    )


def _follower(found: Document) -> LiveState:
    state = str(found.get("state", _UNKNOWN))
    text = str(found.get("text") or "")
    seconds = found.get("lag_seconds")
    return LiveState(
        title=str(found.get("master") or found.get("address") or ""),
        timestamp=found.get("at"),
        severity=_STATES.get(state, "warning"),
        status=state,
        reasons=(text,) if text else (),
        rates=(
            Tile("bytes behind the master", _shown(format_size, found.get("lag_bytes"))),
            Tile("messages behind", _shown(format_count, found.get("lag_messages"))),
            Tile("time behind", _UNKNOWN if seconds is None else format_duration(seconds)),
        ),
        tiles=(
            Tile("received since the start", _shown(format_size, found.get("received_bytes"))),
            Tile("connections made", _shown(format_count, found.get("connections"))),
            Tile("end of the log here", _shown(format_count, found.get("fed_offset"))),
            Tile("on disk up to", _shown(format_count, found.get("flushed_offset"))),
            Tile("seen by all plugins up to", _shown(format_count, found.get("dispatched_offset"))),
        ),
        tables=(),
    )


def _rows(
    found: Sequence[Document], *cells: Callable[[Document], str]
) -> tuple[tuple[str, ...], ...]:
    return tuple(tuple(cell(each) for cell in cells) for each in found[:_ROWS_MAX])


def _rate(name: str, rates: Sequence[float] | None) -> Tile:
    """Return the rates over ten seconds, a minute and ten minutes."""
    if rates is None or len(rates) != 3:
        return Tile(name, _UNKNOWN)
    return Tile(name, " · ".join(f"{each:,.1f}" for each in rates))


def _shown(form: Callable[[Any], str], value: Any) -> str:
    return _UNKNOWN if value is None else form(value)


def _duration(ms: int | None) -> str:
    return _UNKNOWN if ms is None else format_duration(max(ms, 0) / 1_000)


def _milliseconds(value: float | None) -> str:
    return "–" if value is None else f"{value:,.2f} ms"


def _list(found: Document, name: str) -> Sequence[Document]:
    value = found.get(name)
    return value if isinstance(value, list) else ()


def _object(found: Document, name: str) -> Document:
    value = found.get(name)
    return value if isinstance(value, dict) else {}
