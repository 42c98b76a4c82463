"""Bloom filters of consumers: which bits of a message's bit map stand for which consumer.

A *bit map* is computed for a message when it is indexed; if a bit of a consumer is not set, that
consumer does not want the message. Bit ``p`` is in byte ``p // 8``, least significant bit first.

Source: RocketMQ ``BloomFilter``, ``BitsArray``; Guava's 128-bit MurmurHash3 for x64, seed 0.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Final

import attrs

from reput.errors import ConfigError

_64: Final = (1 << 64) - 1
_C1: Final = 0x87C37B91114253D5
_C2: Final = 0x4CF5AD432745937F


@attrs.frozen
class BloomFilter:
    """The number of bits in a bit map, and how many of them a consumer sets."""

    hash_count: int
    """Bits of a consumer (``k``), some of which may coincide."""
    bit_count: int
    """Bits of a map (``m``), a multiple of 8."""

    @classmethod
    def of(cls, error_percent: int = 20, expected_count: int = 32) -> BloomFilter:
        """Return the filter for so many consumers; the defaults are those of a broker.

        Args:
            error_percent: unwanted messages that pass, of a hundred, 1 to 99.
            expected_count: number of consumers, 1 or more.

        Raises:
            ConfigError: a number is out of range.
        """
        if not 1 <= error_percent <= 99:
            raise ConfigError("filter", "max_error_rate", "a percentage from 1 to 99 expected")
        if expected_count < 1:
            raise ConfigError("filter", "expected_consumers", "1 or more expected")
        rate = error_percent / 100
        hashes = math.ceil(math.log(rate) / math.log(0.5))
        bits = math.ceil(
            expected_count * (math.log(1 / rate) / math.log(2)) * (math.log(math.e) / math.log(2))
        )
        return cls(hashes, -(-bits // 8) * 8)

    @property
    def size(self) -> int:
        """Bytes of a bit map."""
        return self.bit_count // 8

    def positions(self, member: str) -> tuple[int, ...]:
        """Return the bits of a member (``group#topic`` for a consumer) in hash order."""
        # Java writes a lone surrogate as a question mark.
        found = murmur3_64(member.encode("utf-8", "replace"))
        low, high = _signed(found), _signed(found >> 32)
        combined = [_signed(low + number * high) for number in range(1, self.hash_count + 1)]
        return tuple((~each if each < 0 else each) % self.bit_count for each in combined)

    def bits(self, positions: Iterable[int]) -> bytes:
        """Return a bit map in which these bits are set."""
        return bits_of(positions, self.size)


def bits_of(positions: Iterable[int], size: int) -> bytes:
    """Return ``size`` bytes in which the bits at ``positions`` are set."""
    found = bytearray(size)
    for position in positions:
        found[position // 8] |= 1 << position % 8
    return bytes(found)


def murmur3_64(data: bytes) -> int:
    """Return the first 64 bits of the 128-bit MurmurHash3 (x64, seed 0), unsigned."""
    first = second = 0
    whole = len(data) - len(data) % 16
    for at in range(0, whole, 16):
        first ^= _mixed_first(int.from_bytes(data[at : at + 8], "little"))
        first = (_rotated(first, 27) + second) * 5 + 0x52DCE729 & _64
        second ^= _mixed_second(int.from_bytes(data[at + 8 : at + 16], "little"))
        second = (_rotated(second, 31) + first) * 5 + 0x38495AB5 & _64
    rest = data[whole:]
    second ^= _mixed_second(int.from_bytes(rest[8:], "little"))
    first ^= _mixed_first(int.from_bytes(rest[:8], "little"))
    first, second = first ^ len(data), second ^ len(data)
    first = first + second & _64
    second = second + first & _64
    return _finished(first) + _finished(second) & _64


def _mixed_first(word: int) -> int:
    return _rotated(word * _C1 & _64, 31) * _C2 & _64


def _mixed_second(word: int) -> int:
    return _rotated(word * _C2 & _64, 33) * _C1 & _64


def _rotated(word: int, count: int) -> int:
    word &= _64
    return (word << count | word >> 64 - count) & _64


def _finished(word: int) -> int:
    word = (word ^ word >> 33) * 0xFF51AFD7ED558CCD & _64
    word = (word ^ word >> 33) * 0xC4CEB9FE1A85EC53 & _64
    return word ^ word >> 33


def _signed(number: int) -> int:
    number &= 0xFFFFFFFF
    return number - (1 << 32) if number & 0x80000000 else number
