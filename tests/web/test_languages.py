"""The pages in Chinese have every text of the templates."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest
from webpages import Elements

import reput_web
from reput_web.actions.performing import ACTIONS
from reput_web.server.chinese import CHINESE

PACKAGE = Path(reput_web.__file__).parent
TEMPLATES = sorted((PACKAGE / "templates").glob("*.html"))


def texts_in(path, within=None):
    """The texts in a module, or in its functions of one name."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    functions = [each for each in ast.walk(tree) if isinstance(each, ast.FunctionDef)]
    parts = [tree] if within is None else [each for each in functions if each.name == within]
    nodes = (node for part in parts for node in ast.walk(part))
    found = (each.value for each in nodes if isinstance(each, ast.Constant))
    return {each for each in found if isinstance(each, str)}


@pytest.mark.parametrize("path", TEMPLATES, ids=lambda path: path.stem)
def test_every_text_of_a_template_has_a_translation(path):
    texts = re.findall(r"""_\((["'])(.+?)\1\)""", path.read_text(encoding="utf-8"))

    assert {text for _, text in texts} - CHINESE.keys() == set()


def test_every_text_of_an_action_has_a_translation():
    kinds = ACTIONS.values()
    texts = {text for kind in kinds for text in (kind.title, kind.button)}
    texts |= {each.label for kind in kinds for each in kind.fields}
    texts |= {each.hint for kind in kinds for each in kind.fields if not each.hint.isdigit()}
    texts |= {getattr(kind, "promise", "") for kind in kinds}
    for path in (PACKAGE / "actions").glob("*.py"):
        texts |= {each for each in texts_in(path, "plan") if "{" in each}

    assert {each for each in texts if each} - CHINESE.keys() == set()


@pytest.mark.costly
def test_no_translation_is_left_over():
    whole = "\n".join(path.read_text(encoding="utf-8") for path in TEMPLATES)
    sources = [path for path in PACKAGE.rglob("*.py") if not path.stem.startswith("chinese")]
    texts = {text for path in sources for text in texts_in(path)}
    texts |= {each.removeprefix("=") for each in texts}

    assert [text for text in CHINESE if text not in whole and text not in texts] == []


def test_the_language_is_the_chosen_one_or_else_the_browsers(story):
    english = story.get("/topics", headers={"accept-language": "de, en"})
    chinese = story.get("/topics", headers={"accept-language": "zh-CN, en"})
    chosen = story.get("/topics", headers={"cookie": "language=zh"})

    assert "Last message" in Elements(english.text).text
    for answer in (chinese, chosen):
        assert "最新消息" in Elements(answer.text).text
        assert 'lang="zh-CN"' in answer.text
