"""Runs the fuzz targets under `atheris`, which looks for inputs that reach new lines of ours.

    python tests/fuzz/coverage_guided.py                  every target, REPUT_FUZZ_SECONDS each
    python tests/fuzz/coverage_guided.py decode           one target, until it fails
    python tests/fuzz/coverage_guided.py decode FILE      one input again, without atheris

Further options (``-runs=1000``) go to libFuzzer. What it finds lies in ``.fuzz/<target>``: inputs
that reached something new, and of a failure ``crash-…``, which the third form takes.
"""

from __future__ import annotations

import importlib.util
import logging
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "tests" / "support"))
logging.getLogger("reput").setLevel(logging.CRITICAL + 1)


def run_each(seconds: int) -> int:
    """Fuzz every target in a process of its own; the number of those that failed."""
    from decodertargets import TARGETS

    failed = []
    for name in sorted(TARGETS):
        options = [f"-max_total_time={seconds}", "-print_final_stats=1"]
        command = [sys.executable, __file__, name, *options]
        ended = subprocess.run(command, capture_output=True, text=True, check=False)
        runs = [line for line in ended.stderr.splitlines() if "number_of_executed_units" in line]
        print(f"{name}: exit {ended.returncode} {' '.join(runs)}", flush=True)  # noqa: T201
        if ended.returncode:
            failed.append(name)
            print(ended.stdout[-4000:], ended.stderr[-4000:], sep="\n")  # noqa: T201
    return len(failed)


def run_one(name: str, options: list[str]) -> None:
    """Fuzz one target until it fails or an option says to stop."""
    import atheris

    with atheris.instrument_imports(include=["reput", "reput_consumequeue"]):
        from decodertargets import TARGETS
    function, seeds = TARGETS[name]
    found = ROOT / ".fuzz" / name
    (found / "seeds").mkdir(parents=True, exist_ok=True)
    for number, seed in enumerate(seeds):
        (found / "seeds" / f"seed-{number}").write_bytes(seed)

    def once(data: bytes) -> None:
        function(data)

    arguments = [f"-artifact_prefix={found}/", "-timeout=20", "-rss_limit_mb=1024"]
    arguments.append(f"-max_len={2 * max(map(len, seeds)) + 64}")
    directories = [str(found / "inputs"), str(found / "seeds")]
    (found / "inputs").mkdir(exist_ok=True)
    atheris.Setup([sys.argv[0], *arguments, *options, *directories], once)
    atheris.Fuzz()


def main() -> int:
    """Do what the arguments say; the exit status."""
    names = sys.argv[1:]
    if len(names) == 2 and os.path.isfile(names[1]):
        from decodertargets import TARGETS

        TARGETS[names[0]][0](Path(names[1]).read_bytes())
        return 0
    if importlib.util.find_spec("atheris") is None:
        print("atheris is not installed: Hypothesis alone has fuzzed")  # noqa: T201
        return 0
    if not names:
        return run_each(int(os.environ.get("REPUT_FUZZ_SECONDS", "60")))
    run_one(names[0], names[1:])
    return 0


if __name__ == "__main__":
    sys.exit(main())
