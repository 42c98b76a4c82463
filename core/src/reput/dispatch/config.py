"""What a store does when a plugin fails: the configuration section ``dispatch``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import attrs
from attrs.validators import in_

from reput.bounds import INT32_MAX, whole_between

__all__ = ["HALT", "POLICIES", "SKIP", "SUSPEND", "DispatchConfig"]

SUSPEND: Final = "suspend"
SKIP: Final = "skip"
HALT: Final = "halt"
POLICIES: Final = (SUSPEND, SKIP, HALT)


def _policies_by_name(config: object, field: attrs.Attribute[Any], value: object) -> None:
    if not isinstance(value, Mapping):
        raise TypeError(f"a table of policies by plugin expected, not {value!r}")
    for name, policy in value.items():
        if policy not in POLICIES:
            raise ValueError(f"policy of {name!r} is {policy!r}; known: {', '.join(POLICIES)}")


_count = whole_between(0, INT32_MAX)
_positive = whole_between(1, INT32_MAX)


@attrs.frozen(kw_only=True)
class DispatchConfig:
    """Options of the section ``dispatch``."""

    on_error: str = attrs.field(default=SUSPEND, validator=in_(POLICIES))
    """After the last retry: ``"suspend"`` the plugin; ``"skip"`` the message, with a note in the
    plugin's dead-letter file; ``"halt"`` all dispatching, so that no other plugin gets ahead."""
    on_error_of: Mapping[str, str] = attrs.field(factory=dict, validator=_policies_by_name)
    """Other policies for some plugins, by name."""
    retry_count: int = attrs.field(default=5, validator=_count)
    """How often the same messages are retried before that."""
    retry_pause_ms: int = attrs.field(default=100, validator=_positive)
    """Pause before the first retry; each further one is twice as long."""
    retry_max_pause_ms: int = attrs.field(default=5_000, validator=_positive)
    """Longest pause; a plugin that found the disk full is retried this often, without end."""
    skip_limit: int = attrs.field(default=1_000, validator=_positive)
    """Messages that ``"skip"`` skips in a row before the plugin is suspended."""
    stall_ms: int = attrs.field(default=10_000, validator=_positive)
    """A call of a plugin that takes longer is abandoned: the plugin is shown as stalled and, if the
    call returns, goes on, on a thread of its own."""
    close_timeout_ms: int = attrs.field(default=10_000, validator=_positive)
    """How long closing a store waits for plugins that are behind; they catch up after the next
    opening."""

    def pause_seconds(self, attempts: int) -> float:
        """Return how long to wait after ``attempts`` failures in a row."""
        pause_ms = self.retry_pause_ms << min(attempts - 1, 30)
        return min(pause_ms, self.retry_max_pause_ms) / 1_000

    def policy_of(self, plugin: str) -> str:
        """Return the policy for one plugin."""
        return self.on_error_of.get(plugin, self.on_error)
