"""Checks a store of reput or RocketMQ, and says what is wrong, where, and what to do about it.

`findings` is the language that all rooms share: what was found, how bad it is, what was checked.
"""

from __future__ import annotations
