"""Text in Arrow's columns is what Java makes of bytes that are no UTF-8."""

from __future__ import annotations

import pyarrow as pa
import pytest

from reput.record import java_text
from reput_arrow.textarrays import as_text

SURROGATES = (
    b"\xed\xa0",
    b"\xed\xa0\x80",
    b"\xed\xbf\xbf\xed\xa0\x80",
    b"a\xed\xa0b",
    b"\xed\xa0\xff",
)


@pytest.mark.parametrize("data", SURROGATES)
def test_arrow_columns_have_the_same_text(data):
    assert as_text(pa.array([data, b"plain", None], pa.binary())).to_pylist() == [
        java_text(data),
        "plain",
        None,
    ]
