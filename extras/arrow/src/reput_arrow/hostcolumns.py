"""Columns made of the hosts of a batch: where messages came from, where they are, and their ids."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Final

import attrs
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from reput.record import fixed_rows, host_of
from reput.record.layout import (
    BORN_HOST_POSITION,
    BORN_HOST_V6,
    HOST_EXTRA_V6,
    HOST_SIZE,
    HOST_SIZE_V6,
    STORE_HOST_V6,
)

if TYPE_CHECKING:
    import numpy.typing as npt

    from reput.record import DispatchBatch

_TIME_SIZE: Final = 8  # of the store time, between the two hosts
_HEX: Final = np.frombuffer(b"".join(b"%02X" % byte for byte in range(256)), np.uint16)
"""Both hex digits of each byte, in memory order."""


@attrs.define(eq=False)
class _Hosts:
    """The distinct hosts of a batch, and for each row which one is its own."""

    found: list[bytes]
    number: npt.NDArray[np.int64]
    """``(n,)`` index in ``found``."""

    def texts(self, kind: pa.DataType) -> pa.Array:
        return pa.array(map(_host_text, self.found), kind).take(pa.array(self.number))


class HostColumns:
    """The hosts of one batch, on their way to Arrow."""

    def __init__(self, batch: DispatchBatch) -> None:
        self._batch = batch

    def born_host(self, kind: pa.DataType) -> pa.Array:
        """Return ``host:port`` of the producer of each message."""
        return self._hosts(BORN_HOST_V6, self._batch.start + BORN_HOST_POSITION).texts(kind)

    def store_host(self, kind: pa.DataType) -> pa.Array:
        """Return ``host:port`` of the broker that stored each message."""
        return self._stored.texts(kind)

    def msg_id(self, kind: pa.DataType) -> pa.Array:
        """Return message ids: hex digits of the store host, then of the physical offset."""
        hosts, number = self._stored.found, self._stored.number
        count = len(number)
        digits = _HEX[self._batch.physical_offset.astype(">i8").view(np.uint8)].view(np.uint8)
        digits = digits.reshape(count, 16)
        if len({len(host) for host in hosts}) <= 1:  # nearly always: one store has one address
            heads = np.array([list(host.hex().upper().encode()) for host in hosts], np.uint8)
            if not hosts:
                return pa.array([], kind)
            letters = np.empty((count, heads.shape[1] + 16), np.uint8)
            letters[:, :-16] = heads[0] if len(hosts) == 1 else heads[number]
            letters[:, -16:] = digits
            return _strings(letters)
        texts = pa.array([host.hex().upper() for host in hosts], kind).take(pa.array(number))
        return pc.binary_join_element_wise(texts, _strings(digits), "")

    @cached_property
    def _stored(self) -> _Hosts:
        """The store hosts, which two columns are made of."""
        extra = np.where(self._batch.sys_flag & BORN_HOST_V6, HOST_EXTRA_V6, 0)
        position = self._batch.start + BORN_HOST_POSITION + HOST_SIZE + _TIME_SIZE
        return self._hosts(STORE_HOST_V6, position + extra)

    def _hosts(self, bit: int, position: npt.NDArray[np.int64]) -> _Hosts:
        """Find the hosts at ``(n,)`` positions; rows with ``bit`` in their flag have IPv6 ones."""
        batch = self._batch
        is_v6 = (batch.sys_flag & bit) != 0
        found: list[bytes] = []
        number = np.zeros(len(batch), np.int64)
        for rows, size in [
            (np.flatnonzero(~is_v6), HOST_SIZE),
            (np.flatnonzero(is_v6), HOST_SIZE_V6),
        ]:
            if len(rows):
                items = fixed_rows(batch.window, position[rows], np.dtype((np.void, size)))
                letters = items.view(np.uint32).reshape(len(rows), -1)
                if (letters == letters[0]).all():  # mostly one host; else sorting finds all
                    number[rows] = len(found)
                    found.append(items[0].tobytes())
                    continue
                hosts, places = np.unique(items, return_inverse=True)
                number[rows] = places + len(found)
                found += [host.tobytes() for host in hosts]
        return _Hosts(found, number)


def _host_text(host: bytes) -> str:
    address, port = host_of(host)
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"


def _strings(letters: npt.NDArray[np.uint8]) -> pa.StringArray:
    """Return ``n`` texts of one width, made of ``(n, width)`` ASCII letters."""
    count, width = letters.shape
    offsets = np.arange(count + 1, dtype=np.int32) * np.int32(width)
    data = np.ascontiguousarray(letters)
    return pa.StringArray.from_buffers(count, pa.py_buffer(offsets), pa.py_buffer(data))
