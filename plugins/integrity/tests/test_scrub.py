"""A scrub reads all of the log, at its pace, remembers its place, and says what has changed."""

from __future__ import annotations

import json
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from commands import commands
from permissions import forbid_writing

import reput
from reput.errors import CorruptFileError, StoreLockedError
from reput.files import Disk, file_name
from reput_integrity import BackgroundScrub, Scrubber, ScrubState
from reput_integrity.scrub.tokenbucket import TokenBucket
from reput_testing import ManualClock, snapshot

pytestmark = pytest.mark.sizes(commitlog={"window_size": 8192})

LOG = {"file_size": 65_536}
SMALL = {"commitlog": LOG}
COUNT = 600


class Time:
    """Seconds that pass only while somebody sleeps."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def root(tmp_path):
    return filled(tmp_path / "s")


def filled(root: Path, plugins: Any = ("integrity",)) -> Path:
    with reput.open(
        root, config=SMALL, plugins=plugins, clock=ManualClock(), threads=False
    ) as store:
        for number in range(COUNT):
            store.put(reput.Message("orders", b"%04d" % number * 40, keys=f"key{number}"))
        store.wait_dispatched()
    return root


def change(root: Path, text: bytes, base: int = 0) -> int:
    """Flip a bit where ``text`` stands in a file of the log; return the file position."""
    path = root / "commitlog" / file_name(base)
    data = bytearray(path.read_bytes())
    at = data.index(text)
    data[at] ^= 1
    path.write_bytes(data)
    return at


def scrub(root: Path, *arguments: str) -> Any:
    options = [] if "--rate" in arguments else ["--rate", "0"]
    with commands() as run:
        return run("scrub", root, *options, *arguments)


def size_of_log(root: Path) -> int:
    with reput.open(root, "r", plugins=[]) as store:
        return store.log.max_physical_offset


# ---------------------------------------------------------------------------- reading


def test_all_of_a_sound_log_is_read_and_nothing_found(root):
    with Scrubber(root) as scrubber:
        state = scrubber.run()

    assert (state.finding_count, state.rounds, state.began) == (0, 1, None)
    assert state.read_size == size_of_log(root)


def test_a_bit_that_only_sums_show_and_one_of_a_body_are_found(root):
    in_key = change(root, b"key7")
    in_body = change(root, b"0033" * 40)

    with Scrubber(root) as scrubber:
        found = scrubber.run().findings

    assert sorted(each.kind for each in found) == ["damage", "record"]
    places = {each.kind: (each.position, each.position + each.size) for each in found}
    assert places["record"][0] <= in_key < places["record"][1]
    assert places["damage"][0] <= in_body < places["damage"][1]
    assert {each.queue_offset for each in found} == {7, 33}


def test_a_store_without_sums_has_its_bodies_checked(tmp_path):
    root = filled(tmp_path / "s", plugins=())
    change(root, b"key7")
    change(root, b"0033" * 40)

    with Scrubber(root) as scrubber:
        found = scrubber.run().findings

    assert [(each.kind, each.queue_offset) for each in found] == [("damage", 33)]


def test_records_without_a_sum_are_told(root):
    name = file_name(65_536)
    (root / "integrity" / "sums" / name).unlink()

    with Scrubber(root) as scrubber:
        found = scrubber.run().findings

    assert {each.kind for each in found} == {"uncovered"}
    assert {each.path for each in found} == {f"commitlog/{name}"}
    assert not any(each.is_damage for each in found)


def test_it_reads_beside_a_writer(root):
    with reput.open(root, clock=ManualClock(), threads=False) as store:
        with Scrubber(root) as scrubber:
            scrubber.step()
            store.put_many([reput.Message("orders", b"new" * 100) for _ in range(300)])
            store.wait_dispatched()
            state = scrubber.run()

    assert state.finding_count == 0
    assert state.rounds == 1


# ---------------------------------------------------------------------------- pace


def test_no_more_is_read_than_the_rate_allows(root):
    time = Time()
    with Scrubber(root, 10_000, monotonic=time) as scrubber:
        scrubber.run(sleep=time.sleep)

    assert time.now == pytest.approx(size_of_log(root) / 10_000, rel=0.01)


def test_time_without_reading_is_not_saved_up():
    time = Time()
    pace = TokenBucket(1_000, time)
    time.now = 100.0

    pace.take(500)

    assert pace.delay == pytest.approx(0.5)
    time.now += 0.2
    assert pace.delay == pytest.approx(0.3)
    time.now += 5
    assert pace.delay == 0


# ---------------------------------------------------------------------------- memory


def test_a_scrub_that_was_interrupted_goes_on_where_it_was(root):
    with Scrubber(root) as scrubber:
        for _ in range(3):
            scrubber.step()
        done = scrubber.state.position

    with Scrubber(root) as scrubber:
        state = scrubber.run()
        assert scrubber.state.rounds == 1

    assert 0 < done < size_of_log(root)
    assert state.read_size == size_of_log(root)  # of both parts of the round


def test_what_an_interrupted_scrub_has_found_counts_at_its_end(root):
    change(root, b"key7")
    with Scrubber(root) as scrubber:
        while not scrubber.state.finding_count:
            scrubber.step()

    with Scrubber(root) as scrubber:
        state = scrubber.run()

    assert [each.queue_offset for each in state.findings] == [7]


def test_a_log_that_was_cut_meanwhile_is_no_damage(root):
    with Scrubber(root) as scrubber:
        for _ in range(3):
            scrubber.step()
        position = scrubber.state.position
    path = root / "reput" / "scrub"
    document = json.loads(path.read_text())
    path.write_text(json.dumps(document | {"position": position + 3}))

    with Scrubber(root) as scrubber:
        state = scrubber.run()

    assert state.finding_count == 0


@pytest.mark.parametrize("text", ["", "{", "[]", '{"version": 9}', '{"version": 1, "findings": 5}'])
def test_a_state_that_cannot_be_used_begins_anew(tmp_path, text):
    path = tmp_path / "scrub"
    path.write_text(text)

    assert ScrubState.load(str(path), Disk()) == ScrubState()


def test_two_scrubs_of_one_store_exclude_each_other(root):
    with Scrubber(root), pytest.raises(StoreLockedError):
        Scrubber(root)
    Scrubber(root).close()


def test_a_store_that_reput_never_wrote_gets_no_file(root):
    for path in sorted((root / "reput").rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    (root / "reput").rmdir()
    before = sorted(root.rglob("*"))

    with Scrubber(root) as scrubber:
        state = scrubber.run()

    assert not scrubber.remembers
    assert state.rounds == 1
    assert sorted(root.rglob("*")) == before


def test_a_store_that_cannot_be_written_is_scrubbed_from_its_beginning(root, monkeypatch):
    with Scrubber(root) as scrubber:
        scrubber.step()
    before = snapshot(root)
    forbid_writing(monkeypatch, root)

    with Scrubber(root) as scrubber:
        state = scrubber.run()

    assert not scrubber.remembers
    assert (state.rounds, state.finding_count, state.read_size) == (1, 0, size_of_log(root))
    assert snapshot(root) == before


def test_a_store_that_becomes_read_only_is_scrubbed_to_its_end(root, monkeypatch):
    with Scrubber(root) as scrubber:
        scrubber.step()
        forbid_writing(monkeypatch, root)

        assert scrubber.run().rounds == 1
        assert not scrubber.remembers


def test_a_place_that_is_named_must_be_writable(root, tmp_path, monkeypatch):
    (tmp_path / "places").mkdir()
    forbid_writing(monkeypatch, tmp_path / "places")

    with pytest.raises(OSError, match="Read-only file system"):
        Scrubber(root, state=tmp_path / "places" / "one")


# ---------------------------------------------------------------------------- in a program


def test_a_program_scrubs_in_the_background(root):
    change(root, b"key7")
    found, is_found = [], threading.Event()

    def tell(finding):
        found.append(finding)
        is_found.set()

    with BackgroundScrub(Scrubber(root), 1 << 40, tell):
        assert is_found.wait(30)

    assert [each.queue_offset for each in found] == [7]
    Scrubber(root).close()  # the lock is free


def test_a_round_in_the_background_begins_when_it_is_due(root):
    clock, rounds = ManualClock(), threading.Semaphore(0)

    class Counting(Scrubber):
        def save(self):
            super().save()
            if self.state.began is None and self.state.rounds:
                self.clock.now += 1_000
                rounds.release()

    scrubber = Counting(root, clock=clock)
    with BackgroundScrub(scrubber, 1_000):
        assert rounds.acquire(timeout=30)
        assert rounds.acquire(timeout=30)

    assert scrubber.state.rounds >= 2


def test_what_prevents_a_round_in_the_background_is_tried_again(root, monkeypatch, caplog):
    monkeypatch.setattr("reput_integrity.scrub.backgroundscrub._PAUSE", 0.001)
    is_found = threading.Event()
    change(root, b"key7")
    failures = [OSError(5, "not today"), CorruptFileError("a", 0, "nor today")]

    class Failing(Scrubber):
        def step(self):
            if failures:
                raise failures.pop()
            return super().step()

    with BackgroundScrub(Failing(root), found=lambda finding: is_found.set()):
        assert is_found.wait(30)

    assert [record.levelname for record in caplog.records].count("WARNING") == 2


# ---------------------------------------------------------------------------- command


def test_the_command_says_what_it_found_and_exits_with_it(root):
    sound = scrub(root)
    change(root, b"key7")
    damaged = scrub(root)

    assert (sound.code, damaged.code) == (0, 1)
    assert sound.out.startswith("No damage found: ")
    assert "orders queue 0 offset 7: the record is not what was summed" in damaged.out
    assert "reput verify" in damaged.out


def test_the_command_prints_json_lines(root):
    change(root, b"key7")

    lines = scrub(root, "--json").lines

    assert [next(iter(line)) for line in lines] == ["finding", "round"]
    assert lines[0]["finding"]["queue_offset"] == 7
    assert lines[1]["round"]["finding_count"] == 1
    assert lines[1]["round"]["has_sums"]


def test_the_command_says_that_another_scrub_runs(root):
    with Scrubber(root):
        result = scrub(root)

    assert result.code == 4
    assert "another scrub of this store is running" in result.err


def test_the_command_refuses_what_cannot_be(root):
    assert scrub(root, "--once", "--every", "7d").code == 2
    assert scrub(root, "--rate", "fast").code == 2
    assert scrub(root / "nothing").code == 3


def test_every_goes_on_until_it_is_ended(root, monkeypatch):
    slept = []

    def sleep(seconds):
        slept.append(seconds)
        raise KeyboardInterrupt

    monkeypatch.setattr("time.sleep", sleep)
    result = scrub(root, "--every", "30m")

    assert result.code == 130
    assert 1_700 < slept[0] <= 1_800


def test_without_psutil_it_scrubs_too(root, monkeypatch):
    monkeypatch.setitem(sys.modules, "psutil", None)

    assert scrub(root).code == 0


def test_a_state_elsewhere_remembers_the_place(root, tmp_path):
    file = tmp_path / "place"

    result = scrub(root, "--state", str(file))

    assert result.code == 0
    assert json.loads(file.read_text())["rounds"] == 1
    assert not (root / "reput" / "scrub").exists()
