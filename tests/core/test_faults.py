"""Each operation of the disk fails, once or for good: errors are told, nothing promised is lost."""

from __future__ import annotations

import errno

import pytest

import reput
from reput.errors import PutError
from reput_testing import FaultyDisk, QuickDisk
from reput_testing.casebudget import least_count
from reput_testing.crashes.expectedstate import ExpectedState, messages_of
from reput_testing.crashes.faultsweep import Faults
from reput_testing.crashes.powercuts import PowerCuts
from reput_testing.disks.simulateddisk import FaultySimulatedDisk

pytestmark = [pytest.mark.proof, pytest.mark.shows("failing-disk")]


def options_for(flush):
    log = {"file_size": 4096, "flush": flush}
    return {"plugins": [], "config": {"commitlog": log}}


def message(number, size=20):
    return reput.Message(f"T{number % 2}", (b"%d:" % number).ljust(size, b"x"), number % 3)


STEPS = [
    lambda witness: witness.put(message(0)),
    lambda witness: witness.put(message(1, 2500)),
    lambda witness: witness.put(message(2, 2500)),
    lambda witness: witness.flush(),
    lambda witness: witness.dispatched(),
    lambda witness: witness.put_many([message(n, 900) for n in range(3, 9)]),
    lambda witness: witness.put(message(9)),
    lambda witness: witness.flush(),
]


@pytest.mark.parametrize("flush", ["sync", "async"])
def test_any_operation_may_fail(tmp_path, flush, record_property):
    faults = Faults(tmp_path, options_for(flush), every=3)

    faults.try_all(STEPS)

    assert faults.count >= least_count(100)
    record_property("faults", faults.count)


def test_writes_that_store_a_part_of_their_bytes_are_finished(tmp_path):
    disk = FaultyDisk(short_writes=True)
    witness = ExpectedState(options_for("async"), disk=disk)
    for life in range(2):
        witness.open(tmp_path / "store")
        witness.put(message(life))
        witness.close()

    with reput.open(tmp_path / "store", **witness.options) as store:
        assert store.clean
        assert len(messages_of(store)) == 2


@pytest.mark.shows("failed-flush")
@pytest.mark.parametrize("flush", ["sync", "async"])
@pytest.mark.costly
def test_what_was_promised_around_a_failed_flush_survives_a_power_cut(
    tmp_path, flush, record_property
):
    # Linux drops the pages that it could not write, and says yes to the next flush.
    def run(number):
        cuts = PowerCuts(tmp_path / str(number), tries=5)
        witness = ExpectedState(options_for(flush))
        directory = tmp_path / str(number) / "disk"
        directory.mkdir(parents=True)
        disk = witness.disk = FaultySimulatedDisk(
            directory, witness.note, number, error=errno.EIO, operations={"flush"}
        )
        faults.run(witness, str(directory / "store"), STEPS)
        if number is not None:
            disk.mend()
            witness.store = None
            if (directory / "store").exists():
                witness.open(directory / "store")
                witness.put(reput.Message("again", b"1"))
                witness.close()
            disk.points.append(disk.now("the end"))
            cuts.try_all(
                disk.points,
                lambda state, root: witness.check(root / "store", state.point.note),
            )
        return cuts.tried_count, len(disk.calls)

    faults = Faults(tmp_path, options_for(flush))
    _, flush_count = run(None)
    total = sum(run(number)[0] for number in range(1, flush_count + 1))

    record_property("crash states", total)
    record_property("faults", flush_count)


def test_a_store_can_be_opened_once_the_disk_has_space_again(tmp_path):
    with reput.open(tmp_path / "store", disk=QuickDisk(), **options_for("async")) as store:
        store.put(message(0))
    whole = FaultyDisk()
    reput.open(tmp_path / "store", disk=whole, threads=False, **options_for("async")).close()

    for number in range(1, len(whole.calls) + 1):
        disk = FaultyDisk(number, lasting=True)
        with pytest.raises((OSError, PutError), match="No space left"):
            reput.open(tmp_path / "store", disk=disk, threads=False, **options_for("async")).close()
        with reput.open(tmp_path / "store", disk=QuickDisk(), **options_for("async")) as store:
            assert [view.body for view in messages_of(store)] == [message(0).body], number
