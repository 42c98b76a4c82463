"""Pages by hand stay short: a fact has one page, and lists that code has are generated."""

from __future__ import annotations

import pytest
from pages import DOCS, ROOT, text_of

LIMITS = {
    "README.md": 1_300,
    "CONTRIBUTING.md": 1_000,
    "docs/performance.md": 1_800,
    "docs/crash-safety.md": 3_500,
    "docs/cli.md": 3_000,
}
"""The most words of a page, as ``wc -w`` counts them: tables, code and comments included."""
LIMIT = 72_000
"""The most words of the front pages and of all pages in ``docs``, but not in its folders."""


def words_of(page: str) -> int:
    return len(text_of(page).split())


@pytest.mark.parametrize("page", LIMITS)
def test_a_page_has_no_more_words_than_its_limit(page):
    assert words_of(page) <= LIMITS[page]


def test_all_pages_together_have_no_more_words_than_the_limit():
    pages = [path.relative_to(ROOT).as_posix() for path in DOCS.glob("*.md")]
    lengths = {page: words_of(page) for page in ["README.md", "CONTRIBUTING.md", *pages]}
    longest = sorted(lengths, key=lengths.__getitem__)[-5:]

    assert sum(lengths.values()) <= LIMIT, f"shorten one of these: {longest}"
