"""Pages in Chinese say what their sisters say: the same code, sections and rows."""

from __future__ import annotations

import re

import pytest
from pages import DOCS, blocks_of, text_of

TRANSLATED = sorted(path.name for path in (DOCS / "zh").glob("*.md"))
SISTERS = [
    (f"docs/{name}", f"docs/zh/{name}")
    for name in TRANSLATED
    if name not in ("README.md", "index.md")
]


def shape_of(page):
    """Levels of the headings, and the cells of each row of the tables, in their order."""
    prose = re.sub(r"^```.*?^```$", "", text_of(page), flags=re.MULTILINE | re.DOTALL)
    lines = re.findall(r"^(#+ |\|.*\|$)", prose, re.MULTILINE)
    cells = [re.sub(r"`[^`]*`", "`", line).replace("\\|", "") for line in lines]
    return [line.strip() if line.startswith("#") else line.count("|") - 1 for line in cells]


@pytest.mark.parametrize(("english", "chinese"), SISTERS)
def test_both_pages_have_the_same_code(english, chinese):
    one, other = blocks_of(english), blocks_of(chinese)

    changed = [block for block in one if block not in other]

    assert changed == [], f"copy these blocks to {chinese}"
    assert other == one


@pytest.mark.parametrize(("english", "chinese"), SISTERS)
def test_both_pages_have_the_same_sections_and_rows(english, chinese):
    assert shape_of(chinese) == shape_of(english)


@pytest.mark.parametrize(
    ("english", "chinese", "there", "back"),
    [
        *((one, other, f"zh/{one[5:]}", f"../{one[5:]}") for one, other in SISTERS),
        ("README.md", "README.zh.md", "README.zh.md", "README.md"),
    ],
)
def test_each_page_leads_to_its_sister_in_its_first_lines(english, chinese, there, back):
    assert f"[中文]({there})" in "\n".join(text_of(english).splitlines()[:4])
    assert f"[English]({back})" in "\n".join(text_of(chinese).splitlines()[:4])


def test_the_code_of_the_readme_in_chinese_is_that_of_the_readme():
    whole = blocks_of("README.md")
    part = blocks_of("README.zh.md")

    assert part == whole[: len(part)]
    assert {"python", "console"} <= {block.kind for block in part}


@pytest.mark.parametrize("page", ["README.zh.md", *(f"docs/zh/{name}" for name in TRANSLATED)])
def test_no_line_ends_inside_of_a_chinese_sentence(page):
    """A browser shows the end of a line as a space, which Chinese has not."""
    broken = re.findall(r"[\u3000-\u9fff\uff00-\uffef]\n[\u4e00-\u9fff].{0,20}", text_of(page))

    assert broken == []


def test_the_users_pages_are_there_in_chinese():
    assert {
        "consuming.md",
        "doctor.md",
        "getting-started.md",
        "writing-a-plugin.md",
    } <= set(TRANSLATED)
