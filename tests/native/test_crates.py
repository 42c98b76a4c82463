"""What `native/lint.py` says of the crates that the wheel is built of."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import SimpleNamespace

import pytest

PATH = Path(__file__).parents[2] / "native" / "lint.py"
CRATES_IO = "registry+https://github.com/rust-lang/crates.io-index"


@pytest.fixture
def lint():
    spec = importlib.util.spec_from_file_location("native_lint", PATH)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def crate(**changes):
    usual = {"name": "a", "version": "1.0", "source": CRATES_IO, "license": "MIT OR Apache-2.0"}
    return usual | {"rust_version": "1.60"} | changes


OURS = crate(name="ours", source=None, license="Apache-2.0", rust_version="1.88")


@pytest.mark.parametrize(
    ("other", "complaint"),
    [
        ({"source": "git+https://example.org"}, "comes from git+https://example.org"),
        ({"license": "GPL-3.0"}, "a 1.0: GPL-3.0 is none of"),
        ({"license": "MIT AND GPL-3.0"}, "a 1.0: MIT AND GPL-3.0 is none of"),
        ({"license": None}, "a 1.0: no licence is none of"),
        ({"rust_version": "1.88.1"}, "a 1.0 needs Rust 1.88.1, and ours is 1.88"),
        ({"name": "b"}, "b is there 2 times"),
    ],
)
def test_a_crate_that_does_not_fit_is_named(lint, other, complaint):
    found = list(lint.about_crates([OURS, crate(name="b", version="2.0"), crate(**other)]))

    assert len(found) == 1
    assert complaint in found[0]


@pytest.mark.parametrize(
    "licence",
    [
        "MIT/Apache-2.0",
        "Apache-2.0 / MIT",
        "(MIT OR Apache-2.0) AND Unicode-3.0",
        "Apache-2.0 WITH LLVM-exception",
    ],
)
def test_a_crate_that_fits_is_not(lint, licence):
    packages = [OURS, crate(license=licence), crate(name="b", rust_version=None)]

    assert list(lint.about_crates(packages)) == []


def test_the_oldest_rust_is_found_among_those_installed(lint, monkeypatch):
    listed = "stable-x86_64 (active)\n1.88.0-x86_64\n1.8.1-x86_64\nnightly-x86_64\n"
    monkeypatch.setattr(lint.shutil, "which", lambda name: name)
    monkeypatch.setattr(lint.subprocess, "run", lambda *_, **__: SimpleNamespace(stdout=listed))

    found = [lint.toolchain_of(version) for version in ("1.88", "1.8", "1.88.0", "1.9")]

    assert found == ["1.88.0-x86_64", "1.8.1-x86_64", "1.88.0-x86_64", None]
