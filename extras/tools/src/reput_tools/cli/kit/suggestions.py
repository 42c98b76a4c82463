"""What a user may have meant who mistyped a name."""

from __future__ import annotations

from collections.abc import Iterable

_OTHER_WORDS = {
    "--after": ("--from", "--since"),
    "--before": ("--until",),
    "--end": ("--until",),
    "--from": ("--since",),
    "--host": ("--listen",),
    "--head": ("--count",),
    "--limit": ("--count",),
    "--max": ("--count",),
    "--number": ("--count",),
    "--port": ("--listen",),
    "--since": ("--from",),
    "--sql": ("--where",),
    "--start": ("--from", "--since"),
    "--tags": ("--tag",),
    "--tail": ("--last",),
    "--to": ("--until",),
}
"""Options of other programs and commands, and ours of the same meaning."""
_CUTOFF = 0.6  # of difflib's ratio: two swapped letters of five are near, two wrong ones are not


def nearest(word: str, known: Iterable[str]) -> str | None:
    """Return the name that is most like ``word`` and another; None if no name is like it."""
    import difflib

    names = {name.lower(): name for name in sorted(known) if name != word}
    near = difflib.get_close_matches(word.lower(), names, n=1, cutoff=_CUTOFF)
    return names[near[0]] if near else None


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return the end of an error's text: ``"; did you mean 'orders'?"``, or nothing."""
    near = nearest(word, known)
    return "" if near is None else f"; did you mean {near!r}?"


def meant_option(word: str, known: Iterable[str]) -> str:
    """Return the end of an error's text that names the option that was meant, or nothing."""
    options = list(known)
    # Dashes, which all have, make no two of them alike.
    names = {each[2:]: each for each in (*_OTHER_WORDS, *options) if each.startswith("--")}
    near = word if word in _OTHER_WORDS else names.get(nearest(word.lstrip("-"), names) or "", "")
    wanted = (near, *_OTHER_WORDS.get(near, ()))
    ours = next((each for each in wanted if each in options), None)
    return "" if ours is None else f"; did you mean {ours!r}?"
