"""Fixtures that every folder of tests shares: silence, and stores that Apache RocketMQ wrote."""

from __future__ import annotations

import faulthandler
import functools
import gc
import gzip
import json
import logging
import math
import os
import sys
import tarfile
import time
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

# Machines are shared: how long an example takes says nothing of what it tests.
settings.register_profile("reput", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("reput")

GOLDEN = Path(__file__).parent / "tests" / "golden" / "rocketmq-4.8.0"
_OUTPUT = pytest.StashKey[int]()
_BOUND_TIME = pytest.StashKey[float]()
_FOLDERS = pytest.StashKey[list[str]]()
_PROOFS = {
    "reput_testing.contract.damagerules",
    "reput_testing.crashes.crashrules",
    "reput_testing.crashes.killrules",
}
_PROOF_RULES = {"test_a_disk_that_is_full_for_a_while_stops_nothing"}  # of other modules
_COSTLY = {  # rules of a contract that try many logs or kills; each is tried with every plugin
    "test_a_failed_dispatch_can_be_tried_again",
    "test_a_kill_between_any_two_file_operations_costs_nothing",
    "test_a_log_that_was_cut_is_followed",
    "test_a_log_that_was_rewritten_is_followed",
    "test_after_every_kill_it_agrees_with_the_log",
    "test_messages_that_come_again_change_nothing",
    "test_what_crash_upon_crash_leaves_is_caught_up",
    "test_where_batches_end_changes_nothing",
}
sys.path.append(
    str(Path(__file__).parent / "tests" / "support")
)  # modules that tests of all folders share


import fileshare  # noqa: E402
import sizes  # noqa: E402
import sparsecopy  # noqa: E402
import spreadcollection  # noqa: E402

from reput import CommitLogConfig  # noqa: E402
from reput_testing.casebudget import is_one_case, is_whole, part  # noqa: E402

_DEFAULTS: dict[str, Any] = CommitLogConfig.__init__.__kwdefaults__  # type: ignore[assignment]
_USUAL_QUEUES: int = _DEFAULTS["default_queue_count"]


@functools.lru_cache(maxsize=4)
def _all_rows(case: str) -> dict[str, list[dict[str, Any]]]:
    by_kind: dict[str, list[dict[str, Any]]] = {}
    with gzip.open(GOLDEN / case / "expected.jsonl.gz", "rt", encoding="utf-8") as lines:
        for line in lines:
            row = json.loads(line)
            by_kind.setdefault(row["kind"], []).append(row)
    return by_kind


def pytest_ignore_collect(collection_path: Path, config: Any) -> bool | None:
    """Leave out files of tests that are not in the share which ``REPUT_FILES`` names.

    A file that the command line names is never left out.
    """
    share = os.environ.get(fileshare.VARIABLE)
    if not share or collection_path.suffix != ".py":
        return None
    path = collection_path.relative_to(config.rootpath).as_posix()
    named = {argument.partition("::")[0] for argument in config.args}
    if path in named or str(collection_path) in named:
        return None
    return None if fileshare.is_in_share(path, share) else True


def pytest_itemcollected(item: Any) -> None:
    """Mark what a contract tries one by one as a proof: damage, failures of a disk, kills.

    Its rules that try many logs or kills are costly.
    """
    function = getattr(item, "function", None)
    module = getattr(function, "__module__", "")
    if not module.startswith("reput_testing."):
        return
    if module in _PROOFS or function.__name__ in _PROOF_RULES:
        item.add_marker("proof")
    if function.__name__ in _COSTLY:
        item.add_marker("costly")


def pytest_collection_modifyitems(config: Any, items: list[Any]) -> None:
    """Keep one case of each proof, some costly tests and a tenth of the random examples.

    It does so if one case is asked for. The case is one of the parameters of a test function with
    the mark ``proof``; `casebudget.part` chooses among the cases inside of it. If a part of the
    cases is asked for, it keeps that part of the parameters of each function with the mark
    ``alike``.
    """
    if folders := config.stash[_FOLDERS]:
        spreadcollection.in_order(items, folders)
    if is_whole():
        return
    left = _not_in_part(items, "proof" if is_one_case() else "alike")
    if is_one_case():
        for item in items:
            _try_fewer_examples(item)
        left += [
            each for each in items if each.get_closest_marker("costly") and not _is_chosen(each)
        ]
    config.hook.pytest_deselected(items=left)
    dropped = {id(item) for item in left}
    items[:] = [item for item in items if id(item) not in dropped]


def pytest_collection_finish() -> None:
    """Take the tests and their modules from the garbage collector, which looked at them all along.

    They are half a million objects, and live as long as the process.
    """
    gc.collect()
    gc.freeze()


def pytest_sessionfinish() -> None:
    """Give them back: extensions report objects that the collector has not reached at the end."""
    gc.unfreeze()


def _not_in_part(items: list[Any], mark: str) -> list[Any]:
    """Return the cases that this run leaves out, of the functions with a mark."""
    functions: dict[str, list[Any]] = {}
    for item in items:
        if item.get_closest_marker(mark):
            functions.setdefault(item.nodeid.partition("[")[0], []).append(item)
    kept = {id(item) for cases in functions.values() for item in part(cases)}
    return [item for cases in functions.values() for item in cases if id(item) not in kept]


def _is_chosen(item: Any) -> bool:
    """Whether the commit chooses a costly test: this case, or all of the function of a proof."""
    is_proof = item.get_closest_marker("proof")
    name = item.nodeid.partition("[")[0] if is_proof else item.nodeid
    # The number of the commit, by whose remainder the case of a proof is chosen.
    (number, *_) = part(range(1 << 20))
    return zlib.crc32(f"{name} {number}".encode()) % 4 == 0


def _try_fewer_examples(item: Any) -> None:
    """Let a test of Hypothesis, or a state machine, try a tenth of its examples."""
    function = getattr(item, "obj", None)
    for owner, name in (
        (getattr(function, "__func__", function), "_hypothesis_internal_use_settings"),
        (getattr(item, "cls", None), "settings"),
    ):
        found = getattr(owner, name, None)
        if isinstance(found, settings) and not hasattr(owner, "_fewer_examples"):
            fewer = max(found.max_examples // 10, min(found.max_examples, 5))
            setattr(owner, name, settings(found, max_examples=fewer))
            owner._fewer_examples = True


@pytest.fixture(autouse=True)
def sizes_of_plugins(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Set what the marks ``sizes`` say, the nearest mark last."""
    for mark in reversed(list(request.node.iter_markers("sizes"))):
        for section, values in mark.kwargs.items():
            for name, value in values.items():
                monkeypatch.setattr(sizes.owner(section), name, value)


@pytest.fixture(autouse=True)
def queues_of_topics(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Give topics the usual four queues in tests of pages, and in those with the mark ``queues``.

    In all other tests a topic has one queue, so that these read queue 0 of what they have put.
    """
    is_of_pages = "docs" in request.node.path.parts
    if is_of_pages or request.node.get_closest_marker("queues") is not None:
        monkeypatch.setitem(_DEFAULTS, "default_queue_count", _USUAL_QUEUES)


def pytest_configure(config: Any) -> None:
    """Keep the way to the output that tests write into files later on, and holes of copies."""
    config.stash[_FOLDERS] = spreadcollection.spread(config)
    sparsecopy.keep_holes()
    _DEFAULTS["default_queue_count"] = 1
    config.stash[_OUTPUT] = os.dup(2)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: Any) -> None:
    """End the process where a test that took too long does not end by pytest-timeout's exception.

    That one is raised once; what is called on its way out may hang in turn, and with it the matrix.
    """
    _bound(item)


def pytest_exception_interact(node: Any) -> None:
    """Bound the process once more: a test that failed has taken the bound away."""
    node.config.stash[_BOUND_TIME] = -math.inf
    _bound(node)


def _bound(node: Any) -> None:
    """Bound the process, at most once a minute: it starts a thread each time."""
    config, now = node.config, time.monotonic()
    seconds = float(config.getini("timeout") or 0)
    if seconds and now - config.stash.get(_BOUND_TIME, -math.inf) > 60:
        config.stash[_BOUND_TIME] = now
        faulthandler.dump_traceback_later(seconds + 120, exit=True, file=config.stash[_OUTPUT])


def pytest_unconfigure(config: Any) -> None:
    """Bound the time in which the process must end: threads that stay say where, in the output.

    No test is running any more, so the time limit of a test does not help here. A worker of xdist
    waits for the others by then, which may take long.
    """
    if not hasattr(config, "workerinput"):
        faulthandler.dump_traceback_later(120, exit=True, file=config.stash[_OUTPUT])


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Say how many crash states, faults and the like were tried, by what tests have recorded."""
    counts: dict[str, int] = {}
    for report in terminalreporter.getreports("passed"):
        for name, value in report.user_properties:
            if isinstance(value, int):
                counts[name] = counts.get(name, 0) + value
    for name, count in sorted(counts.items()):
        terminalreporter.write_line(f"{name}: {count:,}")


@pytest.fixture
def quiet(caplog: pytest.LogCaptureFixture) -> None:
    """No log lines of ours, where thousands of losses and failures are brought about."""
    caplog.set_level(logging.CRITICAL + 1, "reput")


@pytest.fixture
def golden_store(tmp_path: Path) -> Callable[[str], Path]:
    """Unpack a recorded store: ``golden_store("basic")`` is a fresh copy of its directory."""

    def unpack(case: str) -> Path:
        target = tmp_path / "golden" / case
        number = 1
        while target.exists():  # asked for the same case again: another copy
            number += 1
            target = tmp_path / "golden" / f"{case}-{number}"
        with tarfile.open(GOLDEN / case / "store.tar.gz") as archive:
            archive.extractall(target, filter="data")
        return target / "store"

    return unpack


@pytest.fixture
def golden_rows() -> Callable[[str, str], list[dict[str, Any]]]:
    """What Java said about a recorded store: ``golden_rows("basic", "queue")``, in its order."""

    def rows(case: str, kind: str) -> list[dict[str, Any]]:
        return _all_rows(case).get(kind, [])

    return rows
