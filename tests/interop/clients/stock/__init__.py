"""Released clients of Apache RocketMQ, as they are, each in a program that takes lines of JSON.

A program knows the same lines in every language (`Program`); what its client has no call for, the
tests do not ask it.
"""

from __future__ import annotations

from stock.fives import FIVES, FiveProgram
from stock.kinds import CLIENTS, Kind
from stock.program import Program, ProgramFailedError, Row
from stock.starting import have_topic, started, started_five

__all__ = [
    "CLIENTS",
    "FIVES",
    "FiveProgram",
    "Kind",
    "Program",
    "ProgramFailedError",
    "Row",
    "have_topic",
    "started",
    "started_five",
]
