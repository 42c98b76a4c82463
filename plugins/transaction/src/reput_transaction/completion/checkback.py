"""Decide what a check-back run does with one half message.

Source: RocketMQ ``TransactionalMessageServiceImpl#check``. Different on purpose: whether a message
is finished is known from the whole log, so no message is copied only to move on past it, and no
application is asked because op messages are missing.
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from reput_transaction.config import TransactionConfig
    from reput_transaction.messages.halfmessage import HalfMessage

_HOUR_MS = 3_600_000


class CheckBackDecision(enum.Enum):
    """What a check-back run does with a half message."""

    ASK = "ask what became of the transaction"
    GIVE_UP = "put it aside: asked too often, or too old"
    PASS = "leave it for another run"
    STOP = "leave it and those behind it for another run: they are younger"


def verdict_on(
    half: HalfMessage, now: int, run_started: int, config: TransactionConfig
) -> CheckBackDecision:
    """Return what to do with an open half message.

    Args:
        half: the message.
        now: the clock, ms.
        run_started: when the check-back run began, ms.
        config: limits.
    """
    age = half.age_ms(now)
    if half.times_checked >= config.check_max or age > config.keep_hours * _HOUR_MS:
        return CheckBackDecision.GIVE_UP
    if half.store_timestamp >= run_started:
        return CheckBackDecision.STOP
    immunity = half.immunity_ms
    if immunity is not None and age < immunity:
        return CheckBackDecision.PASS
    if immunity is None and 0 <= age < config.timeout_ms:
        return CheckBackDecision.STOP
    if age > (config.timeout_ms if immunity is None else immunity) or age <= -1:
        return CheckBackDecision.ASK
    return CheckBackDecision.PASS
