"""A power cut at any moment: every state that it may leave opens, and keeps what was promised."""

from __future__ import annotations

import functools

import crashlives
import pytest
from crashlives import one, options_for
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

import reput
from reput.files import mappedfile
from reput.log.writer import writablelog
from reput.store.opening import writeropening
from reput_testing.casebudget import is_soak
from reput_testing.crashes.expectedstate import ExpectedState
from reput_testing.crashes.powercuts import PowerCuts

pytestmark = [pytest.mark.proof, pytest.mark.shows("power-cut")]


message = functools.partial(crashlives.message, queue_count=3)


def several(witness, root):
    witness.open(root)
    witness.put(*map(message, range(3)))
    witness.flush()
    witness.put(message(3), message(4))
    witness.close()


def rolling(witness, root):
    witness.open(root)
    witness.put(*(message(n, 1200) for n in range(8)))
    witness.flush()
    witness.put(message(9, 1200))
    witness.close()


def batches(witness, root):
    witness.open(root)
    witness.put_many([message(n, 700) for n in range(6)])
    witness.put_many([message(n, 700) for n in range(6, 9)])
    witness.close()


def reopened(witness, root):
    witness.open(root)
    witness.put(message(0), message(1, 3000))
    witness.close()
    witness.open(root)
    witness.put(message(2, 3000))
    witness.flush()
    witness.put(message(3))
    witness.close()


@pytest.fixture
def small_steps(monkeypatch):
    """Files that grow do so by a few bytes."""
    for module in (mappedfile, writeropening):
        monkeypatch.setattr(module, "FIRST_SIZE", 600)
    monkeypatch.setattr(mappedfile, "_MOST_GROWTH", 600)
    monkeypatch.setattr(writablelog, "_LEAST_GROWTH", 100)


WORKLOADS = {each.__name__: each for each in (one, several, rolling, batches, reopened)}


@pytest.mark.parametrize("grows", [False, True], ids=["full", "grows"])
@pytest.mark.parametrize("flush", ["sync", "async"])
@pytest.mark.parametrize("workload", WORKLOADS)
def test_whatever_a_power_cut_leaves_opens_and_keeps_what_was_promised(
    tmp_path, workload, flush, grows, record_property, small_steps
):
    cuts = PowerCuts(tmp_path, tries=20)
    options = options_for(flush, commitlog={"grows": grows})

    cuts.live(ExpectedState(options), WORKLOADS[workload])

    record_property("crash states", cuts.tried_count)


def test_records_of_several_pages_are_whole_or_not_there(tmp_path, record_property):
    cuts = PowerCuts(tmp_path, tries=30)

    def life(witness, root):
        witness.open(root)
        witness.put(message(0), message(1, 9000), message(2, 5000), message(3))
        witness.flush()
        witness.put(message(4, 6000), message(5, 40))
        witness.close()

    cuts.live(ExpectedState(options_for("async", commitlog={"file_size": 16_384})), life)

    record_property("crash states", cuts.tried_count)


def test_properties_of_several_pages_are_whole_or_not_there(tmp_path, record_property):
    """No checksum covers them."""
    cuts = PowerCuts(tmp_path, tries=30)

    def long(number, size):
        return reput.Message("T", b"%d" % number, properties={"long": "v" * size})

    def life(witness, root):
        witness.open(root)
        witness.put(message(0), long(1, 9000), long(2, 5000), message(3))
        witness.flush()
        witness.put(long(4, 9000), message(5), long(6, 6000), message(7, 40))
        witness.close()

    cuts.live(ExpectedState(options_for("async", commitlog={"file_size": 32_768})), life)

    record_property("crash states", cuts.tried_count)


@pytest.mark.parametrize("flush", ["sync", "async"])
@pytest.mark.parametrize("workload", ["rolling", "reopened"])
@pytest.mark.costly
def test_a_crash_while_a_crash_is_recovered_from_costs_nothing_more(
    tmp_path, workload, flush, record_property
):
    cuts = PowerCuts(tmp_path, tries=10)

    cuts.live(ExpectedState(options_for(flush)), WORKLOADS[workload], again=(6, 1))

    record_property("crash states", cuts.tried_count)


STEPS = st.one_of(
    st.tuples(
        st.just("put"), st.lists(st.sampled_from([0, 60, 900, 3500]), min_size=1, max_size=3)
    ),
    st.tuples(st.just("many"), st.lists(st.sampled_from([5, 60, 900]), min_size=1, max_size=6)),
    st.sampled_from([("flush", []), ("reopen", [])]),
)


@settings(
    max_examples=200 if is_soak() else 6,
    deadline=None,
    derandomize=not is_soak(),
    database=None,
    phases=[Phase.generate],  # the state's id says enough, and shrinking takes minutes
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
@given(flush=st.sampled_from(["sync", "async"]), steps=st.lists(STEPS, min_size=1, max_size=6))
@pytest.mark.costly
def test_so_it_is_with_any_workload(tmp_path_factory, flush, steps):
    def life(witness, root):
        witness.open(root)
        number = 0
        for step, sizes in steps:
            batch = [message(number + at, size) for at, size in enumerate(sizes)]
            number += len(batch)
            if step == "put":
                witness.put(*batch)
            elif step == "many":
                witness.put_many(batch)
            elif step == "flush":
                witness.flush()
            else:
                witness.close()
                witness.open(root)
        witness.close()

    cuts = PowerCuts(tmp_path_factory.mktemp("cuts"), tries=15)
    cuts.live(ExpectedState(options_for(flush)), life, again=(2,))
