"""The command line: ``reput``.

Each command is a module, and so is each thing that several commands share. Nothing but click is
imported before it is needed, so that ``reput --help`` answers at once. Commands that plugins add
may use what `reput_tools.cli.kit` lists, as these do.
"""

from __future__ import annotations

__all__ = ["main"]


def main() -> None:
    """Run ``reput``; the entry point of the distribution."""
    import gc
    import os
    import sys
    from importlib.util import find_spec

    from reput_tools.cli.kit.standardstreams import use_standard_streams

    use_standard_streams()  # before the first file is opened

    # Modules stay: to search what importing makes for garbage takes a tenth of a short command.
    gc.set_threshold(50_000)
    # numpy starts a thread of OpenBLAS for each further processor when it is imported, which takes
    # a tenth of a short command. No command does linear algebra. A value of the user's stays.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    # rich is looked for, not imported: importing it takes longer than all that --help needs.
    if any(find_spec(name) is None for name in ("click", "rich")):
        from reput_tools.cli.kit.exitcodes import ExitCode

        sys.stderr.write(
            "reput: the command line needs click and rich; "
            "install them with: pip install click rich\n"
        )
        sys.exit(ExitCode.UNAVAILABLE)
    from reput_tools.cli.root import reput

    try:
        reput(prog_name="reput")
    finally:
        # The interpreter would search all modules for garbage twice more, for an eighth of a short
        # command. A command has closed what it opened. DuckDB reports what is not collected.
        if "duckdb" not in sys.modules:
            gc.disable()
            gc.freeze()
