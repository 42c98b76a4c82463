"""The command line of ``python -m benchmarks``."""

from __future__ import annotations

import argparse
import datetime as dt
import json
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs

from benchmarks.case import select, without_unasked

if TYPE_CHECKING:
    from benchmarks.runner import Options

_QUICK_SCALE = 0.1
_QUICK_SIZE = 128 << 20
_ENGINES = {"": ("",), "python": ("python",), "native": ("native",), "both": ("python", "native")}
_UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what is asked for; return 0 if every case was measured or skipped, 1 if one failed."""
    parser = _parser()
    asked = parser.parse_args(arguments)
    if asked.save is not None and (asked.list or asked.smoke or asked.profile is not None):
        parser.error("--save: --list, --smoke and --profile have no figures to keep")
    if asked.worker is not None:
        from benchmarks import worker

        return worker.main(asked.worker)
    if asked.profile is not None:
        from benchmarks import profiling

        return profiling.main(asked)
    return _beside_java(asked) if asked.java else _measure(asked)


def _measure(asked: argparse.Namespace) -> int:
    from benchmarks import machine, report
    from benchmarks.cases import ALL
    from benchmarks.runner import Runner

    cases = select(ALL, asked.only)
    if asked.list:
        for case in cases:
            print(f"{case.name:34} {case.table.title}")
        return 0
    cases = without_unasked(cases, asked.only)
    if not cases:
        print("no such case; --list shows them", file=sys.stderr)
        return 2
    if asked.smoke:
        from benchmarks.smoke import smoke

        return smoke(cases, asked.directory)
    options = _options(asked, _ENGINES[asked.engine])
    with Runner(options, lambda text: print(text, file=sys.stderr, flush=True)) as runner:
        facts = machine.describe(runner.directory)
        print(machine.headline(facts))
        loads = [machine.load()]
        outcomes = runner.run(cases)
        loads.append(machine.load())
    rows = report.summarise(outcomes)
    report.print_tables(rows, outcomes)
    print(f"load average before and after: {loads[0]}, {loads[1]}")
    content = {
        "machine": facts,
        "load": loads,
        "options": {"rounds": options.rounds, "scale": options.scale, "log_size": options.size},
        "rows": [attrs.asdict(row) for row in rows],
        "rounds": [
            {
                "case": outcome.case.name,
                "round": outcome.round,
                "ran_with": outcome.ran_with,
                "peak_memory": outcome.peak_memory,
                "private_memory": outcome.private_memory,
                "skipped": outcome.skipped,
                "failed": outcome.failed,
                "measurements": outcome.measurements,
            }
            for outcome in outcomes
        ],
    }
    _keep(asked, content, report.markdown(rows, machine.headline(facts)))
    return 1 if any(outcome.failed for outcome in outcomes) else 0


def _beside_java(asked: argparse.Namespace) -> int:
    from benchmarks.cases import BESIDE_JAVA
    from benchmarks.java import group

    if asked.list:
        group.list_rows()
        return 0
    if asked.smoke:
        from benchmarks.smoke import smoke

        return smoke(BESIDE_JAVA, asked.directory)
    options = _options(asked, _ENGINES[asked.engine or "both"][::-1])

    def keep(content: Mapping[str, Any], tables: str) -> None:
        _keep(asked, content, tables)

    return group.measure(options, asked.only, keep)


def _options(asked: argparse.Namespace, engines: Sequence[str]) -> Options:
    from benchmarks.runner import Options

    return Options(
        directory=asked.directory,
        rounds=asked.rounds or (1 if asked.quick else 3),
        scale=_QUICK_SCALE if asked.quick else 1.0,
        size=asked.size or (_QUICK_SIZE if asked.quick else 1 << 30),
        timeout=asked.timeout,
        engines=tuple(engines),
    )


def _keep(asked: argparse.Namespace, content: Mapping[str, Any], tables: str) -> None:
    """Write the figures of a run wherever it was asked for."""
    if asked.markdown is not None:
        _write(asked.markdown, tables)
    if asked.json is not None:
        _write(asked.json, json.dumps(content, indent=1) + "\n")
    if asked.save is not None:
        from benchmarks import results

        today = dt.datetime.now(dt.UTC).date()
        path = results.save(results.result_of(asked.save, _repeated(asked), content, today))
        print(f"saved as {path.name}", file=sys.stderr)


def _repeated(asked: argparse.Namespace) -> list[str]:
    """Return the arguments that repeat a run, without paths of this machine."""
    arguments = ["--java"] * asked.java
    for pattern in asked.only:
        arguments += ["--only", pattern]
    arguments += ["--quick"] * asked.quick
    for name in ("engine", "rounds", "size", "save"):
        if value := getattr(asked, name):
            arguments += [f"--{name}", str(value)]
    return arguments


def _write(path: Path, text: str) -> None:
    """Write ``text`` to a file, or print it where the path is ``-``."""
    if path == Path("-"):
        print(text)
    else:
        path.write_text(text, encoding="utf-8")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description="Measure reput beside other stores that do the same work, each case in a "
        "process of its own, in interleaved rounds.",
    )
    parser.add_argument("--list", action="store_true", help="name the cases and end")
    parser.add_argument(
        "--only",
        metavar="PATTERN",
        action="append",
        default=[],
        help="only cases whose name holds PATTERN, or matches it where it has * ? [; repeatable",
    )
    parser.add_argument(
        "--quick", action="store_true", help="a tenth of the work, once: a smoke run"
    )
    parser.add_argument(
        "--smoke", action="store_true", help="run each case once on next to nothing, no figures"
    )
    parser.add_argument(
        "--rounds", type=int, default=0, metavar="N", help="repeats of all (3; quick: 1)"
    )
    parser.add_argument(
        "--size",
        type=_size,
        default=0,
        metavar="BYTES",
        help="of each large log, k, m or g after the number (1g; quick: 128m)",
    )
    parser.add_argument(
        "--engine",
        choices=[name for name in _ENGINES if name],
        default="",
        help="what runs reput's kernels; both: each case of reput with each engine in turn",
    )
    parser.add_argument(
        "--java",
        action="store_true",
        help="instead of all that: beside RocketMQ's own store in Java, 4.9.8 and 5.3.3, in turn "
        "with both engines; --only takes names of rows",
    )
    parser.add_argument(
        "--directory", type=Path, metavar="DIR", help="make the temporary directory there"
    )
    for name, what in (("--json", "all figures"), ("--markdown", "the tables")):
        parser.add_argument(
            name,
            type=Path,
            metavar="FILE",
            nargs="?",
            const=Path("-"),
            help=f"write {what} there too; without FILE: print them",
        )
    parser.add_argument(
        "--save",
        type=_name,
        metavar="NAME",
        help="keep the figures in benchmarks/results/NAME.json, in the place of older ones",
    )
    parser.add_argument(
        "--timeout", type=float, default=600.0, metavar="SECONDS", help="for one case (600)"
    )
    profiling = parser.add_argument_group("finding out why")
    profiling.add_argument(
        "--profile", metavar="CASE", help="run one case in this process under cProfile"
    )
    profiling.add_argument(
        "--lines", action="store_true", help="sample the lines that every thread is at, instead"
    )
    profiling.add_argument(
        "--top", type=int, default=25, metavar="N", help="functions or lines to show (25)"
    )
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    return parser


def _name(text: str) -> str:
    from benchmarks.results import name_of

    try:
        return name_of(text)
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"{text!r}: small letters, digits and dashes, such as puts-100-bytes"
        ) from None


def _size(text: str) -> int:
    found = re.fullmatch(r"(\d+)([kmg]?)(?:i?b)?", text.strip().lower())
    if found is None:
        raise argparse.ArgumentTypeError(f"{text!r}: a number of bytes, such as 512m or 2g")
    return int(found[1]) * _UNITS[found[2]]
