"""What a store does when a plugin fails: the section ``dispatch``, and when calls are retried."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Final

import attrs

from reput.files.system.flushing import is_disk_full
from reput.validators import INT32_MAX, integer_between

SUSPEND: Final = "suspend"
SKIP: Final = "skip"
HALT: Final = "halt"
POLICIES: Final = (SUSPEND, SKIP, HALT)
_OTHERS: Final = "*"


def _check_policies(config: object, field: attrs.Attribute[Any], value: object) -> None:
    expected = f"{field.name}: one of {', '.join(POLICIES)}, or a table of them by plugin, expected"
    if not isinstance(value, Mapping):
        if value not in POLICIES:
            raise ValueError(f"{expected}, found {value!r}")
        return
    for name, policy in value.items():
        if policy not in POLICIES:
            raise ValueError(f"{expected}, found {policy!r} for {name!r}")


@attrs.frozen(kw_only=True)
class DispatchConfig:
    """Options of the section ``dispatch``: what a store does when a plugin fails.

    With ``"skip"``, a plugin that fails on 1,000 messages in a row is suspended. Closing a store
    waits at most 10 s for plugins that are behind, unless the caller gives another time.
    """

    on_error: str | Mapping[str, str] = attrs.field(default=SUSPEND, validator=_check_policies)
    """After the last retry: ``"suspend"`` the plugin; ``"skip"`` the message, and keep a note in
    the plugin's dead-letter file; ``"halt"`` all dispatching, so that no other plugin gets ahead.
    Or a table of policies by plugin, such as ``{audit = "skip", "*" = "halt"}``: ``"*"`` means all
    other plugins; without it they are suspended.

    Choose ``"skip"`` for a plugin that may leave messages out, and ``"halt"`` when others must not
    get ahead of it.
    """
    retry_count: int = attrs.field(default=5, validator=integer_between(0, INT32_MAX))
    """The number of retries with the same messages before `on_error` applies. The first retry comes
    after 100 ms, each further one after twice as long, at most 5 s. A plugin that found the disk
    full is retried without end.

    Raise it when a plugin uses a service that may be unavailable for longer than three seconds.
    """
    stall_ms: int = attrs.field(default=10_000, validator=integer_between(1, INT32_MAX))
    """After this time the store stops waiting for a call of a plugin and shows the plugin as
    stalled. When the call returns, the plugin continues on a thread of its own.

    Raise it when a call of a plugin may take longer, for example over a network.
    """

    removed_options: ClassVar[Mapping[str, str]] = {
        "on_error_of": "on_error takes a table of policies by plugin",
        "retry_pause_ms": "the first retry comes after 100 ms",
        "retry_max_pause_ms": "retries are at most 5 s apart",
        "skip_limit": "a plugin is suspended after 1,000 messages skipped in a row",
        "close_timeout_ms": "Store.close takes the time that it may wait",
    }
    retry_pause_ms: ClassVar[int] = 100
    """Pause before the first retry; each further one is twice as long."""
    retry_max_pause_ms: ClassVar[int] = 5_000
    """Longest pause; a plugin that found the disk full is retried this often, without end."""
    skip_limit: ClassVar[int] = 1_000
    """Messages that ``"skip"`` skips in a row before the plugin is suspended."""
    close_timeout_ms: ClassVar[int] = 10_000
    """How long closing a store waits for plugins that are behind, unless its caller says it."""

    def policy_of(self, plugin: str) -> str:
        """Return the policy for one plugin."""
        if isinstance(self.on_error, str):
            return self.on_error
        return self.on_error.get(plugin) or self.on_error.get(_OTHERS, SUSPEND)


@attrs.define(eq=False, repr=False)
class Retries:
    """Counts failures in a row of one kind of call, and decides when it is retried."""

    config: DispatchConfig
    count: int = 0
    """Failures since the last success."""
    at: float = 0.0
    """When to retry, in the seconds that the caller passes."""
    are_over: bool = False
    """Whether the last retry has failed; never if the disk is full."""

    def failed(self, error: BaseException, now: float) -> float:
        """Count a failure; return how many seconds to wait before the next retry."""
        config, is_full = self.config, is_disk_full(error)
        self.count += 1
        self.are_over = self.count > config.retry_count and not is_full
        pause_ms = config.retry_pause_ms << min(self.count - 1, 30)
        if is_full or pause_ms > config.retry_max_pause_ms:
            pause_ms = config.retry_max_pause_ms
        if not self.are_over:
            self.at = now + pause_ms / 1_000
        return pause_ms / 1_000

    def succeeded(self) -> None:
        """Note a success: the next failure is the first one."""
        self.count, self.at, self.are_over = 0, 0.0, False
