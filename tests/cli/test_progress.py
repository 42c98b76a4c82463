from __future__ import annotations

import io
from pathlib import Path

import pytest
from brokerdirectories import unpacked

from reput_tools.cli.kit import open_to_read
from reput_tools.cli.kit.progressbar import PATIENCE_S, ProgressBar


class Screen(io.StringIO):
    """A stderr that says that it is a terminal."""

    def isatty(self) -> bool:
        return True


class Clock:
    """Seconds that pass only when told."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def shown_on(monkeypatch: pytest.MonkeyPatch) -> Screen:
    """Return the terminal that stderr is from now on."""
    screen = Screen()
    monkeypatch.setattr("sys.stderr", screen)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")
    return screen


def test_nothing_is_shown_where_no_terminal_is(capsys: pytest.CaptureFixture[str]) -> None:
    clock = Clock()

    with ProgressBar("working", 10, clock=clock) as progress:
        clock.now += 60
        progress.advance(5)

    assert progress.done == 5
    assert capsys.readouterr().err == ""


def test_nothing_is_shown_of_work_that_is_done_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    screen, clock = shown_on(monkeypatch), Clock()

    with ProgressBar("working", 10, clock=clock) as progress:
        clock.now += PATIENCE_S / 2
        progress.advance(10)

    assert screen.getvalue() == ""


def test_longer_work_shows_a_bar_with_its_rate(monkeypatch: pytest.MonkeyPatch) -> None:
    screen, clock = shown_on(monkeypatch), Clock()

    with ProgressBar("working", 4000, clock=clock) as progress:
        clock.now += 2
        progress.update(2000)

    shown = screen.getvalue()
    assert "working" in shown
    assert "2000/4000" in shown
    assert "1,000 messages/s" in shown


def test_bytes_are_shown_in_their_units(monkeypatch: pytest.MonkeyPatch) -> None:
    screen, clock = shown_on(monkeypatch), Clock()

    with ProgressBar("dispatching", None, "bytes", clock=clock) as progress:
        clock.now += 1
        progress.update(8 << 20, 64 << 20)

    assert "8.0/64.0 MiB" in screen.getvalue()
    assert "8.0 MiB/s" in screen.getvalue()


def test_a_bar_is_hidden_before_results_and_comes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    screen, clock = shown_on(monkeypatch), Clock()

    with ProgressBar("reading", 4000, clock=clock) as progress:
        clock.now += 2
        progress.update(1000)
        progress.hide()
        hidden = len(screen.getvalue())
        progress.update(1500)
        assert len(screen.getvalue()) == hidden  # results may follow at once
        clock.now += PATIENCE_S
        progress.update(2000)

    assert "2000/4000" in screen.getvalue()[hidden:]


def test_a_bar_shows_how_far_queues_are_found_in_the_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root, seen = unpacked("rocketmq-5.5.0/rocksdb-queues", tmp_path), []

    def update(bar: ProgressBar, done: int, total: int | None = None) -> None:
        seen.append((bar._label, done, total))

    monkeypatch.setattr(ProgressBar, "update", update)
    with open_to_read(str(root)) as store:
        assert not [label for label, _, _ in seen if "queues" in label]
        assert len(store.queues()) == 14
        end = store.log.max_physical_offset
    shown = [each for each in seen if "queues" in each[0]]

    assert shown[0][1:] == (0, end)
    assert shown[-1][1:] == (end, end)
