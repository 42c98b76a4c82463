"""Reads ``messages.proto``, and returns the classes of its messages.

Generated code would demand the release of protobuf that generated it, or a newer one. The file is
ours and has one form, so a reader of it is short: messages that are not nested, with scalar,
message, ``optional``, ``repeated`` and ``map`` fields and ``oneof``.
"""

from __future__ import annotations

import re
from importlib.resources import files
from typing import Any, Final

from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    FieldDescriptorProto,
    FileDescriptorProto,
)
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass

_TYPES: Final = {
    "bool": FieldDescriptorProto.TYPE_BOOL,
    "bytes": FieldDescriptorProto.TYPE_BYTES,
    "float": FieldDescriptorProto.TYPE_FLOAT,
    "int32": FieldDescriptorProto.TYPE_INT32,
    "int64": FieldDescriptorProto.TYPE_INT64,
    "string": FieldDescriptorProto.TYPE_STRING,
}
_TOKEN: Final = re.compile(r"[\w.]+|[{}=;<>,]")
_COMMENT: Final = re.compile(r"//[^\n]*")


def message_classes() -> dict[str, Any]:
    """Return the classes of all messages by name."""
    return classes_of(files(__package__).joinpath("messages.proto").read_text("utf-8"))


def classes_of(text: str) -> dict[str, Any]:
    """Return the classes of the messages of a file by name.

    Raises:
        ValueError: the file has another form.
    """
    body = _COMMENT.sub("", text)
    head = re.match(r'\s*syntax = "proto3";\s*package ([\w.]+);', body)
    if head is None:
        raise ValueError("a line syntax and a line package expected first")
    file = FileDescriptorProto(name="reput/messages.proto", package=head[1], syntax="proto3")
    tokens = _TOKEN.findall(body[head.end() :])[::-1]
    while tokens:
        _expect(tokens, "message")
        _Reader(head[1], file.message_type.add(name=tokens.pop()), tokens).read()
    pool = DescriptorPool()  # not that of the process: other packages have messages, too
    pool.Add(file)
    names = [each.name for each in file.message_type]
    return {
        name: GetMessageClass(pool.FindMessageTypeByName(f"{head[1]}.{name}")) for name in names
    }


def _expect(tokens: list[str], *words: str) -> None:
    for word in words:
        found = tokens.pop() if tokens else "the end"
        if found != word:
            raise ValueError(f"{word!r} expected, found {found!r}")


class _Reader:
    """Reads the fields of one message."""

    def __init__(self, package: str, message: DescriptorProto, tokens: list[str]) -> None:
        self.package = package
        self.message = message
        self.tokens = tokens
        self.optional: list[FieldDescriptorProto] = []

    def read(self) -> None:
        """Read until the message ends."""
        _expect(self.tokens, "{")
        while self.tokens[-1] != "}":
            if self.tokens[-1] == "oneof":
                self._read_oneof()
            else:
                self._read_field()
        _expect(self.tokens, "}")
        for field in self.optional:  # their own groups of one come after all others
            field.oneof_index = len(self.message.oneof_decl)
            self.message.oneof_decl.add(name=f"_{field.name}")

    def _read_oneof(self) -> None:
        _expect(self.tokens, "oneof")
        index = len(self.message.oneof_decl)
        self.message.oneof_decl.add(name=self.tokens.pop())
        _expect(self.tokens, "{")
        while self.tokens[-1] != "}":
            self._read_field().oneof_index = index
        _expect(self.tokens, "}")

    def _read_field(self) -> FieldDescriptorProto:
        label, word = FieldDescriptorProto.LABEL_OPTIONAL, self.tokens.pop()
        is_optional = word == "optional"
        if word == "repeated":
            label = FieldDescriptorProto.LABEL_REPEATED
        if word in ("optional", "repeated"):
            word = self.tokens.pop()
        if word == "map":
            return self._read_map()
        field = self._add(self.message, word, label)
        if is_optional:
            field.proto3_optional = True
            self.optional.append(field)
        return field

    def _add(self, message: DescriptorProto, kind: str, label: Any) -> FieldDescriptorProto:
        field: FieldDescriptorProto = message.field.add(name=self.tokens.pop(), label=label)
        _expect(self.tokens, "=")
        field.number = int(self.tokens.pop())
        _expect(self.tokens, ";")
        if kind in _TYPES:
            field.type = _TYPES[kind]
        else:
            field.type = FieldDescriptorProto.TYPE_MESSAGE
            field.type_name = f".{self.package}.{kind}"
        return field

    def _read_map(self) -> FieldDescriptorProto:
        _expect(self.tokens, "<")
        kinds = [self.tokens.pop()]
        _expect(self.tokens, ",")
        kinds.append(self.tokens.pop())
        _expect(self.tokens, ">")
        entry = self.message.nested_type.add(name=_camel(self.tokens[-1]) + "Entry")
        entry.options.map_entry = True
        for number, (name, kind) in enumerate(zip(("key", "value"), kinds, strict=True), 1):
            entry.field.add(
                name=name,
                number=number,
                type=_TYPES[kind],
                label=FieldDescriptorProto.LABEL_OPTIONAL,
            )
        kind = f"{self.message.name}.{entry.name}"
        return self._add(self.message, kind, FieldDescriptorProto.LABEL_REPEATED)


def _camel(name: str) -> str:
    return "".join(part.capitalize() for part in name.split("_"))
