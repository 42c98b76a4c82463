"""Records terminals: ``make pictures`` writes `docs/images/terminal.svg` and `follow.svg`.

The commands run for real, in a terminal of their own, in a directory that is removed afterwards.
The picture shows their output as it came, faster where it took long. It begins with its last frame,
which is all that a viewer without animations shows, and moves once, by its own style sheet.

A command that ends in ``&`` runs until the recording ends; of its line, which it draws over itself,
the picture has the state in which it says that all is well.
"""

from __future__ import annotations

import os
import pty
import re
import shlex
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple
from xml.sax.saxutils import escape

from rich.style import Style
from rich.text import Text
from runningbroker import running_broker

IMAGES = Path(__file__).resolve().parents[1] / "images"


class Recording(NamedTuple):
    """A picture, the commands in it, and what is there while they run."""

    image: str
    commands: tuple[str, ...]
    around: Callable[[str], AbstractContextManager[str]] = lambda directory: nullcontext("")
    """Given the directory, returns a directory of commands that come before others."""
    pause: float = 0.0
    """Seconds of rest before each command."""


_ASK = 'reput plugins query copy counter "SELECT tag, sum(messages) FROM counter GROUP BY tag"'
RECORDINGS = (
    Recording(
        "terminal.svg",
        (
            "reput demo -d shop",
            "reput info shop",
            "reput cat shop orders --tag paid --count 3",
        ),
    ),
    Recording(
        "follow.svg",
        (
            "reput plugins new counter",
            "pip install --quiet --no-deps --editable reput-counter",
            "reput follow copy --from 127.0.0.1:10911 --plugins consumequeue,counter &",
            _ASK,
            _ASK,
            _ASK,
        ),
        around=running_broker,
        pause=2.0,
    ),
)

_COLUMNS, _ROWS = 94, 30
_CHAR, _LINE = 8.2, 18  # pixels
_LEFT, _TOP = 18, 50
_LONGEST_GAP = 0.5  # seconds
_TYPING = 0.7
_READING = 2.6  # after a command has ended
_UP = "\x1b[1A"
_WELL = re.compile(r"[^\r\n]*[1-9][0-9.]* [KM]iB/s · plugins: all up to date")
"""The line of `reput follow` while messages come."""
_STILL = 3.0  # of the last frame, before the picture moves
_COLOURS = {1: "#ff7b72", 2: "#7ee787", 3: "#e3b341", 4: "#79c0ff", 5: "#d2a8ff", 6: "#76e3ea"}
_CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-HJKSTfhlnsu]")


class Line(NamedTuple):
    """A line of the terminal, and when it appeared."""

    text: Text
    seconds: float


def run(command: str, directory: str, tools: str) -> list[tuple[str, float]]:
    """What a command prints to a terminal, line by line, with seconds since its start."""
    begun = time.monotonic()
    lines: list[tuple[str, float]] = []
    rest = b""
    with _started(command, directory, tools) as (process, parent):
        while data := _read(parent):
            rest += data
            *whole, rest = rest.split(b"\n")
            seconds = time.monotonic() - begun
            for line in whole:
                text = line.decode(errors="replace")
                # A bar that is removed goes up to its line, and writes what follows there.
                del lines[len(lines) - min(text.count(_UP), len(lines)) :]
                lines.append((text, seconds))
        if process.wait() != 0:
            shown = "\n".join(line for line, _ in lines)
            raise SystemExit(f"{command}: ended with code {process.returncode}\n{shown}")
    return lines


@contextmanager
def _started(
    command: str, directory: str, tools: str
) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """Start a command in a terminal of its own; give the process, and the terminal's other end."""
    parent, child = pty.openpty()
    own = str(Path(sys.executable).parent)
    environment = {
        **os.environ,
        "COLUMNS": str(_COLUMNS),
        "LINES": str(_ROWS),
        "TERM": "xterm-256color",
        "PATH": os.pathsep.join(filter(None, [tools, own, os.environ["PATH"]])),
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        "PIP_NO_BUILD_ISOLATION": "0",  # no isolation: what builds is there, see `running_broker`
    }
    process = subprocess.Popen(
        shlex.split(command), cwd=directory, env=environment,
        stdin=subprocess.DEVNULL, stdout=child, stderr=child,
    )  # fmt: skip
    os.close(child)
    try:
        yield process, parent
    finally:
        os.close(parent)


@contextmanager
def beside(command: str, directory: str, tools: str) -> Iterator[list[tuple[str, float]]]:
    """Run a command until the block ends; give its line, and seconds until that appeared."""
    begun, found = time.monotonic(), ""
    with _started(command.removesuffix(" &"), directory, tools) as (process, parent):
        while (line := _WELL.search(_CONTROL.sub("", found))) is None:
            data = _read(parent)
            if not data:
                raise SystemExit(f"{command}: ended\n{found}")
            found += data.decode(errors="replace")
        reader = threading.Thread(target=_drain, args=(parent,))
        reader.start()
        try:
            yield [(line[0], time.monotonic() - begun)]
        finally:
            process.send_signal(signal.SIGINT)
            process.wait()
            reader.join()


def _drain(terminal: int) -> None:
    while _read(terminal):
        pass


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65_536)
    except OSError:  # the other end is closed: Linux says so
        return b""


def record(recording: Recording, directory: str) -> list[Line]:
    """All lines of all commands, cut where a terminal would break them."""
    lines: list[Line] = []
    now = 0.0
    with ExitStack() as stack:
        tools = stack.enter_context(recording.around(directory))
        for command in recording.commands:
            time.sleep(recording.pause)
            prompt = Text.assemble(("$ ", "green"), (command, "bold"))
            lines.append(Line(prompt, now))
            now += _TYPING
            previous = 0.0
            if command.endswith(" &"):
                printed = stack.enter_context(beside(command, directory, tools))
            else:
                printed = run(command, directory, tools)
            for raw, seconds in printed:
                now += min(seconds - previous, _LONGEST_GAP)
                previous = seconds
                # Of a bar that was drawn over itself the last state.
                shown = _CONTROL.sub("", raw.rstrip("\r")).rpartition("\r")[2]
                text = Text.from_ansi(shown.replace(f"{directory}/", "~/"))
                cuts = range(_COLUMNS, len(text), _COLUMNS)
                lines += (
                    [Line(piece, now) for piece in text.divide(cuts)] if text else [Line(text, now)]
                )
            now += _READING
    lines.append(Line(Text.assemble(("$ ", "green"), ("█", "dim")), now - _READING))
    return lines


def _spans(text: Text) -> str:
    parts = []
    edges = sorted(
        {0, len(text), *(edge for span in text.spans for edge in (span.start, span.end))}
    )
    for start, end in pairwise(edges):
        names = [
            name
            for span in text.spans
            if span.start <= start and end <= span.end
            for name in _names_of(span.style)
        ]
        inner = escape(text.plain[start:end])
        parts.append(f'<tspan class="{" ".join(names)}">{inner}</tspan>' if names else inner)
    return "".join(parts)


def _names_of(style: str | Style) -> list[str]:
    parsed = Style.parse(style) if isinstance(style, str) else style
    number = parsed.color.number if parsed.color else None
    names = [f"c{number}"] if number in _COLOURS else []
    return names + ["b"] * bool(parsed.bold) + ["d"] * bool(parsed.dim)


def svg(lines: list[Line], commands: tuple[str, ...]) -> str:
    """The recorded lines as a picture that scrolls like the terminal did."""
    width = round(_COLUMNS * _CHAR + 2 * _LEFT)
    height = _TOP + _ROWS * _LINE + 4
    total = lines[-1].seconds + 0.5
    shown: dict[float, int] = {}  # lines that have appeared by a time
    for number, line in enumerate(lines, 1):
        shown[line.seconds] = number
    hidden = max(0, len(lines) - _ROWS)
    frames, rows_above = [(0.0, 0)], 0
    for seconds, count in shown.items():
        frames.append((seconds, rows_above))
        rows_above = max(0, count - _ROWS)
        frames.append((seconds + 0.01, rows_above))
    # Seen from where it ends, as a picture that stands still does.
    steps = "".join(
        f"{100 * seconds / total:.2f}%{{transform:translateY({(hidden - rows) * _LINE}px)}}"
        for seconds, rows in frames
    )
    colours = "".join(f".t .c{number}{{fill:{value}}}" for number, value in _COLOURS.items())
    names = {seconds: f"a{number}" for number, seconds in enumerate(shown)}
    # No animation has an effect before its delay is over: until then all lines are seen.
    appearing = "".join(
        f"@keyframes {name}{{0%,{100 * seconds / total:.2f}%{{opacity:0}}"
        f"{100 * seconds / total + 0.01:.2f}%,to{{opacity:1}}}}"
        f".t .{name}{{animation-name:{name}}}"
        for seconds, name in names.items()
    )
    style = (
        ".t text{font:13.5px ui-monospace,'DejaVu Sans Mono',Menlo,Consolas,monospace;"
        f"fill:#d5dae1;white-space:pre}}"
        f".t .b{{font-weight:700;fill:#f4f7fa}}.t .d{{fill:#8d97a5}}{colours}"
        "@media (prefers-reduced-motion:no-preference){"
        f".t .l,.t .s{{animation:scroll {total:.1f}s linear {_STILL}s}}"
        f"@keyframes scroll{{{steps}}}{appearing}}}"
    )
    rows = "\n".join(
        f'<text class="l {names[line.seconds]}" x="{_LEFT}" y="{_TOP + number * _LINE + 13}" '
        f'xml:space="preserve" textLength="{len(line.text) * _CHAR:g}" '
        f'lengthAdjust="spacingAndGlyphs">{_spans(line.text)}</text>'
        for number, line in enumerate(lines)
        if line.text.plain.strip()
    )
    dots = "".join(
        f'<circle cx="{24 + 20 * number}" cy="21" r="6" fill="{colour}"/>'
        for number, colour in enumerate(("#ff5f57", "#febc2e", "#28c840"))
    )
    said = escape("A terminal: " + "; ".join(commands), {'"': "&quot;"})
    return (
        '<svg xmlns="http://www.w3.org/2000/svg" class="t" role="img" '
        f'aria-label="{said}" viewBox="0 0 {width} {height}" '
        f'width="{width}" height="{height}">\n'
        f"<title>{said}</title>\n<style>{style}</style>\n"
        f'<clipPath id="screen"><rect x="0" y="{_TOP - 1}" width="{width}" '
        f'height="{_ROWS * _LINE + 1}"/></clipPath>\n'
        f'<rect width="{width}" height="{height}" rx="10" fill="#161b22" stroke="#3d444d"/>'
        f"\n{dots}\n"
        f'<g clip-path="url(#screen)"><g transform="translate(0 {-hidden * _LINE})">'
        f'<g class="s">\n{rows}\n</g></g></g>\n</svg>\n'
    )


def main() -> None:
    """Record, and write the pictures, or only those that are named."""
    for recording in RECORDINGS:
        if len(sys.argv) > 1 and recording.image not in sys.argv[1:]:
            continue
        with tempfile.TemporaryDirectory() as directory:
            lines = record(recording, os.path.realpath(directory))
        text = svg(lines, recording.commands)
        (IMAGES / recording.image).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
