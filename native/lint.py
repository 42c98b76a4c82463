"""Have rustfmt and clippy look at the kernels, and run their Rust tests; called by tox -e rust.

Nothing is done where there is no cargo.

Also looks at the crates that Cargo.lock names: their licences, where they come from, that each is
there once, and that none needs a newer Rust than ours; so does cargo-deny where it is installed.
The oldest Rust that we state checks everything where rustup has it.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

MANIFEST = ("--manifest-path", str(Path(__file__).with_name("Cargo.toml")))
CRATES_IO = "registry+https://github.com/rust-lang/crates.io-index"
LICENCES = {"Apache-2.0", "BSD-2-Clause", "MIT", "Unicode-3.0", "LLVM-exception"}
"""What the wheel may hold, beside what is ours."""


def main() -> int:
    """0 where there is nothing to say, or nobody to say it."""
    if shutil.which("cargo") is None:
        sys.stderr.write("native: not linted, as there is no cargo\n")
        return 0
    clippy = ("cargo", "clippy", "--workspace", "--all-targets", "--locked", "--quiet", *MANIFEST)
    commands = (
        ("cargo", "fmt", "--all", "--check", *MANIFEST),
        (*clippy, "--", "-D", "warnings"),
        ("cargo", "test", "--workspace", "--locked", "--quiet", *MANIFEST),
    )
    environment = os.environ | {"PYO3_PYTHON": sys.executable}
    codes = [
        subprocess.run(command, check=False, env=environment).returncode for command in commands
    ]
    if shutil.which("cargo-deny") is not None:
        deny = ("cargo", "deny", *MANIFEST, "--locked", "check", "bans", "licenses", "sources")
        codes.append(subprocess.run(deny, check=False).returncode)
    command = ("cargo", "metadata", "--locked", "--format-version", "1", *MANIFEST)
    found = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    packages = json.loads(found)["packages"]
    oldest = toolchain_of(next(each["rust_version"] for each in packages if not each["source"]))
    if oldest is not None:
        check = (
            "cargo",
            f"+{oldest}",
            "check",
            "--workspace",
            "--all-targets",
            "--locked",
            "--quiet",
        )
        check += MANIFEST
        codes.append(subprocess.run(check, check=False, env=environment).returncode)
    complaints = list(about_crates(packages))
    sys.stderr.writelines(f"native: {complaint}\n" for complaint in complaints)
    return max([*codes, len(complaints) > 0])


def toolchain_of(wanted: str) -> str | None:
    """The installed toolchain of a version of Rust like 1.88; None where there is none."""
    if shutil.which("rustup") is None:
        return None
    command = ("rustup", "toolchain", "list")
    found = subprocess.run(command, check=False, capture_output=True, text=True).stdout.split()
    return next((name for name in found if re.match(rf"{re.escape(wanted)}[.-]", name)), None)


def about_crates(packages: list[dict[str, Any]]) -> Iterator[str]:
    """Yield what is wrong with the crates that ``cargo metadata`` lists."""
    ours = next(each for each in packages if each["source"] is None)
    for each in packages:
        name = f"{each['name']} {each['version']}"
        if each["source"] not in (None, CRATES_IO):
            yield f"{name} comes from {each['source']}, not from crates.io"
        licence = each["license"] or "no licence"
        if not is_allowed(licence):
            yield f"{name}: {licence} is none of {', '.join(sorted(LICENCES))}"
        if version(each["rust_version"]) > version(ours["rust_version"]):
            yield f"{name} needs Rust {each['rust_version']}, and ours is {ours['rust_version']}"
    counts = Counter(each["name"] for each in packages)
    yield from (f"{name} is there {count} times" for name, count in counts.items() if count > 1)


def is_allowed(licence: str) -> bool:
    """Whether all parts of a licence are allowed, or one of those to choose from."""
    for part in re.split(r" AND ", re.sub(r"[()]", "", re.sub(r"\s*/\s*", " OR ", licence))):
        choices = [choice.split(" WITH ") for choice in part.split(" OR ")]
        if not any(LICENCES.issuperset(choice) for choice in choices):
            return False
    return True


def version(text: str | None) -> tuple[int, ...]:
    """A version as numbers; that of a crate that states none is the lowest."""
    return tuple(int(number) for number in (text or "0").split("."))


if __name__ == "__main__":
    sys.exit(main())
