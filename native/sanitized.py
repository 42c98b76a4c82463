"""Run tests of the kernels where each access is checked; called by tox -e sanitized.

``python native/sanitized.py address|thread|miri [arguments]``

* ``address``: the tests of pytest under AddressSanitizer, with checked arithmetic and debug
  assertions. A byte read or written outside of an array, or in memory that was freed, ends the
  process with a report. Python takes its memory from the system's allocator, so that every
  ``bytes`` object and every array counts as one of its own. It needs GCC's libasan.
* ``thread``: the same under ThreadSanitizer, with an instrumented standard library: two threads
  that touch one place, one of them writing, with nothing that orders them. Python is not
  instrumented; its interpreter lock is a lock of the system's, which the sanitizer sees. It needs
  a nightly Rust with ``rust-src``, and GCC's libtsan.
* ``miri``: the tests of cargo, of what needs no Python, run by Miri: undefined behaviour, data
  races, threads in several orders. It needs a nightly Rust with ``miri`` and ``rust-src``.
"""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NoReturn

NATIVE = Path(__file__).resolve().parent
TARGET = f"{platform.machine()}-unknown-linux-gnu"
CHECKED = {
    "CARGO_PROFILE_RELEASE_DEBUG_ASSERTIONS": "true",
    "CARGO_PROFILE_RELEASE_LTO": "off",
    "CARGO_PROFILE_RELEASE_OVERFLOW_CHECKS": "true",
    # As a module of Python, which brings the functions that it calls.
    "PYO3_BUILD_EXTENSION_MODULE": "1",
    "PYO3_PYTHON": sys.executable,
}
BUILDS = {
    # The sanitizer is no part of stable Rust yet.
    "address": {"RUSTC_BOOTSTRAP": "1", "RUSTFLAGS": "-Zsanitizer=address"},
    "thread": {
        "RUSTUP_TOOLCHAIN": "nightly",
        "RUSTFLAGS": "-Zsanitizer=thread",
        "CARGO_UNSTABLE_BUILD_STD": "std",
    },
}
# The system's loader frees what a thread that has ended held, and is not instrumented.
SUPPRESSED = "race:_dl_deallocate_tls\n"
COPIES = """
#include <string.h>
void *__tsan_memcpy(void *to, const void *from, size_t size) { return memcpy(to, from, size); }
void *__tsan_memmove(void *to, const void *from, size_t size) { return memmove(to, from, size); }
void *__tsan_memset(void *to, int byte, size_t size) { return memset(to, byte, size); }
"""
RUNS = {
    # What Python keeps until it ends would count as a leak.
    "address": {"ASAN_OPTIONS": "detect_leaks=0:abort_on_error=1", "PYTHONMALLOC": "malloc"},
    "thread": {"TSAN_OPTIONS": "exitcode=66:report_signal_unsafe=0"},
}


def main(kind: str, arguments: list[str]) -> NoReturn:
    """Build and run in the place of this process; exit with a text where something is missing."""
    target = Path(os.environ.get("CARGO_TARGET_DIR", NATIVE / "target")) / kind
    if kind == "miri":
        environment = os.environ | {"CARGO_TARGET_DIR": str(target)}
        environment.setdefault("MIRIFLAGS", "-Zmiri-many-seeds=0..4")
        manifest = ("--manifest-path", str(NATIVE / "Cargo.toml"))
        command = ["cargo", "+nightly", "miri", "test", "--locked", *manifest, *arguments]
        os.execvpe(command[0], command, environment)
    if kind not in BUILDS:
        sys.exit(f"{kind}: address, thread or miri expected")
    runtime = _runtime({"address": "libasan.so", "thread": "libtsan.so"}[kind])
    package = _built(target, CHECKED | BUILDS[kind])
    run = dict(RUNS[kind])
    if kind == "thread":
        runtime += f":{_copies(target)}"
        suppressions = target / "suppressions"
        suppressions.write_text(SUPPRESSED)
        run["TSAN_OPTIONS"] += f":suppressions={suppressions}"
    path = os.pathsep.join([str(package), *filter(None, [os.environ.get("PYTHONPATH")])])
    changes = {"LD_PRELOAD": runtime, "PYTHONPATH": path, "REPUT_ENGINE": "native"}
    # Not captured, as the report comes when the process ends.
    command = [sys.executable, "-m", "pytest", "--capture=no", *arguments]
    os.execve(sys.executable, command, os.environ | changes | run)


def _runtime(name: str) -> str:
    command = ("cc", f"-print-file-name={name}")
    found = subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
    if not os.path.isabs(found):
        sys.exit(f"the C compiler has no {name}; install that of GCC")
    return found


def _copies(target: Path) -> Path:
    """Build what newer compilers call and GCC's libtsan has not had for long: plain copies."""
    source, library = target / "copies.c", target / "copies.so"
    source.write_text(COPIES)
    subprocess.run(("cc", "-shared", "-fPIC", "-o", library, source), check=True)
    return library


def _built(target: Path, changes: dict[str, str]) -> Path:
    """Build the kernels, and return a folder with the package that they are a module of."""
    command = ("cargo", "build", "--release", "--locked", "--lib", "--target", TARGET)
    # Where a target is named, the sanitizer is left out of what runs while the compiler does.
    environment = os.environ | changes | {"CARGO_TARGET_DIR": str(target)}
    subprocess.run(command, check=True, cwd=NATIVE, env=environment)
    package = target / "package" / "reput_native"
    shutil.rmtree(package, ignore_errors=True)
    shutil.copytree(NATIVE / "src" / "reput_native", package)
    for stale in package.glob("_kernels*.so"):
        stale.unlink()
    library = target / TARGET / "release" / "libreput_native.so"
    shutil.copy(library, package / "_kernels.abi3.so")
    return package.parent


if len(sys.argv) < 2:
    sys.exit("address, thread or miri expected")
main(sys.argv[1], sys.argv[2:])
