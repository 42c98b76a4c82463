"""What holds for the repository as a whole: the matrix, versions, imports, pins."""

from __future__ import annotations

import ast
import configparser
import functools
import importlib
import re
import tomllib
from importlib.machinery import SourceFileLoader
from importlib.metadata import requires
from pathlib import Path
from typing import Any

import pytest

from reput.lazyexports import lazy_exports

ROOT = Path(__file__).resolve().parents[2]
PLUGINS = sorted(path.parent.name for path in ROOT.glob("plugins/*/pyproject.toml"))
EXTRAS = sorted(path.parent.name for path in ROOT.glob("extras/*/pyproject.toml"))
EXAMPLES = sorted(path.parent for path in ROOT.glob("examples/*/pyproject.toml"))
DISTRIBUTIONS = [
    ROOT / "core",
    *(ROOT / "extras" / name for name in EXTRAS),
    *(ROOT / "plugins" / name for name in PLUGINS),
    ROOT / "native",
]


def pyproject(directory: Path) -> dict[str, Any]:
    return tomllib.loads((directory / "pyproject.toml").read_text(encoding="utf-8"))


def tox_section(name: str) -> configparser.SectionProxy:
    parser = configparser.ConfigParser(interpolation=None)
    parser.read(ROOT / "tox.ini", encoding="utf-8")
    return parser[name]


@functools.cache
def import_nodes_of(path: Path) -> list[ast.Import | ast.ImportFrom]:
    """Imports of a file, which several tests look at."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return [node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom)]


def imports_of(path: Path) -> set[str]:
    """Full dotted names that a file imports, ``from a import b`` as ``a.b``."""
    names = set()
    for node in import_nodes_of(path):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif node.level == 0:
            names.update(f"{node.module}.{alias.name}" for alias in node.names)
    return names


def imports_below(directory: Path) -> set[str]:
    return {name for path in (directory / "src").rglob("*.py") for name in imports_of(path)}


def pinned() -> dict[str, list[str]]:
    """Versions by name in constraints.txt."""
    pins: dict[str, list[str]] = {}
    for line in (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines():
        if not line.startswith("#"):
            name, _, version = line.partition(";")[0].strip().partition("==")
            pins.setdefault(name, []).append(version)
    return pins


def name_of(requirement: str) -> str:
    return re.split(r"[^A-Za-z0-9._-]", requirement, maxsplit=1)[0].lower()


def versions_of(requirement: str) -> str:
    return re.sub(r"^[A-Za-z0-9._-]+(\[[a-z,]+\])?", "", requirement)


def test_directory_distribution_import_name_and_entry_point_are_one_word() -> None:
    for name in PLUGINS:
        project = pyproject(ROOT / "plugins" / name)["project"]
        [(word, place)] = project["entry-points"]["reput.plugins"].items()
        assert (project["name"], word) == (f"reput-{name}", name)
        assert place.startswith(f"reput_{name}:")
        assert (ROOT / "plugins" / name / "src" / f"reput_{name}" / "__init__.py").is_file()


def test_the_core_depends_on_pluggy_attrs_and_numpy_only() -> None:
    dependencies = pyproject(ROOT / "core")["project"]["dependencies"]

    assert sorted(map(name_of, dependencies)) == ["attrs", "numpy", "pluggy"]


def test_all_distributions_share_one_version_and_ask_for_its_series() -> None:
    projects = [pyproject(directory)["project"] for directory in [*DISTRIBUTIONS, *EXAMPLES]]
    major, minor, _ = (int(part) for part in projects[0]["version"].split("."))
    series = f">={major}.{minor},<{major}.{minor + 1}"

    requirements = [
        requirement
        for project in projects
        for requirements in [
            project["dependencies"],
            *project.get("optional-dependencies", {}).values(),
        ]
        for requirement in requirements
        if name_of(requirement).startswith("reput")
    ]

    crate = tomllib.loads((ROOT / "native" / "Cargo.toml").read_text(encoding="utf-8"))["package"]

    assert {project["version"] for project in [*projects, crate]} == {projects[0]["version"]}
    assert {versions_of(requirement) for requirement in requirements} == {series}


def test_every_distribution_has_a_readme_and_a_licence_and_says_that_it_is_typed() -> None:
    for directory in [*DISTRIBUTIONS, *EXAMPLES]:
        packages = [path.parent for path in directory.glob("src/*/__init__.py")]
        assert (directory / "README.md").is_file()
        assert packages
        assert all((package / "py.typed").is_file() for package in packages)
    for name in ("LICENSE", "NOTICE"):
        whole = (ROOT / name).read_bytes()
        assert [each for each in DISTRIBUTIONS if (each / name).read_bytes() != whole] == []


@pytest.mark.parametrize("kind", ["plugins", "examples", "native"])
def test_plugins_and_examples_import_only_what_a_third_party_may(kind: str) -> None:
    offered = {"reput", *(f"reput_{name}" for name in EXTRAS)}
    for directory in [*DISTRIBUTIONS, *EXAMPLES]:
        if kind not in (directory.name, directory.parent.name):
            continue
        own = {path.parent.name for path in directory.glob("src/*/__init__.py")}
        names = {
            name
            for name in imports_below(directory)
            if name.startswith("reput") and name.split(".")[0] not in own
        }
        assert {name.split(".")[0] for name in names} <= offered
        assert [name for name in sorted(names) if re.search(r"\._(?!_)", name)] == []


def inner_modules_of(directory: Path) -> set[str]:
    """Modules of the core that a distribution imports from, and not from its public packages."""
    return {
        node.module
        for path in (directory / "src").rglob("*.py")
        for node in import_nodes_of(path)
        if isinstance(node, ast.ImportFrom)
        and (node.module or "").startswith("reput.")
        and (node.module or "").count(".") > 1
        and node.module != "reput.record.layout"
    }


def test_others_import_from_the_core_by_its_public_packages_and_commands_from_the_kit() -> None:
    for directory in [*DISTRIBUTIONS[1:], *EXAMPLES]:
        assert sorted(inner_modules_of(directory)) == []
        if directory.name != "tools":
            inner = {
                name for name in imports_below(directory) if name.startswith("reput_tools.cli.")
            }
            packages = {name.rpartition(".")[0] for name in inner}
            assert packages <= {"reput_tools.cli.kit", "reput_tools.cli.messages"}


def test_nothing_that_pip_install_reput_brings_names_an_extra() -> None:
    word = re.compile(r"\b(click|rich|pytest|hypothesis|pyarrow)\b", re.IGNORECASE)

    found = {
        path.relative_to(ROOT).as_posix(): names
        for path in (ROOT / "core" / "src").rglob("*.py")
        if (names := word.findall(path.read_text(encoding="utf-8")))
    }

    assert found == {}
    dependencies = pyproject(ROOT / "core")["project"]["dependencies"]
    assert not word.search(" ".join(dependencies))


def test_the_core_imports_no_plugin() -> None:
    names = {name.split(".")[0] for name in imports_below(ROOT / "core")}

    # `python -m reput` is the command line, where that is installed; kernels are compiled ones;
    # type checkers see what `reput.aio` is.
    found = [name for name in sorted(names) if name.startswith("reput_")]
    assert found == ["reput_aio", "reput_native", "reput_tools"]


def test_every_requirement_has_its_pin() -> None:
    core = pyproject(ROOT / "core")
    groups = pyproject(ROOT)["dependency-groups"]
    asked = [
        *core["build-system"]["requires"],
        *pyproject(ROOT / "native")["build-system"]["requires"],
        *core["project"]["dependencies"],
        *(requires("reput") or ()),  # those of its extras, which are computed
        *(
            item
            for name in EXTRAS
            for item in pyproject(ROOT / "extras" / name)["project"]["dependencies"]
        ),
        *(item for items in groups.values() for item in items if isinstance(item, str)),
        *tox_section("tox")["requires"].split(),
    ]

    missing = {name_of(item) for item in asked} - set(pinned())

    assert sorted(name for name in missing if not name.startswith("reput")) == []


def test_pins_are_names_and_versions_and_nothing_else() -> None:
    pin = re.compile(r"[a-z0-9-]+==[0-9][0-9a-z.]*( ; python_\w+ [<>=!]+ '[\d.]+')*")
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()

    other = [line for line in lines if not line.startswith("#") and not pin.match(line)]

    assert other == []
    assert not any("://" in line or "--hash" in line for line in lines)


OTHERS = {"__version__", "open"}  # which no import for type checkers has
LAZY_PACKAGES = sorted(
    path
    for pattern in ("core/src", "extras/*/src", "plugins/*/src")
    for folder in ROOT.glob(pattern)
    for path in folder.rglob("__init__.py")
    if "lazy_exports(" in path.read_text(encoding="utf-8")
)


@pytest.mark.parametrize("path", LAZY_PACKAGES, ids=lambda path: path.parent.name)
@pytest.mark.parametrize("has_source", [True, False])
def test_every_name_that_a_package_loads_lazily_can_be_loaded(path, has_source, monkeypatch):
    parts = path.parent.relative_to(ROOT).parts
    name = ".".join(parts[parts.index("src") + 1 :])
    if name == "reput_spark":
        pytest.importorskip("pyspark")
    package = importlib.import_module(name)
    if not has_source:  # as in a program that was packed without sources
        monkeypatch.setattr(package, "__file__", str(path.parent / "nothing"))
        monkeypatch.setattr(package, "__loader__", SourceFileLoader(name, str(path)))
        assert set(lazy_exports(name)[0]("__all__")) | OTHERS == set(package.__all__) | OTHERS
        return

    tree = ast.parse(path.read_text(encoding="utf-8"))
    imports = [
        alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
        if alias.asname == alias.name
    ]
    assert set(imports) == set(package.__all__) - OTHERS
    assert [each for each in package.__all__ if not hasattr(package, each)] == []
    assert set(package.__all__) <= set(dir(package))
    with pytest.raises(AttributeError, match="nothing"):
        _ = package.nothing
