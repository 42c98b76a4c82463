"""A walk reads a log past damage, as far as its policy says that the log goes on."""

from __future__ import annotations

import attrs

import reput
from reput.log import Damage, LogWalk, NextRecord

CONFIG = {"commitlog": {"file_size": 4096}}


@attrs.define
class Recorder:
    """A policy that asks a log for the damage, ``patience`` times."""

    log: object
    patience: int
    asked: list[int] = attrs.field(factory=list)

    def limit(self, position):
        return None

    def past(self, at, finding):
        self.asked.append(at)
        if len(self.asked) > self.patience:
            return None
        damages = self.log.finder().damages_at(at, finding)
        return NextRecord(damages[-1].end_offset, damages) if damages else None


def walked(root, patience):
    with reput.open(root, "r", plugins=[]) as store:
        policy = Recorder(store.log, patience)
        walk = LogWalk(store.log.window_reader(check_crc=True), 0, policy)
        offsets, damages = [], []
        for found in walk:
            if isinstance(found, Damage):
                damages.append(found.start_offset)
            else:
                offsets += found.physical_offset.tolist()
    return offsets, damages, walk


def damaged_log(root, *numbers):
    """A closed log of 60 messages in several files, with damaged bodies; where each begins."""
    with reput.open(root, plugins=[], config=CONFIG, threads=False) as store:
        places = [store.put(reput.Message("t", b"x" * 100)).physical_offset for _ in range(60)]
    for number in numbers:
        base = places[number] - places[number] % 4096
        with open(root / "commitlog" / f"{base:020d}", "r+b") as file:
            file.seek(places[number] - base + 90)
            file.write(b"y")
    return places


def test_a_walk_yields_every_sound_record_and_the_damage_between(tmp_path):
    places = damaged_log(tmp_path, 0, 10, 11, 45)

    offsets, damages, walk = walked(tmp_path, patience=100)

    assert offsets == [
        place for number, place in enumerate(places) if number not in (0, 10, 11, 45)
    ]
    # Damaged records that follow each other are one damage.
    assert damages == [places[0], places[10], places[45]]
    assert walk.position == places[-1] + places[1] - places[0]
    assert walk.finding is None


def test_a_walk_ends_where_its_policy_says_so(tmp_path):
    places = damaged_log(tmp_path, 20, 45)

    offsets, damages, walk = walked(tmp_path, patience=1)

    assert offsets == [*places[:20], *places[21:45]]
    assert damages == [places[20]]
    assert walk.position == places[45] == walk.finding.physical_offset
