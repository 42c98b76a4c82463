"""Bodies that a producer compressed."""

from __future__ import annotations

import contextlib
import sys
import zlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reput.errors import CodecNotFoundError, UnpackError
from reput.record import Message, compression_name, unpack_body
from reput_testing import SmallLog

BODY = b"order 42, " * 500
GOLDEN = Path(__file__).parents[1] / "golden" / "compressed"


def packed(name: str, body: bytes = BODY) -> bytes:
    """The body as RocketMQ's client compresses it: zlib at level 5, an LZ4 frame, a ZSTD frame."""
    if name == "lz4":
        return pytest.importorskip("lz4.frame").compress(body)
    if name == "zstd":
        from_314 = "compression.zstd" if sys.version_info >= (3, 14) else "backports.zstd"
        return pytest.importorskip(from_314).compress(body)
    return zlib.compress(body, 5)


FLAGS = {0x1: "zlib", 0x101: "lz4", 0x201: "zstd", 0x301: "zlib"}


@pytest.mark.parametrize(("flag", "name"), FLAGS.items())
def test_a_body_is_what_its_producer_was_given(flag, name) -> None:
    stored = packed(name)

    assert compression_name(flag | 0x30) == name
    assert unpack_body(stored, flag | 0x8) == BODY
    assert unpack_body(packed(name, b""), flag) == b""


@pytest.mark.parametrize(("flag", "name"), FLAGS.items())
def test_what_rocketmq_compressed_is_unpacked(flag, name) -> None:
    packed(name)  # skips where the library is missing
    stored = (GOLDEN / f"{name}.bin").read_bytes()

    body = unpack_body(stored, flag)

    assert body.decode() == "".join(f"order {number}, state paid; " for number in range(400))


def test_without_the_bit_a_body_is_left_alone() -> None:
    assert unpack_body(BODY, 0x300) is BODY
    assert compression_name(0x300) is None


@pytest.mark.parametrize(("flag", "name"), FLAGS.items())
def test_a_result_is_bounded_to_the_byte(flag, name) -> None:
    stored = packed(name)

    assert unpack_body(stored, flag, limit=len(BODY)) == BODY
    with pytest.raises(UnpackError, match=f"more than {len(BODY) - 1} bytes"):
        unpack_body(stored, flag, limit=len(BODY) - 1)


@pytest.mark.parametrize(("flag", "name"), FLAGS.items())
def test_a_body_that_ends_early_is_an_error_at_every_byte(flag, name) -> None:
    stored = packed(name, b"0123456789" * 20)

    for size in range(len(stored)):
        with pytest.raises(UnpackError):
            unpack_body(stored[:size], flag)


@pytest.mark.parametrize("flag", [0x401, 0x501, 0x601, 0x701])
def test_an_algorithm_that_rocketmq_does_not_know_is_named(flag) -> None:
    with pytest.raises(UnpackError, match=f"type {flag >> 8}; 0 to 3 expected"):
        unpack_body(BODY, flag)


@pytest.mark.parametrize("flag", FLAGS)
@given(stored=st.binary(max_size=200))
def test_any_bytes_unpack_or_are_an_error(flag, stored) -> None:
    packed(FLAGS[flag])  # skips where the library is missing

    with contextlib.suppress(UnpackError):
        assert len(unpack_body(stored, flag, limit=1 << 16)) <= 1 << 16


@pytest.mark.parametrize(
    ("flag", "hidden"), [(0x101, ["lz4.frame"]), (0x201, ["compression.zstd", "backports.zstd"])]
)
def test_a_missing_library_is_named_with_the_extra_that_brings_it(
    flag, hidden, monkeypatch
) -> None:
    for name in hidden:
        monkeypatch.setitem(sys.modules, name, None)

    with pytest.raises(CodecNotFoundError, match=r"pip install './core\[compression\]'"):
        unpack_body(b"", flag)


def test_a_view_names_the_algorithm() -> None:
    log = SmallLog()
    log.append(Message("t", zlib.compress(BODY), sys_flag=0x301))
    (message,) = log.messages()

    assert message.compression == "zlib"
    assert unpack_body(message.body, message.sys_flag) == BODY
