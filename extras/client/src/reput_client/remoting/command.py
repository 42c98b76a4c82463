"""`Command`: one request or one answer, as a frame carries it.

Source: RocketMQ ``RemotingCommand``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import attrs

from reput_client.remoting.headers.fields import read_header, write_header
from reput_client.remoting.peerlanguage import VERSION, Language

RESPONSE: Final = 1  # bits of `flag`
ONE_WAY: Final = 2


@attrs.frozen
class Command:
    """A request or an answer."""

    code: int
    """A `RequestCode`, or a `ResponseCode` in an answer; a peer may send any other number."""
    fields: Mapping[str, str] = attrs.field(factory=dict)
    """What goes with the code (``extFields``): texts by name."""
    body: bytes = b""
    opaque: int = 0
    """Number of the request, chosen by the requester; the answer repeats it."""
    flag: int = 0
    remark: str | None = None
    """In answers a text for people: what was wrong."""
    language: Language = Language.PYTHON
    version: int = VERSION

    @property
    def is_response(self) -> bool:
        """Whether this is an answer."""
        return bool(self.flag & RESPONSE)

    @property
    def is_one_way(self) -> bool:
        """Whether nobody waits for an answer."""
        return bool(self.flag & ONE_WAY)

    @classmethod
    def request(
        cls,
        code: int,
        header: object = None,
        *,
        body: bytes = b"",
        opaque: int = 0,
        one_way: bool = False,
        more: Mapping[str, str] | None = None,
    ) -> Command:
        """Return a request.

        Args:
            code: a `RequestCode`.
            header: an object of a header's class, or None for no fields.
            body: bytes that follow the header.
            opaque: number of the request.
            one_way: True if no answer is wanted.
            more: further fields, by their names on the wire.
        """
        fields = {**_fields_of(header), **(more or {})}
        return cls(code, fields, body, opaque, ONE_WAY if one_way else 0)

    def answer(
        self,
        code: int,
        header: object = None,
        *,
        remark: str | None = None,
        body: bytes = b"",
        more: Mapping[str, str] | None = None,
    ) -> Command:
        """Return an answer to this request; arguments as those of `request`."""
        fields = {**_fields_of(header), **(more or {})}
        return Command(code, fields, body, self.opaque, RESPONSE, remark)

    def header(self, header_type: type[Any]) -> Any:
        """Return the fields as an object of a header's class.

        Raises:
            HeaderError: a field is missing, or its text is not a value of its type.
        """
        return read_header(header_type, self.fields)


def _fields_of(header: object) -> dict[str, str]:
    return {} if header is None else write_header(header)
