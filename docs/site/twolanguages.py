"""Pages in two languages: each says its own, and the search finds words of both.

Sphinx searches one language. Chinese has no spaces between words, so its texts are found here by
pairs of characters that follow each other, in pages and in queries alike: without a dictionary, and
without anything but the browser.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from sphinx.search.en import SearchEnglish

if TYPE_CHECKING:
    from sphinx.application import Sphinx

_WORD = re.compile(r"[A-Za-z0-9_\u00c0-\u024f]+|[\u3400-\u9fff]+")

# Sphinx splits queries with it in the browser as `split` does pages here.
_SPLIT_QUERY = r"""
function splitQuery(query) {
  const words = [];
  for (const [run] of query.matchAll(/[A-Za-z0-9_\u00c0-\u024f]+|[\u3400-\u9fff]+/g)) {
    if (!/^[\u3400-\u9fff]/.test(run) || run.length < 2) words.push(run);
    else for (let at = 0; at + 1 < run.length; at++) words.push(run.slice(at, at + 2));
  }
  return words;
}
"""


class SearchEnglishAndChinese(SearchEnglish):
    """English words, and pairs of Chinese characters."""

    lang = "en-zh"
    language_name = "English"  # the name of its stemmer in the browser
    js_splitter_code = _SPLIT_QUERY

    def split(self, input: str) -> list[str]:  # noqa: A002 - Sphinx names it
        """Words of a page; of a run of Chinese characters every two neighbours, and each one."""
        words: list[str] = []
        for run in _WORD.findall(input):
            if run[0] < "\u3400":
                words.append(run)
            else:
                words.extend(run[at : at + 2] for at in range(len(run) - 1))
                words.extend(run)
        return words

    def word_filter(self, word: str) -> bool:
        """Whether a word is worth finding: a Chinese character says more than a letter."""
        return word[0] >= "\u3400" or super().word_filter(word)


def _say_language(
    app: Sphinx, pagename: str, templatename: str, context: dict[str, Any], doctree: object
) -> None:
    context["language"] = "zh-CN" if pagename.startswith("zh/") else "en"


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the languages."""
    app.add_search_language(SearchEnglishAndChinese)
    app.connect("html-page-context", _say_language)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
