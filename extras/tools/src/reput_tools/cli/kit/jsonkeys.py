"""``--json``, and the keys of what it prints: declared beside each command, shown by the reference.

A key is the path of a value: ``log.size`` is a member of an object, ``queues[].queue_id`` of each
object in an array, and ``facts.*`` of an object with any names. Below a value of which no part is
declared, anything may stand. A test compares the keys with the output of each command.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

import click

_Command = TypeVar("_Command", bound=Callable[..., Any])
_Keys = Mapping[str, str]

STORE_KEYS: Final = {
    "path": "the store's directory",
    "problems[]": "a text for each part of the store that cannot be used, with its path: a plugin "
    "that is not installed or cannot be opened, or a damaged file",
}


class JsonOption(click.Option):
    """The option ``--json``, which knows what it prints."""

    def __init__(self, *names: Any, what: str, forms: Mapping[str, _Keys], **options: Any) -> None:
        super().__init__(*names, **options)
        self.what = what
        """What is printed, as a noun."""
        self.forms = forms
        """Meanings of keys, by the form of the document; the form is empty if there is one only."""


def json_option(
    what: str, keys: _Keys | None = None, forms: Mapping[str, _Keys] | None = None
) -> Callable[[_Command], _Command]:
    """Add ``--json``.

    Args:
        what: what it prints, as a noun.
        keys: meanings of the keys of each document or object.
        forms: the same of documents of other forms, by what they are.
    """
    found = {"": keys} if keys else {}
    return click.option(
        "--json",
        "as_json",
        is_flag=True,
        cls=JsonOption,
        what=what,
        forms=found | dict(forms or {}),
        help=f"Print JSON for programs: {what}.",
    )


def below(path: str, keys: _Keys) -> dict[str, str]:
    """Return keys as those of a value at ``path``, such as ``losses[]``."""
    return {f"{path}.{key}": meaning for key, meaning in keys.items()}
