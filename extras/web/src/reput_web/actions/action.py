"""`Action`: one change of a store that somebody can ask for by a form."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

import attrs

from reput_web.errors import BadRequestError, WebError

if TYPE_CHECKING:
    from reput import Store
    from reput_consumer import ConsumerPlugin
    from reput_web.readmodel.openedstore import OpenedStore

MoveGroup = Callable[[str, Mapping[Any, int]], None]
"""Moves a group to offsets by queue, and reports them to its members elsewhere."""


class ActionError(WebError):
    """The store does not take a change as it is now."""

    status = 409


@attrs.frozen
class Field:
    """One field of a form."""

    name: str
    label: str
    kind: str = "text"
    """``text``, ``area``, ``number`` or ``choice``."""
    most: int = 255
    """Characters, or the largest number."""
    is_required: bool = True
    choices: tuple[str, ...] = ()
    """The first one is chosen at first."""
    hint: str = ""


@attrs.frozen
class Sentence:
    """A text that is translated, and then filled in."""

    text: str
    values: Mapping[str, Any] = attrs.field(factory=dict)

    @property
    def filled(self) -> str:
        """The sentence in English."""
        return self.text.format(**self.values)


@attrs.frozen
class Plan:
    """What an action would do, for the question whether to do it."""

    sentences: tuple[Sentence, ...]
    columns: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()
    offsets: Mapping[str, int] = attrs.field(factory=dict)
    """By queue id, where a group will go on."""


@attrs.frozen
class Action(ABC):
    """One change, with the values of its fields."""

    name: ClassVar[str]
    title: ClassVar[str]
    button: ClassVar[str]
    fields: ClassVar[tuple[Field, ...]]
    opens_groups: ClassVar[bool] = False
    """Whether the store is opened with the plugin of consumer groups."""
    opens_store: ClassVar[bool] = True
    """Whether the store must be open for writing in this process."""

    values: Mapping[str, str]
    offsets: Mapping[str, int] = attrs.field(factory=dict)
    """`Plan.offsets` of the question that was confirmed."""

    @classmethod
    def of(cls, given: Mapping[str, str], offsets: Mapping[str, int] | None = None) -> Action:
        """Return the action with the values of a form, and what its question has shown.

        Raises:
            BadRequestError: a value is missing, too long, or not of its kind.
        """
        values = {each.name: _checked(each, given.get(each.name, "")) for each in cls.fields}
        return cls(values, offsets or {})

    @abstractmethod
    def plan(self, opened: OpenedStore) -> Plan:
        """Return what would happen; reads the store.

        Raises:
            WebError: it cannot be done.
        """

    @abstractmethod
    def run(self, store: Store, move_group: MoveGroup | None) -> Sentence:
        """Do it, and return what was done.

        Args:
            store: open for writing.
            move_group: how groups are moved; None for the plugin's own way.

        Raises:
            WebError: it cannot be done.
            ReputError: likewise.
            OSError: likewise.
            ValueError: likewise.
        """

    @property
    def address(self) -> str | None:
        """Address of the page that shows the result; None for that of the log of actions."""
        return None


def groups_of(store: Store) -> ConsumerPlugin:
    """Return the plugin of consumer groups."""
    from reput_consumer.plugin import ConsumerPlugin

    return store.plugin(ConsumerPlugin)


def _checked(field: Field, value: str) -> str:
    value = value.replace("\r\n", "\n")
    if not value:
        if field.is_required:
            raise BadRequestError(f"{field.name}: this value is missing.")
        return value
    if field.kind == "number":
        if not (value.isascii() and value.isdigit() and len(value) < 20):
            raise BadRequestError(f"{field.name}: a whole number from 0 to {field.most} expected.")
        if int(value) > field.most:
            raise BadRequestError(f"{field.name}: a whole number from 0 to {field.most} expected.")
    elif len(value) > field.most:
        raise BadRequestError(f"{field.name}: at most {field.most:,} characters.")
    if field.kind == "choice" and value not in field.choices:
        raise BadRequestError(f"{field.name}: {', '.join(field.choices)} expected.")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise BadRequestError(f"{field.name}: this is not valid text in UTF-8.") from None
    return value
