"""Bytes that are nearly valid, to fuzz decoders with.

A decoder refuses random bytes at their first field. Valid bytes with a few errors get deeper into
it, and these errors are drawn here: bits and bytes, whole fields with numbers at the edges of their
range, ranges of bytes that are removed, doubled, moved, or taken from other bytes.

    @given(fuzzing.mutated([record, other_record]))
    def test_any_record_is_decoded_or_refused(data): ...
"""

from __future__ import annotations

from collections.abc import Sequence

import attrs
from hypothesis import strategies as st

EDGES = (0, 1, 2, 0x7F, 0x80, 0xFF, 0x7FFF, 0x8000, 0xFFFF, (1 << 31) - 1, 1 << 31, (1 << 32) - 1)
"""Numbers at which lengths overflow; a number too large for a field is cut to its width."""
_WIDE_EDGES = (*EDGES, 1 << 32, (1 << 63) - 1, 1 << 63, (1 << 64) - 1)


@attrs.frozen
class Mutation:
    """One change to bytes; positions are taken modulo the size, so that a change fits any bytes."""

    kind: str
    """``"flip"``, ``"set"``, ``"number"``, ``"add"``, ``"drop"``, ``"double"``, ``"move"``,
    ``"insert"``, ``"cut"`` or ``"zero"``."""
    position: int
    size: int = 1
    """Bytes that are changed; for a number its width."""
    value: int = 0
    """What is written, added or flipped; for ``"move"`` the target position."""
    data: bytes = b""
    """Bytes that are inserted."""

    def apply(self, data: bytes) -> bytes:
        """Return ``data`` with the change."""
        at = self.position % (len(data) + 1)
        end = min(at + self.size, len(data))
        part = data[at:end]
        match self.kind:
            case "flip":
                part = bytes(byte ^ (self.value & 0xFF) for byte in part)
            case "set":
                part = bytes([self.value & 0xFF]) * len(part)
            case "number" if part:
                part = (self.value % (1 << 8 * len(part))).to_bytes(len(part), "big")
            case "add" if part:
                number = int.from_bytes(part, "big") + self.value
                part = (number % (1 << 8 * len(part))).to_bytes(len(part), "big")
            case "drop":
                part = b""
            case "double":
                part += part
            case "move":
                rest = data[:at] + data[end:]
                to = self.value % (len(rest) + 1)
                return rest[:to] + part + rest[to:]
            case "insert":
                part = self.data + part
            case "cut":
                return data[:at]
            case "zero":
                part = bytes(len(part))
        return data[:at] + part + data[end:]


def mutations(size: int, others: Sequence[bytes] = ()) -> st.SearchStrategy[Mutation]:
    """Draw changes to bytes of about ``size``; parts of ``others`` may be inserted."""
    position = st.integers(0, max(size, 1))
    stretch = st.integers(1, max(size // 2, 1))
    number = st.sampled_from(_WIDE_EDGES) | st.integers(0, (1 << 64) - 1)
    chunks = st.binary(max_size=12)
    if others:
        chunks |= st.builds(
            lambda whole, start, length: whole[start % (len(whole) + 1) :][:length],
            st.sampled_from(others),
            position,
            stretch,
        )
    return st.one_of(
        st.builds(Mutation, st.just("flip"), position, st.just(1), st.sampled_from(_BITS)),
        st.builds(Mutation, st.just("set"), position, st.integers(1, 8), st.integers(0, 255)),
        st.builds(Mutation, st.just("number"), position, st.sampled_from([1, 2, 4, 8]), number),
        st.builds(
            Mutation,
            st.just("add"),
            position,
            st.sampled_from([1, 2, 4, 8]),
            st.integers(-300, 300),
        ),
        st.builds(Mutation, st.sampled_from(["drop", "double", "zero"]), position, stretch),
        st.builds(Mutation, st.just("move"), position, stretch, position),
        st.builds(Mutation, st.just("insert"), position, st.just(0), st.just(0), chunks),
        st.builds(Mutation, st.just("cut"), position),
    )


_BITS = [1 << bit for bit in range(8)]


@st.composite
def mutated(
    draw: st.DrawFn, seeds: Sequence[bytes], max_count: int = 6, *, same_size: bool = False
) -> bytes:
    """Draw one of ``seeds`` with some changes, sometimes none.

    Args:
        draw: given by Hypothesis.
        seeds: valid bytes; changes may splice parts of one into another.
        max_count: most changes.
        same_size: cut, or pad with zeros, to the seed's size, as a file of fixed size would be.
    """
    seed = data = draw(st.sampled_from(seeds))
    for mutation in draw(st.lists(mutations(len(seed), seeds), max_size=max_count)):
        data = mutation.apply(data)
    return data[: len(seed)].ljust(len(seed), b"\0") if same_size else data
