"""The built site is complete, needs no network, and is searched in both languages."""

from __future__ import annotations

import html.parser
import importlib
import json
import re
import urllib.parse

import pytest
from pages import DOCS, ROOT


class Wanted(html.parser.HTMLParser):
    """What a page loads by itself, where its links lead, and the names in it."""

    def __init__(self, text):
        super().__init__()
        self.loaded, self.links, self.names, self.language = [], [], set(), ""
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        self.names |= {given[key] for key in ("id", "name") if given.get(key)}
        if tag == "html":
            self.language = given.get("lang")
        if tag == "a" and given.get("href"):
            self.links.append(given["href"])
        elif tag == "link" and given.get("rel") not in (
            "canonical",
            "next",
            "prev",
            "index",
            "search",
        ):
            self.loaded.append(given.get("href", ""))
        elif given.get("src"):
            self.loaded.append(given["src"])


@pytest.fixture(scope="module")
def found(built):
    paths = sorted(built.rglob("*.html"))
    return {
        path.relative_to(built).as_posix(): Wanted(path.read_text(encoding="utf-8"))
        for path in paths
    }


def test_every_page_is_built(found):
    names = {path.relative_to(DOCS).with_suffix(".html").as_posix() for path in DOCS.rglob("*.md")}

    assert names - set(found) == {"README.html", "zh/README.html"}  # lists, for a forge


def test_nothing_is_loaded_from_elsewhere(built, found):
    outside = {
        page: loaded
        for page, wanted in found.items()
        if (loaded := [each for each in wanted.loaded if re.match(r"(\w+:)?//", each)])
    }
    styles = {
        path.name: urls
        for path in built.rglob("*.css")
        if (
            urls := re.findall(
                r"(?:url\(|@import )['\"]?(?:https?:)?//\S+", path.read_text("utf-8")
            )
        )
    }

    assert outside == {}
    assert styles == {}


def test_pictures_load_nothing():
    for path in (DOCS / "images").glob("*.svg"):
        text = path.read_text(encoding="utf-8")
        assert not re.search(r"<script|@import|@font-face|<foreignObject", text), path
        assert re.findall(r"(?:href|src)=[\"'](?!#|data:)|url\([\"']?(?!#)", text) == [], path


def test_drawings_are_part_of_the_page_and_follow_its_theme(built):
    for page in (
        "getting-started",
        "zh/getting-started",
        "anatomy-of-a-record",
        "anatomy-of-a-timer-wheel",
    ):
        text = (built / f"{page}.html").read_text(encoding="utf-8")
        assert '<svg aria-label="' in text
        assert 'body[data-theme="dark"] .drawing{' in text
        assert 'body:not([data-theme="light"]) .drawing{' in text


def test_every_link_inside_of_the_site_leads_somewhere(built, found):
    dead = []
    for page, wanted in found.items():
        for link in wanted.links:
            target, _, anchor = link.partition("#")
            if re.match(r"\w+:", target):
                continue
            path = (
                ((built / page).parent / urllib.parse.unquote(target)) if target else built / page
            )
            name = path.resolve().relative_to(built.resolve()).as_posix()
            if not path.exists():
                dead.append(f"{page}: {link}")
            elif anchor and name in found:
                names = found[name].names
                dead += [f"{page}: {link}"] * (urllib.parse.unquote(anchor) not in names)

    assert dead == []


def test_a_page_says_its_language(found):
    for page, wanted in found.items():
        assert wanted.language == ("zh-CN" if page.startswith("zh/") else "en"), page


def test_the_search_finds_words_of_both_languages(built):
    text = (built / "searchindex.js").read_text(encoding="utf-8")
    index = json.loads(text.removeprefix("Search.setIndex(").removesuffix(")"))

    pages = {
        word: {index["docnames"][at] for at in ([at] if isinstance(at, int) else at)}
        for word, at in index["terms"].items()
        if word in ("位点", "slot", "批次")
    }

    assert "zh/consuming" in pages["位点"]
    assert "zh/writing-a-plugin" in pages["批次"]
    assert "anatomy-of-a-timer-wheel" in pages["slot"]


def test_the_browser_has_a_stemmer_and_our_splitting(built):
    text = (built / "_static" / "language_data.js").read_text(encoding="utf-8")

    assert "window.Stemmer = EnglishStemmer;" in text
    assert "function splitQuery(query)" in text


def test_the_browser_splits_a_query_as_pages_are_split():
    engine = pytest.importorskip("py_mini_racer").MiniRacer()  # in the group `docs`
    source = (DOCS / "site" / "twolanguages.py").read_text(encoding="utf-8")
    script = source.partition('_SPLIT_QUERY = r"""')[2].partition('"""')[0]
    show = 'JSON.stringify(splitQuery("消费位点 offset_1 队"))'

    found = json.loads(engine.eval(script + show))

    assert found == ["消费", "费位", "位点", "offset_1", "队"]


# --------------------------------------------------------------------------- reference

PACKAGES = sorted(path.stem for path in (DOCS / "reference").glob("reput*.md"))


@pytest.mark.parametrize("name", PACKAGES)
def test_the_reference_has_every_name_of_a_public_package(name, found):
    package = importlib.import_module(name)
    names = {each for wanted in found.values() for each in wanted.names}
    links = set(found[f"reference/{name}.html"].links)

    missing = [
        each
        for each in package.__all__
        if not each.startswith("__")
        and f"{name}.{each}" not in names
        and not any(link.endswith(f".{each}") for link in links)
    ]

    assert missing == []


def test_every_public_package_has_its_page():
    core = {"reput", "reput.errors", "reput.files", "reput.log", "reput.plugin", "reput.record"}
    core |= {"reput.storefiles"}
    others = {
        ".".join(path.parent.parts[path.parts.index("src") + 1 :])
        for pattern in ("extras/*/src/*/*.py", "extras/*/src/*/*/*.py", "plugins/*/src/*/*.py")
        for path in ROOT.glob(pattern)
        if path.name == "__init__.py"
        and re.search("__all__ = |lazy_exports[(]", path.read_text(encoding="utf-8"))
    }
    # The command line and Spark have pages of their own, which describe all that they have.
    documented = {each for each in others if "spark" in each} | {"reput_tools.cli"}

    assert core | others - documented == set(PACKAGES)
