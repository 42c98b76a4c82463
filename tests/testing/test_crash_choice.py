"""Which crash states are tried: each can be chosen, and none needs a change that is not there."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reput_testing import PowerCuts, SimulatedDisk
from reput_testing.disks.crashstates import CrashPoint, NameChange

NAMES = st.tuples(st.integers(0, 1), st.sampled_from("abc"))
CHANGES = st.lists(st.lists(NAMES, min_size=1, max_size=2, unique=True), max_size=6)


def point_with(names_of_changes):
    changes = tuple(
        NameChange(moment, "change", tuple((*name, moment) for name in names))
        for moment, names in enumerate(names_of_changes, 1)
    )
    return CrashPoint(0, "change", None, len(changes), 0, {0: {}}, {}, changes)


def survives(names_of_changes, kept):
    """Whether every change that is kept finds all earlier changes of its names kept."""
    for earlier, later in itertools.combinations(range(len(kept)), 2):
        shared = {*names_of_changes[later]} & {*names_of_changes[earlier]}
        if shared and kept[later] and not kept[earlier]:
            return False
    return True


@given(CHANGES)
def test_the_states_of_names_are_all_that_lack_no_change_that_another_needs(names_of_changes):
    point = point_with(names_of_changes)

    found = {state.choices for state in point.states(most=64)}

    every = itertools.product((0, 1), repeat=len(names_of_changes))
    assert found == {kept for kept in every if survives(names_of_changes, kept)}


def busy_disk(directory):
    directory.mkdir(exist_ok=True)
    disk = SimulatedDisk(directory)
    for name in "abc":
        descriptor = disk.open(f"{disk.directory}/{name}", create=True)
        for page in range(2):
            disk.write(descriptor, name.encode() * 4096, page * 4096)
        disk.close(descriptor)
        disk.replace(f"{disk.directory}/note", name.encode())
    return disk


@pytest.mark.parametrize("most", [4, 64])
def test_a_point_has_no_more_states_than_it_is_given_places_for(tmp_path, most):
    for point in busy_disk(tmp_path).points:
        states = list(point.states(most=most, random_count=8))

        assert 1 <= len(states) <= point.most_states(most=most, random_count=8)


@pytest.mark.proof
@pytest.mark.parametrize("most", [4, 64])
@pytest.mark.costly
def test_without_a_limit_every_look_of_every_point_is_tried(tmp_path, most):
    points = busy_disk(tmp_path / "disk").points
    tried = []
    cuts = PowerCuts(tmp_path / "cuts", most=most)

    cuts.try_all(points, lambda state, directory: tried.append(state))

    looks = [(state.fingerprint(), repr(state.point.note)) for state in tried]
    every = {
        (state.fingerprint(), repr(point.note))
        for point in points
        for state in point.states(most=most, random_count=8)
    }
    assert len(looks) == len(set(looks))
    assert set(looks) == every


def test_with_a_limit_so_many_are_tried_and_they_come_from_all_of_the_points(tmp_path):
    points = busy_disk(tmp_path / "disk").points
    tried = []
    cuts = PowerCuts(tmp_path / "cuts", tries=12)

    cuts.try_all(points, lambda state, directory: tried.append(state.point.number))

    assert len(tried) == cuts.tried_count == 12
    assert tried == sorted(tried)
    assert tried[0] < len(points) // 3 < 2 * len(points) // 3 < tried[-1]
