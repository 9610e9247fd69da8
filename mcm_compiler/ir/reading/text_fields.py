"""Text in a model file: names that are not UTF-8 are found before anything handles them.

Protobuf hands such a field over as `bytes`, which neither compares with nor joins a `str`.
"""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import onnx
from google.protobuf.descriptor import FieldDescriptor

from mcm_compiler.diagnostics import Diagnostic, quote


def check_text(proto: onnx.ModelProto) -> list[Diagnostic]:
    """Checks that all text of the model is UTF-8, weights' data left aside.

    Returns:
        MCM-I008 with the first text that is not, or nothing.
    """
    found = _undecodable(proto)
    if found is None:
        return []
    place, text = found
    return [
        Diagnostic(
            "MCM-I008",
            f"the text {quote(text.decode('utf-8', 'backslashreplace'))} is not UTF-8",
            at=f"{place} of the model",
        )
    ]


def _undecodable(message: Any) -> tuple[str, bytes] | None:
    """Path and content of the first text that is not UTF-8."""
    parts: list[tuple[_Field, Any]] = []
    # Only fields that are set: most messages of a large graph have few of theirs.
    for descriptor, value in message.ListFields():
        field = _field(descriptor)
        if field.is_text:
            for text in value if field.is_list else (value,):
                if isinstance(text, bytes):
                    return field.name, text
        elif field.is_message:
            parts.append((field, value))
    for field, value in parts:
        for i, part in enumerate(value if field.is_list else (value,)):
            if (found := _undecodable(part)) is not None:
                place = f"{field.name}[{i}]" if field.is_list else field.name
                return f"{found[0]} of {place}", found[1]
    return None


class _Field(NamedTuple):
    name: str
    is_list: bool
    is_text: bool
    is_message: bool


@cache
def _field(descriptor: FieldDescriptor) -> _Field:
    """Facts of a field that its descriptor takes long to find."""
    return _Field(
        descriptor.name,
        descriptor.is_repeated,
        descriptor.type == FieldDescriptor.TYPE_STRING,
        descriptor.message_type is not None,
    )
