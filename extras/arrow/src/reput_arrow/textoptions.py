"""Options as Spark hands them over, texts by name: what those of reads and of writes share."""

from __future__ import annotations

import datetime as dt
import difflib
from collections.abc import Collection, Mapping
from typing import Any

from reput_arrow.codederrors import CodedError


def by_name(options: Mapping[str, str]) -> dict[str, str]:
    """Return options by their names in lower case: Spark does not tell cases apart."""
    return {name.lower(): value for name, value in options.items()}


def refuse_unknown(
    given: Mapping[str, str], known: Collection[str], of: str = "", others: Collection[str] = ()
) -> None:
    """Refuse a name that no option has.

    Args:
        given: options by name.
        known: names of the existing options, as the text lists them.
        of: whose options they are, for the text.
        others: names that are ignored, and not listed.

    Raises:
        CodedError: an unknown option; the text says which one was meant, perhaps.
    """
    for name in given:
        if name not in known and name not in others:
            near = difflib.get_close_matches(name, known, 1)
            meant = f"{near[0]!r} was meant? " if near else ""
            raise CodedError(
                "OPTION", f"no option {name!r}{of}. {meant}There are: {', '.join(known)}"
            )


def refusal(name: str, value: object, expected: str) -> CodedError:
    """Return the error for a value that an option does not take."""
    return CodedError("OPTION", f"option {name!r} is {value!r}; {expected} expected")


def flag(name: str, given: Mapping[str, str], default: str = "false") -> bool:
    """Return whether an option is ``true``.

    Raises:
        CodedError: it is neither ``true`` nor ``false``.
    """
    text = given.get(name, default).lower()
    if text not in ("true", "false"):
        raise refusal(name, text, "true or false")
    return text == "true"


def whole_number(name: str, given: Mapping[str, str], least: int, most: int) -> int | None:
    """Return an option that is a number from ``least`` to ``most``; None where it is not given.

    Raises:
        CodedError: it is something else.
    """
    text = given.get(name)
    if text is None:
        return None
    if not (text.isascii() and text.isdigit() and len(text) < 20 and least <= int(text) <= most):
        raise refusal(name, text, f"an integer from {least} to {most}")
    return int(text)


def seconds(name: str, given: Mapping[str, str], default: float) -> float:
    """Return an option that is a time in seconds.

    Raises:
        CodedError: it is something else.
    """
    text = given.get(name)
    if text is None:
        return default
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value < 1e9:
        raise refusal(name, text, "seconds, 0 or more,")
    return value


def texts_of(options: Mapping[str, Any]) -> dict[str, str]:
    """Return options as Spark takes them, with flags, numbers, times and lists as texts.

    Options that are None are left out.
    """
    return {name: _text(value) for name, value in options.items() if value is not None}


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dt.datetime | dt.date):
        return value.isoformat()
    if isinstance(value, list | tuple | set | frozenset | range):
        return ",".join(map(_text, value))
    return str(value)
