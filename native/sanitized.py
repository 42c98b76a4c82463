"""Run tests under AddressSanitizer; called by tox -e native-sanitized, with arguments for pytest.

Each byte that instrumented kernels read or write is checked: outside of an array, or in one that
was freed, it ends the process with a report. Python takes its memory from the system's allocator,
so that every ``bytes`` object and every array counts as one of its own.
"""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import NoReturn


def main(arguments: list[str]) -> NoReturn:
    """Run the tests in the place of this process; exit with a text where something is missing."""
    package = find_spec("reput_native")
    kernels = [] if package is None else Path(str(package.origin)).parent.glob("_kernels*.so")
    if not any(b"__asan_init" in path.read_bytes() for path in kernels):
        sys.exit("reput-native is not instrumented here; run tox -r -e native-sanitized")
    command = ("cc", "-print-file-name=libasan.so")
    found = subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
    if not os.path.isabs(found):
        sys.exit("the C compiler has no libasan.so; install that of GCC, libasan8 for Debian's 12")
    environment = os.environ | {
        "LD_PRELOAD": found,
        # What Python keeps until it ends would count as a leak.
        "ASAN_OPTIONS": "detect_leaks=0:abort_on_error=1",
        "PYTHONMALLOC": "malloc",
    }
    # Not captured, as the report comes when the process ends.
    command = (sys.executable, "-m", "pytest", "--capture=no", *arguments)
    os.execve(sys.executable, command, environment)


main(sys.argv[1:])
