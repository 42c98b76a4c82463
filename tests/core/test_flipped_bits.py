"""Bytes of a small store have a bit flipped, one at a time; with ``REPUT_SOAK=1`` every bit.

Opening it is an answer or a typed error that names a file. What is shown was put: without
``record_crc`` a record's header, topic and properties may show the flipped bit, as nothing covers
them. No more is lost than the record in which the bit is.
"""

from __future__ import annotations

import os

import pytest
from damagedstores import SOAK, SmallStore, missing, wrong
from statefiles import value_of

from reput_testing.casebudget import least_count

ALWAYS = (
    "abort",
    "checkpoint",
    "lock",
    "reput/state",
)
LOSSES = "reput/state with a loss"
UNUSED = 64  # of a stretch of zeros only the first and the last so many bytes are tried

pytestmark = [
    pytest.mark.usefixtures("quiet"),
    pytest.mark.proof,
    pytest.mark.shows("changed-log", "record-crc"),
]


def _inside(store, offset):
    """Where the record begins in which ``offset`` lies; None behind the last one."""
    return next(
        (start for start, record in store.records.items() if 0 <= offset - start < len(record)),
        None,
    )


@pytest.mark.parametrize("killed", [False, True], ids=["closed", "killed"])
@pytest.mark.parametrize("record_crc", [False, True], ids=["plain", "record-crc"])
def test_a_flipped_bit_of_the_log_costs_its_own_record_at_most(tmp_path, killed, record_crc):
    store = SmallStore(tmp_path / "store", killed=killed, record_crc=record_crc)
    logs = sorted(name for name in store.files if name.startswith("commitlog/"))
    count = 0

    for name in logs:
        base = int(os.path.basename(name))
        for bit, data in store.flips(name, _is_worth_it):
            at = base + bit // 8
            store.damaged(name, data)
            own = _inside(store, at)
            for mode in _modes_of(at):
                found = store.look(mode)
                what = f"{name}, bit {bit}, mode {mode}"
                assert isinstance(found, dict), f"{what}: {found!r}"
                assert set(missing(found, store.records)) <= {own}, what
                changed = wrong(found, store.records)
                assert set(changed) <= {own}, what
                if killed and record_crc:
                    # What was flushed before is not read again.
                    assert own is None or own < store.flushed_to or not changed, what
            count += 1

    assert count >= least_count(300)


def _modes_of(at):
    """A reader or a writer in turn, to be quick; both in a soak run."""
    return ("r", "w") if SOAK else (("r", "w")[at // 3 % 2],)


def _is_worth_it(data, at):
    return any(data[max(at - UNUSED, 0) : at + UNUSED])


@pytest.mark.parametrize("killed", [False, True], ids=["closed", "killed"])
def test_no_small_file_is_forgotten(tmp_path, killed):
    store = SmallStore(tmp_path / "store", killed=killed)

    small = {name for name in store.files if not name.startswith("commitlog/")}

    assert small == {*ALWAYS}


@pytest.mark.parametrize(
    ("name", "killed"),
    [
        pytest.param(name, killed, id=f"{name}-{'killed' if killed else 'closed'}")
        for killed in (False, True)
        for name in (*ALWAYS, LOSSES)
    ],
)
def test_a_flipped_bit_of_a_small_file_costs_no_message(tmp_path, name, killed):
    store = SmallStore(tmp_path / "store", killed=killed)
    if name == LOSSES:
        name = _lose_a_message(store)

    for bit, data in store.flips(name):
        if not _is_worth_it(store.files[name], bit // 8):
            continue
        store.damaged(name, data)
        for mode in _modes_of(bit // 8):
            found = store.look(mode)
            assert found == store.records, f"{name}, bit {bit}, mode {mode}"


def _lose_a_message(store):
    """Make the second record of the store one that was lost and filled; return the file."""
    from reput_testing import snapshot

    offset = sorted(store.records)[1]
    name = "commitlog/" + f"{0:020d}"
    data = bytearray(store.files[name])
    data[offset + 90] ^= 0xFF
    for file in ("reput/state", "checkpoint"):
        store.files.pop(file, None)
    store.damaged(name, bytes(data))
    with open(os.path.join(store.root, "abort"), "w", encoding="ascii") as abort:
        abort.write("1")
    with store.open("w"):
        pass
    store.files = snapshot(store.root)
    del store.records[offset]
    assert value_of(store.root, ".losses")
    return "reput/state"
