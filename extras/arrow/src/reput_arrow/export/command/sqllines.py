"""Lines of SQL, and whether they end a query: a semicolon in a literal or a comment ends none."""

from __future__ import annotations

import re

import attrs

# DuckDB's own sets of characters.
_BLANK = r"\t-\r \xa0\u2000-\u200b\u202f\u205f\u2060\u3000\ufeff"
_LETTER = r"A-Za-z_\x80-\U0010ffff"
_TOKEN = re.compile(
    rf"""
      (?P<blank> [{_BLANK}]+ | --[^\r\n]* )
    | (?P<opens> /\* | [eE]' | ['"`] | \$(?:[{_LETTER}][{_LETTER}0-9]*)?\$ )
    | (?P<ends> ; )
    | (?P<ends_in_lines> \\[gG](?![{_LETTER}0-9]) (?:[ \t\r;]*\n)? )
    | (?: (?![{_BLANK}]) [{_LETTER}0-9$] )+  # a name or a number: also one that ends in e or $
    | .
    """,
    re.VERBOSE | re.DOTALL,
)
_COMMENT_MARK = re.compile(r"/\*|\*/")
_ESCAPING_REST = re.compile(r"(?:[^'\\]|\\.|'')*+'", re.DOTALL)


@attrs.define
class Lines:
    """Lines since the last answer, of which each is read once."""

    _ended: list[str] = attrs.field(init=False, factory=list)
    """Texts up to the last semicolon."""
    _open: list[str] = attrs.field(init=False, factory=list)
    """Texts after it."""
    _has_ended_query: bool = attrs.field(init=False, default=False)
    _has_open_query: bool = attrs.field(init=False, default=False)
    _opener: str | None = attrs.field(init=False, default=None)
    """What began the literal or comment that has not ended."""
    _depth: int = attrs.field(init=False, default=0)
    """Comments in comments."""

    def __bool__(self) -> bool:
        """Tell whether a query, a literal or a comment has begun and not ended."""
        return self._has_open_query or self._opener is not None

    def add(self, line: str) -> list[tuple[str, bool]]:
        r"""Add a line with its end; return the queries up to its last ``\G``, if it has one.

        With each text comes whether its answers are to be printed in lines.
        """
        parts: list[tuple[str, bool]] = []
        start = position = 0
        while position < len(line):
            if self._opener is not None:
                position = self._end_of_opened(self._opener, line, position)
                continue
            token = _TOKEN.match(line, position)
            assert token is not None  # one of its forms is any character
            kind, position = token.lastgroup, token.end()
            if kind == "opens":
                self._opener = token[0]
                self._has_open_query |= token[0] != "/*"
            elif kind == "ends":
                self._ended += [*self._open, line[start:position]]
                self._open.clear()
                self._has_ended_query |= self._has_open_query
                self._has_open_query = False
                start = position
            elif kind == "ends_in_lines":
                if self._has_open_query and self._has_ended_query:
                    parts.append(("".join(self._ended), False))
                    self._ended.clear()
                self._open.append(line[start : token.start()])
                parts += [(text, True) for text in self.take()]
                start = position
            elif kind != "blank":
                self._has_open_query = True
        self._open.append(line[start:])
        return parts

    def take(self) -> list[str]:
        """Return the text of all lines that are left, if it has a query, and forget them."""
        has_query = bool(self) or self._has_ended_query
        texts = ["".join(self._ended + self._open)] if has_query else []
        self.clear()
        return texts

    def clear(self) -> None:
        """Forget all lines."""
        self._ended.clear()
        self._open.clear()
        self._has_ended_query = self._has_open_query = False
        self._opener, self._depth = None, 0

    def _end_of_opened(self, opener: str, line: str, position: int) -> int:
        """Return where the literal or comment ends, or else where the line does."""
        if opener == "/*":
            return self._end_of_comment(line, position)
        if opener in ("e'", "E'"):
            found = _ESCAPING_REST.match(line, position)
            end = -1 if found is None else found.end()
        else:  # a quote that is doubled ends a literal, and begins another
            end = line.find(opener, position)
            end = end if end < 0 else end + len(opener)
        if end < 0:
            return len(line)
        self._opener = None
        return end

    def _end_of_comment(self, line: str, position: int) -> int:
        for mark in _COMMENT_MARK.finditer(line, position):
            self._depth += 1 if mark[0] == "/*" else -1
            if self._depth < 0:
                self._depth, self._opener = 0, None
                return mark.end()
        return len(line)
