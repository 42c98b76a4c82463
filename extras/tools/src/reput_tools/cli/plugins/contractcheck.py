"""Runs the rules for every plugin against an installed one, and keeps the score.

The rules are tests of `reput_testing`; pytest runs them in this process, without its own output.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import attrs
import pytest

from reput.plugin import InstalledPlugin, Plugin
from reput_testing import ContractRules, CrashContract, KillContract, PluginContract

GROUPS: Final = {
    "shape": "what it is: its hooks, its options, its entry point",
    "dispatch": "messages that come again, batches that end elsewhere",
    "recovery": "opening again after a close, a kill, a cut or a trim; readers",
    "damage": "files that differ from what it wrote, disks that fail",
    "retry": "going on after a failure",
    "store": "in a whole store",
    "crash": "power cuts and failing disks under a whole store",
    "kill": "killed processes",
}
"""The groups of rules, in order, with what they are about."""


@attrs.frozen
class Score:
    """What came of one rule."""

    group: str
    rule: str
    """Name of the test."""
    says: str
    """What the rule asks for."""
    outcome: str
    """``"passed"``, ``"failed"`` or ``"skipped"``."""
    seconds: float
    reason: str
    """Why it failed or was skipped; empty if it passed."""


def state_of(plugin: Any) -> Any:
    """Return what a plugin says that it knows; None, if it does not say, compares files alone."""
    told = getattr(plugin, "contract_state", None)
    return None if told is None else told()


def check_plugin(
    found: InstalledPlugin,
    options: Mapping[str, Any],
    *,
    quick: bool,
    progress: Callable[[int, int], None],
) -> list[Score]:
    """Return the score of each rule.

    Args:
        found: the plugin.
        options: its section of the configuration.
        quick: leave out power cuts and kills.
        progress: called with rules done and rules in all.
    """
    kinds: list[type[ContractRules]] = [PluginContract]
    kinds += [] if quick else [CrashContract, KillContract]
    collector = _Collector(progress, _classes(found.name, found.load(), options, kinds))
    with tempfile.TemporaryDirectory(prefix="reput-check-", dir=_in_memory()) as directory:
        module = Path(directory, "test_plugin.py")
        module.write_text("", encoding="utf-8")
        Path(directory, "pytest.ini").write_text(_INI, encoding="utf-8")
        before = os.environ.get(_AUTOLOAD)
        os.environ[_AUTOLOAD] = "1"  # what else is installed has no part in the rules
        try:
            arguments = [f"--rootdir={directory}", f"--basetemp={directory}/stores"]
            arguments += ["-p", "no:terminal", "-p", "no:cacheprovider", str(module)]
            code = pytest.main(arguments, plugins=[collector])
        finally:
            if before is None:
                del os.environ[_AUTOLOAD]
            else:
                os.environ[_AUTOLOAD] = before
    if code not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
        raise RuntimeError(f"pytest ended with {code!r}: {collector.broken}")
    order = list(GROUPS)
    return sorted(collector.scores, key=lambda score: order.index(score.group))


_FIRST: Final = "test_any_message_is_taken"
_LONG: Final = ("crash", "kill")
_AUTOLOAD: Final = "PYTEST_DISABLE_PLUGIN_AUTOLOAD"
_INI: Final = "[pytest]\naddopts =\nfilterwarnings = error\ntmp_path_retention_policy = none\n"


def _in_memory() -> str | None:
    """Return a directory in memory with room for the stores, which are small and many; or None."""
    try:
        has_room = shutil.disk_usage(_MEMORY).free > _ROOM
    except OSError:
        return None
    return _MEMORY if has_room and os.access(_MEMORY, os.W_OK) else None


_MEMORY: Final = "/dev/shm"
_ROOM: Final = 1 << 30


def _classes(
    name: str, kind: type[Plugin], options: Mapping[str, Any], kinds: Sequence[type[ContractRules]]
) -> dict[str, type]:
    """Return a class of tests for each contract."""
    told = dict(getattr(kind, "contract_options", {}))
    members = {"plugin_name": name, "config": dict(options), **told}
    members["state"] = lambda self, plugin: state_of(plugin)
    return {
        f"Test{each.__name__}": type(f"Test{each.__name__}", (each,), members) for each in kinds
    }


class _Collector:
    """A pytest plugin: offers the classes, and keeps the scores."""

    def __init__(self, progress: Callable[[int, int], None], classes: Mapping[str, type]) -> None:
        self.scores: list[Score] = []
        self.broken = ""
        self._progress = progress
        self._classes = classes
        self._says: dict[str, tuple[str, str, str]] = {}

    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        for item in items:
            text = (item.function.__doc__ or item.name).strip().partition("\n")[0]
            self._says[item.nodeid] = _group_of(item.function), item.name, text

    def pytest_pycollect_makemodule(self, module_path: Path, parent: Any) -> Any:
        made = pytest.Module.from_parent(parent, path=module_path)
        vars(made.obj).update(self._classes)
        return made

    def pytest_runtest_setup(self, item: Any) -> None:
        """Skip crashes and kills of a plugin that raises on a message: they only show it again."""
        if _group_of(item.function) in _LONG and any(
            each.rule == _FIRST and each.outcome == "failed" for each in self.scores
        ):
            pytest.skip(f"the plugin raises on a message; {_FIRST} shows the error")

    def pytest_collectreport(self, report: Any) -> None:
        if report.failed:
            self.broken = report.longreprtext

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.when != "call" and report.outcome == "passed":
            return
        group, rule, says = self._says[report.nodeid]
        reason = "" if report.passed else _reason_of(report)
        score = Score(group, rule, says, report.outcome, report.duration, reason)
        self.scores = [each for each in self.scores if each.rule != rule or each.group != group]
        self.scores.append(score)
        self._progress(len(self.scores), len(self._says))


def _group_of(function: Any) -> str:
    """Return the group of a rule: ``damage`` for a test of the module ``damagerules``."""
    return str(function.__module__.rpartition(".")[2].removesuffix("rules"))


def _reason_of(report: Any) -> str:
    if report.skipped and isinstance(report.longrepr, tuple):
        return str(report.longrepr[2]).removeprefix("Skipped: ")
    crash = getattr(report.longrepr, "reprcrash", None)
    text = crash.message if crash is not None else report.longreprtext
    return str(text.strip().partition("\n")[0])
