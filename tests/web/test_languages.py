"""The pages in Chinese have every text of the templates."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from webpages import Elements

import reput_web
from reput_web.server.chinese import CHINESE

TEMPLATES = sorted((Path(reput_web.__file__).parent / "templates").glob("*.html"))


@pytest.mark.parametrize("path", TEMPLATES, ids=lambda path: path.stem)
def test_every_text_of_a_template_has_a_translation(path):
    texts = re.findall(r"""_\((["'])(.+?)\1\)""", path.read_text(encoding="utf-8"))

    assert {text for _, text in texts} - CHINESE.keys() == set()


def test_no_translation_is_left_over():
    sources = [*TEMPLATES, *Path(reput_web.__file__).parent.glob("readmodel/*.py")]
    whole = "\n".join(path.read_text(encoding="utf-8") for path in sources)

    assert [text for text in CHINESE if text not in whole] == []


def test_the_language_is_the_chosen_one_or_else_the_browsers(story):
    english = story.get("/topics", headers={"accept-language": "de, en"})
    chinese = story.get("/topics", headers={"accept-language": "zh-CN, en"})
    chosen = story.get("/topics", headers={"cookie": "language=zh"})

    assert "Last message" in Elements(english.text).text
    for answer in (chinese, chosen):
        assert "最新消息" in Elements(answer.text).text
        assert 'lang="zh-CN"' in answer.text
