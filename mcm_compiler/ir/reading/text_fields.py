"""Text in a model file: names that are not UTF-8 are found before anything handles them.

Protobuf hands such a field over as `bytes`, which neither compares with nor joins a `str`.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import onnx
from google.protobuf.descriptor import Descriptor, FieldDescriptor

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
            hint="the file is damaged, or was written by a tool that does not follow protobuf",
        )
    ]


def _undecodable(message: Any) -> tuple[str, bytes] | None:
    """Path and content of the first text that is not UTF-8."""
    texts, parts = _fields(message.DESCRIPTOR)
    for name, repeated in texts:
        value = getattr(message, name)
        for text in value if repeated else (value,):
            if isinstance(text, bytes):
                return name, text
    for name, repeated in parts:
        if not repeated and not message.HasField(name):
            continue
        value = getattr(message, name)
        for i, part in enumerate(value if repeated else (value,)):
            if (found := _undecodable(part)) is not None:
                return f"{found[0]} of {name}[{i}]" if repeated else f"{found[0]} of {name}", found[
                    1
                ]
    return None


@cache
def _fields(kind: Descriptor) -> tuple[list[tuple[str, bool]], list[tuple[str, bool]]]:
    """Names of the fields with text and of those with messages, and whether they are lists."""
    fields = list(kind.fields)
    texts = [f for f in fields if f.type == FieldDescriptor.TYPE_STRING]
    parts = [f for f in fields if f.message_type is not None]
    return [(f.name, f.is_repeated) for f in texts], [(f.name, f.is_repeated) for f in parts]
