"""Links of all pages lead somewhere; every page is listed; what is installed is complete."""

from __future__ import annotations

import importlib
import re
import shlex
import tomllib
from importlib import metadata

import pytest
from pages import DOCS, ROOT, anchors_of, blocks_of, commands_of, pages, prose_of, text_of


@pytest.fixture
def contents(monkeypatch):
    """The module that makes the site's contents, which is not installed."""
    monkeypatch.syspath_prepend(str(DOCS / "site"))
    return importlib.import_module("contents")


@pytest.mark.parametrize("page", pages())
def test_links_lead_to_pages_and_sections_that_are_there(page):
    folder = (ROOT / page).parent

    dead = []
    for target, anchor in re.findall(r"\]\(([^)#\s]*)(?:#([^)\s]+))?\)", prose_of(page)):
        path = folder / target if target else ROOT / page
        if "://" in target:
            continue
        if not path.exists():
            dead.append(target)
        elif anchor and path.suffix == ".md":
            linked = path.resolve().relative_to(ROOT).as_posix()
            dead += [f"{target}#{anchor}"] * (anchor not in anchors_of(linked))

    assert dead == []


@pytest.mark.parametrize("page", pages())
def test_every_picture_says_what_it_shows(page):
    silent = [path for text, path in re.findall(r"!\[(.*?)\]\((.*?)\)", text_of(page)) if not text]

    assert silent == []


@pytest.mark.parametrize(
    ("front", "folder"),
    [("README.md", ""), ("zh/README.md", "zh/"), ("reference/index.md", "reference/")],
)
def test_every_page_has_its_line_in_the_list_of_pages(contents, front, folder):
    parts = contents.parts_of((DOCS / front).read_text(encoding="utf-8"))
    names = {path.stem for path in (DOCS / folder).glob("*.md")} - {"README", "index"}

    unlisted = contents.with_the_rest(parts, names, "unlisted")[len(parts) :]

    assert unlisted == []


def test_a_page_that_no_list_names_is_shown_all_the_same(contents):
    listed = contents.parts_of("## To use\n\n| page | for |\n|---|---|\n| [One](one.md) | it |\n")

    parts = contents.with_the_rest(listed, {"one", "new"}, "More")

    assert parts == [("To use", ["one"]), ("More", ["new"])]


def names_below(folder):
    return {path.name for path in folder.rglob("*")}


@pytest.mark.parametrize("folder", sorted(ROOT.glob("plugins/*")), ids=lambda path: path.name)
def test_modules_that_the_readme_of_a_plugin_names_are_there(folder):
    text = (folder / "README.md").read_text(encoding="utf-8")
    prose = re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)

    named = re.findall(r"`(?:[\w/]*/)?(\w+(?:\.py|/))`", prose)

    assert {name.strip("/") for name in named} <= names_below(folder / "src")


# --------------------------------------------------------------------------- installing


def folders_of(path):
    """The distributions that a path on a page names; none where the reader has to make it."""
    return [folder for folder in sorted(ROOT.glob(path)) if (folder / "pyproject.toml").is_file()]


def project_of(folder):
    return tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))["project"]


INSTALLING = [
    (page, words)
    for page in pages()
    for block in blocks_of(page)
    for command, _ in commands_of(block)
    if command.startswith("pip install") and " ./core" in command
    for words in [shlex.split(command, comments=True)[2:]]
]


@pytest.mark.parametrize(("page", "words"), INSTALLING)
def test_one_command_installs_all_that_its_parts_need_of_each_other(page, words):
    given, needed = set(), set()
    for word in words:
        path, _, extras = word.partition("[")
        for project in map(project_of, folders_of(path)):
            given.add(project["name"])
            needs = list(project["dependencies"])
            for extra in filter(None, extras.rstrip("]").split(",")):
                needs += project.get("optional-dependencies", {}).get(extra, ())
            needed |= {re.match(r"[\w-]+", each)[0] for each in needs if each.startswith("reput")}

    assert sorted(needed - given) == [], f"{page}: pip would look for these on an index"


SETS = re.findall(
    r"^\| .*? \| `reput\[([\w,]+)\]` \| (`\./core`.*?) \|$",
    text_of("docs/installing.md"),
    re.MULTILINE,
)


def own(requirements):
    """Names of distributions of this repository among requirements."""
    return {re.match(r"[\w-]+", each)[0] for each in requirements if each.startswith("reput")}


def test_installing_shows_a_few_sets():
    assert 5 <= len(SETS) <= 7


@pytest.mark.parametrize(("extras", "row"), SETS)
def test_each_set_of_folders_is_what_its_extras_install(extras, row):
    paths = re.findall(r"`\./([\w/*]+)`", row)
    folders = [folder for path in paths for folder in folders_of(path)]
    needs = {each["name"]: own(each["dependencies"]) for each in map(project_of, folders)}
    asked = {f"extra == '{extra}'" for extra in extras.split(",")}
    lines = [each for each in metadata.requires("reput") if each.partition("; ")[2] in asked]

    installed, waiting = set(), {"reput"} | own(lines)
    while waiting:
        name = waiting.pop()
        installed.add(name)
        assert name in needs, f"no folder of {name}"
        waiting |= needs[name] - installed

    assert sorted(needs) == sorted(installed)


EXTRAS = re.findall(r"`'\./([\w/]+)\[([\w,]+)\]'`", text_of("docs/installing.md"))


@pytest.mark.parametrize(("path", "extras"), EXTRAS)
def test_each_extra_that_installing_names_exists(path, extras):
    offered = project_of(ROOT / path).get("optional-dependencies")
    if path == "core":  # computed when it is installed
        offered = metadata.metadata("reput").get_all("Provides-Extra")

    assert set(extras.split(",")) <= set(offered)
