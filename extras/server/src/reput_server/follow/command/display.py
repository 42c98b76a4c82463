"""Shows a follower: a live line on a terminal, lines for changes elsewhere, JSON for programs."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

import attrs
import click

from reput_tools.cli.kit import escape_text, format_count, format_size, json_line, warn

if TYPE_CHECKING:
    from reput import PluginState, Store
    from reput_server.follow.follower.follower import FollowStatus

Show = Callable[["FollowStatus", "Sequence[PluginState]", float], None]

_EVERY_SECONDS: Final = 1.0


@attrs.frozen
class Addresses:
    """What the process serves besides, as texts; empty where it does not."""

    metrics: str = ""
    web: str = ""
    broker: str = ""
    name_server: str = ""

    def lines(self) -> Iterator[str]:
        """Yield a line for people for each."""
        if self.metrics:
            yield f"Serving {self.metrics}"
        if self.web:
            yield f"Serving pages at {self.web}"
        if self.broker:
            found = self.name_server or "none: no name server knows it"
            yield f"Serving the store for reading at {self.broker}; namesrvAddr: {found}"


@contextlib.contextmanager
def shown(store: Store, *, as_json: bool, addresses: Addresses) -> Iterator[Show]:
    """Give a function that shows a status at a time, s, for the time of a ``with`` block."""
    rate = _Rate()
    if as_json:
        yield _JsonLines(store, addresses, rate)
        return
    for line in addresses.lines():
        click.echo(line, err=True)
    if not sys.stderr.isatty():
        yield _Changes()
        return
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    console = Console(stderr=True, highlight=False, markup=False, emoji=False)
    with Live(console=console, auto_refresh=False) as live:

        def show(status: FollowStatus, plugins: Sequence[PluginState], now: float) -> None:
            text = line_of(status, plugins, rate.of(status, now))
            live.update(Text(escape_text(text), no_wrap=True, overflow="ellipsis"), refresh=True)

        yield show


class _Rate:
    """Bytes in a second, by what came since the last look that is a second old."""

    def __init__(self) -> None:
        self._at: tuple[float, int] | None = None
        self._rate = 0.0

    def of(self, status: FollowStatus, now: float) -> float:
        """Return the rate, bytes in a second."""
        if self._at is None:
            self._at = now, status.received_size
        seconds = now - self._at[0]
        if seconds >= _EVERY_SECONDS:
            self._rate = (status.received_size - self._at[1]) / seconds
            self._at = now, status.received_size
        return self._rate


class _Changes:
    """One line on stderr for each change of state."""

    def __init__(self) -> None:
        self._last: tuple[str, str] | None = None

    def __call__(self, status: FollowStatus, plugins: Sequence[PluginState], now: float) -> None:
        found = status.state.value, status.text
        if found != self._last and not (status.state.is_final and status.text):
            self._last = found
            warn(": ".join(filter(None, (status.state.value, status.text or status.master))))


class _JsonLines:
    """One line on stdout for each change of state, and one a second."""

    def __init__(self, store: Store, addresses: Addresses, rate: _Rate) -> None:
        self._store = store
        self._addresses = addresses
        self._rate = rate
        self._last: tuple[str, str] | None = None
        self._at = 0.0

    def __call__(self, status: FollowStatus, plugins: Sequence[PluginState], now: float) -> None:
        rate = self._rate.of(status, now)
        found = status.state.value, status.text
        if found == self._last and now - self._at < _EVERY_SECONDS:
            return
        self._last, self._at = found, now
        facts = facts_of(status, plugins, rate)
        facts |= {"store": str(self._store.root)}
        facts |= {name: text or None for name, text in attrs.asdict(self._addresses).items()}
        click.echo(json_line(facts), nl=False)
        sys.stdout.flush()


def facts_of(status: FollowStatus, plugins: Sequence[PluginState], rate: float) -> dict[str, Any]:
    """Return a status as one object for programs."""
    return {
        "state": status.state.value,
        "text": status.text,
        "master": status.master,
        "address": status.address,
        "lag_bytes": status.lag.size,
        "lag_messages": status.lag.message_count,
        "lag_seconds": None if status.lag.seconds is None else round(status.lag.seconds, 3),
        "fed_offset": status.fed_offset,
        "flushed_offset": status.flushed_offset,
        "dispatched_offset": status.dispatched_offset,
        "received_bytes": status.received_size,
        "bytes_per_second": round(rate),
        "connections": status.connection_count,
        "plugins": {
            each.name: {"state": each.state, "lag_bytes": each.lag_size} for each in plugins
        },
    }


def line_of(status: FollowStatus, plugins: Sequence[PluginState], rate: float) -> str:
    """Return a status as one line for people."""
    lag = status.lag
    parts = [f"{status.state.value} {status.master}".rstrip()]
    if lag.size is not None:
        count = [] if lag.message_count is None else [format_count(lag.message_count, "message")]
        behind = [format_size(lag.size), *count, f"{lag.seconds or 0.0:.1f} s behind"]
        parts.append(", ".join(behind))
    parts.append(f"{format_size(round(rate))}/s")
    late = [
        f"{each.name} {each.state if each.state != 'running' else format_size(each.lag_size)}"
        for each in plugins
        if each.state != "running" or each.lag_size
    ]
    parts.append(f"plugins: {', '.join(late) or 'all up to date'}")
    if status.text:
        parts.append(status.text)
    return " · ".join(parts)
