r"""What ``reput grep`` looks for in bodies: a text or a regular expression.

Bytes that every match contains are looked for in a whole window of the log at once, which takes no
step per message. Only the records in which they occur are looked at one by one.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import attrs
import click
import numpy as np

from reput.record.layout import COMPRESSED

if TYPE_CHECKING:
    import numpy.typing as npt

    from reput.record import DispatchBatch

Find = Callable[[int], "tuple[int, int] | None"]
"""Returns start and end of the first occurrence from a position on."""
Finder = Callable[[bytes], Find]
"""Returns what finds occurrences in a window of the log."""

# Letters that are also equal to others than their ASCII capitals if case does not count.
_MORE_CASES: Final = {"i": ("\u0130", "\u0131"), "k": ("\u212a",), "s": ("\u017f",)}


@attrs.frozen(eq=False)
class BodySearch:
    """A text or regular expression, compiled."""

    pattern: re.Pattern[str]
    """Decides on a body as text; bytes that are not UTF-8 are lone surrogates."""
    finder: Finder | None
    """Finds bytes that every match contains; None if there are none to rely on."""
    plain: bytes | None
    """The bytes to look for if nothing else counts; None for all but a text with its case."""

    @classmethod
    def of(cls, text: str, *, is_regex: bool, ignore_case: bool) -> BodySearch:
        """Compile what a user looks for.

        Raises:
            click.BadParameter: an invalid regular expression.
        """
        flags = re.IGNORECASE if ignore_case else re.NOFLAG
        try:
            pattern = re.compile(text if is_regex else re.escape(text), flags)
        except re.error as error:
            reason = (
                f"{text!r} is not a valid regular expression: {error}; "
                "without -E it is searched as text"
            )
            raise click.BadParameter(reason, param_hint="PATTERN") from None
        certain = _certain_text(pattern) if is_regex else text
        plain = None
        if not is_regex and not ignore_case:
            plain = _bytes(text)
        return cls(pattern, _finder(certain, pattern), plain)

    def is_in(self, body: bytes) -> bool:
        """Whether a body holds it."""
        if self.plain is not None:
            return self.plain in body
        return self.pattern.search(body.decode("utf-8", "surrogateescape")) is not None

    def rows(
        self, batch: DispatchBatch, wanted: npt.NDArray[np.bool_], *, unpacks: bool
    ) -> npt.NDArray[np.bool_]:
        """Return rows that may hold it, among the wanted ones: ``(n,)``.

        Args:
            batch: the records.
            wanted: ``(n,)``, which rows count.
            unpacks: whether compressed bodies count as what they are when unpacked; these rows may
                all hold it.
        """
        if self.finder is None or not wanted.any():
            return wanted
        found = rows_with(batch, self.finder)
        if unpacks:
            found |= (batch.sys_flag & COMPRESSED) != 0
        return found & wanted


def rows_with(batch: DispatchBatch, finder: Finder) -> npt.NDArray[np.bool_]:
    """Return rows in whose records something occurs, anywhere in them: ``(n,)``."""
    found = np.zeros(len(batch), np.bool_)
    if not len(batch):
        return found
    first = int(batch.start[0])
    end = int(batch.start[-1] + batch.size[-1])
    find, starts = finder(batch.window[first:end].tobytes()), batch.start - first
    at = 0
    while (place := find(at)) is not None:
        low, high = place
        # A hit may begin in one record and end in another, and may hide a hit inside of the latter.
        row = int(starts.searchsorted(low, "right")) - 1
        last = int(starts.searchsorted(max(high - 1, low), "right")) - 1
        found[row : last + 1] = True
        if last + 1 >= len(starts):
            break
        at = int(starts[last + 1])
    return found


# --------------------------------------------------------------------------- what is certain


def _finder(certain: str, pattern: re.Pattern[str]) -> Finder | None:
    data = _bytes(certain)
    if not data:
        return None
    if not pattern.flags & re.IGNORECASE:
        return finder_of(data)
    if not certain.isascii():
        return None  # the other case may have other bytes, also more of them
    folded = certain.lower()
    others = [other for letter in set(folded) for other in _MORE_CASES.get(letter, ())]
    rare = [other.encode() for other in others]
    letters = ("|".join([re.escape(each), *_MORE_CASES.get(each, ())]) for each in folded)
    anyhow = re.compile("".join(f"(?:{each})" for each in letters).encode(), re.IGNORECASE)

    def finder(window: bytes) -> Find:
        if any(other in window for other in rare):
            return lambda at: None if (found := anyhow.search(window, at)) is None else found.span()
        # Ten times as fast as an expression; the letters' places stay.
        return finder_of(data.lower())(window.lower())

    return finder


def finder_of(data: bytes) -> Finder:
    """Return what finds ``data``, which is not empty."""

    def finder(window: bytes) -> Find:
        def find(at: int) -> tuple[int, int] | None:
            start = window.find(data, at)
            return None if start < 0 else (start, start + len(data))

        return find

    return finder


def _bytes(text: str) -> bytes:
    # Bytes that are not UTF-8 come from the command line as lone surrogates.
    return text.encode("utf-8", "surrogateescape")


def _certain_text(pattern: re.Pattern[str]) -> str:
    """Return the longest text that every match contains; empty if none is known."""
    try:
        from re import _constants, _parser  # type: ignore[attr-defined]
    except ImportError:
        return ""  # another interpreter's: only slower
    runs, run = [""], ""
    for kind, value in _flat(_parser.parse(pattern.pattern, pattern.flags), _constants):
        if kind is _constants.LITERAL:
            run += chr(value)
        elif kind is not _constants.AT:  # an anchor takes no room
            runs.append(run)
            run = ""
    return max([*runs, run], key=len)


def _flat(parsed: Any, constants: Any) -> list[tuple[Any, Any]]:
    """Return the parts of an expression that follow one another, those of its groups among them."""
    parts: list[tuple[Any, Any]] = []
    for kind, value in parsed:
        if kind is constants.SUBPATTERN and not value[1] and not value[2]:
            parts += _flat(value[3], constants)
        else:
            parts.append((kind, value))
    return parts
