"""Every decoder is given bytes that are nearly right, and must say so or be right about them.

`REPUT_FUZZ_EXAMPLES` is how many examples each target gets; a failure is printed with the line that
reproduces it. ``tox -e fuzz`` runs these for long, and a coverage-guided fuzzer behind them.
"""

from __future__ import annotations

import logging
import os

import decodertargets
import pytest
from hypothesis import HealthCheck, given, settings, target

from reput_testing.logs import fuzzing

pytestmark = pytest.mark.shows("arbitrary-bytes")

EXAMPLES = int(os.environ.get("REPUT_FUZZ_EXAMPLES", "60"))
SAME_SIZE = {"store"}  # files of a store have the size that they have


@pytest.mark.proof
@pytest.mark.parametrize("name", sorted(decodertargets.TARGETS))
@pytest.mark.costly
def test_any_bytes_are_decoded_rightly_or_refused_with_a_typed_error(name, caplog):
    function, seeds = decodertargets.TARGETS[name]
    caplog.set_level(logging.CRITICAL + 1, "reput")

    @settings(
        max_examples=EXAMPLES,
        deadline=None,
        print_blob=True,
        suppress_health_check=list(HealthCheck),
    )
    @given(fuzzing.mutated(seeds, same_size=name in SAME_SIZE))
    def check(data):
        target(float(function(data)))

    check()


@pytest.mark.parametrize("name", sorted(decodertargets.TARGETS))
def test_every_target_understands_its_seeds(name):
    function, seeds = decodertargets.TARGETS[name]

    assert max(function(seed) for seed in seeds) >= 1
