"""`Selector`: which messages of a topic a group wants, by tags or by a condition in SQL.

Source: RocketMQ ``FilterAPI#buildSubscriptionData`` and ``ExpressionType``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, Protocol, Self

import attrs

from reput.record import java_string_hash
from reput_consumer.names import checked_topic, is_retry_topic

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from reput.record import DispatchBatch, MessageView

TAG: Final = "TAG"
SQL92: Final = "SQL92"
ALL: Final = "*"
_OF_CONDITIONS: Final = re.compile(r"[\s<>=()'\"]")
"""A tag hardly has such a character, and nearly every condition has one."""


@attrs.frozen
class Selector:
    """A subscription of one topic; a plain value that also goes over a network."""

    expression: str = ALL
    """Tags with ``||`` between them, or a condition."""
    kind: str = TAG
    """`TAG` or `SQL92`."""
    tags: frozenset[str] = attrs.field(init=False)
    """The tags; empty for all messages, and for a condition."""

    @tags.default
    def _tags(self) -> frozenset[str]:
        if self.kind != TAG or self.selects_all:
            return frozenset()
        return frozenset(filter(None, (tag.strip() for tag in self.expression.split("||"))))

    @property
    def selects_all(self) -> bool:
        """Whether all messages are selected."""
        return self.kind == TAG and self.expression.strip() in ("", ALL)

    def __str__(self) -> str:
        if self.selects_all:
            return ALL
        if self.kind == TAG:
            return " || ".join(sorted(self.tags))
        return f"{self.kind}: {self.expression}"

    @classmethod
    def of(cls, given: object) -> Self:
        """Return what a caller gave as a selector: itself, a text of tags, or None for all.

        Raises:
            TypeError: it is none of these.
            ValueError: a text of tags that names none, or that looks like a condition. A tag that
                does look so can be given as a `Selector`.
        """
        if isinstance(given, cls):
            return given
        if given is None:
            return cls()
        if not isinstance(given, str):
            raise TypeError(f"selector: tags or sql(…) expected, found {str(given)[:100]!r}")
        found = cls(given)
        if not found.tags and not found.selects_all:
            raise ValueError(f"selector {given[:100]!r}: a tag expected, or '*' for all")
        if any(map(_OF_CONDITIONS.search, found.tags)):
            # It would select no message, and the group would skip them all.
            text = (
                f"{given[:100]!r} is not a list of tags; for a condition use reput_consumer.sql(…)"
            )
            raise ValueError(f"selector: {text}")
        return found


def sql(condition: str) -> Selector:
    """Return a selector by a condition on properties: ``sql("amount > 5 AND TAGS = 'paid'")``."""
    return Selector(condition, SQL92)


def selectors_of(given: object) -> dict[str, Selector]:
    """Return selectors by topic from what a caller gave: a topic, several, or a mapping.

    Raises:
        TypeError: it is none of these.
        ValueError: no topic, or a name that no topic can have.
    """
    if isinstance(given, str):
        given = [given]
    if isinstance(given, Mapping):
        found = {checked_topic(topic): Selector.of(each) for topic, each in given.items()}
    elif isinstance(given, Sequence | set | frozenset) and not isinstance(given, bytes):
        found = {checked_topic(topic): Selector() for topic in given}
    else:
        raise TypeError(
            f"topics: a topic, several, or {{topic: tags}} expected, found {given!r:.100}"
        )
    if not found:
        raise ValueError("topics: at least one expected")
    return found


class Subscriber(Protocol):
    """A member of a group, as far as others must subscribe like it."""

    @property
    def broadcast(self) -> bool:
        """Whether it reads all messages, whatever others do."""

    @property
    def pops(self) -> bool:
        """Whether it is handed messages one by one, of its own topics alone."""

    @property
    def subscriptions(self) -> tuple[str, ...]:
        """See `subscriptions_of`."""


def subscriptions_of(selectors: Mapping[str, Selector]) -> tuple[str, ...]:
    """Return what a member selects, as text, for comparison; without retry topics."""
    found = (f"{topic} ({each})" for topic, each in selectors.items() if not is_retry_topic(topic))
    return tuple(sorted(found))


def are_mixed(members: Iterable[Subscriber]) -> bool:
    """Whether members of one group select different messages, so that messages are left out."""
    sharing = [each for each in members if not each.broadcast]
    if any(each.pops for each in sharing):
        texts = {text for each in sharing for text in each.subscriptions}
        return len({text.partition(" (")[0] for text in texts}) < len(texts)
    return len({each.subscriptions for each in sharing}) > 1


class TagFilter:
    """A `reput.plugin.MessageFilter` by tags, for stores that do not have the plugin ``filter``."""

    def __init__(self, tags: frozenset[str]) -> None:
        self._tags = tags
        self._codes = sorted({java_string_hash(tag) for tag in tags})

    def matches(self, message: MessageView) -> bool:
        """See `reput.plugin.MessageFilter.matches`."""
        return message.tags in self._tags

    def matches_batch(self, batch: DispatchBatch) -> npt.NDArray[np.bool_]:
        """See `reput.plugin.MessageFilter.matches_batch`."""
        import numpy as np

        return np.array([batch.message(row).tags in self._tags for row in range(len(batch))], bool)

    def may_match(
        self,
        tags_codes: npt.NDArray[np.int64],
        bit_maps: Sequence[bytes | None],
        store_timestamps: npt.NDArray[np.int64],
    ) -> npt.NDArray[np.bool_]:
        """See `reput.plugin.MessageFilter.may_match`."""
        import numpy as np

        return np.isin(tags_codes, self._codes)
