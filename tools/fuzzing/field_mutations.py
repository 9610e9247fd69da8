"""Mutations of protobuf messages by reflection: any field may take any value of its type."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

INTEGERS = (0, 1, -1, 2, 3, 7, 127, 128, 255, 2**31 - 1, 2**31, -(2**31), 2**40, 2**62, -(2**63))
FLOATS = (0.0, -0.0, 1.0, -1.0, 1e-38, 3e38, float("inf"), float("-inf"), float("nan"))
NAMES = (
    "", "/", "..", "a/b", "a\\b", "new\nline", "nul\0", "\u202e", "\u00e9", "e\u0301", "\U0001f600",
    "%s{}", "'", '"', "-", "x" * 10_000, "a b", "\t", "\x1b[31m", "CON", "ai.onnx", "com.microsoft",
)  # fmt: skip
MAX_PLACES = 4000
"""Messages of one model among which a place is drawn."""


def mutate_fields(model: onnx.ModelProto, other: onnx.ModelProto, rng: np.random.Generator) -> None:
    """One to three edits of `model` in place.

    Args:
        model: the model.
        other: another model; messages are copied out of it.
        rng: source of randomness.

    Raises:
        ValueError: if protobuf refuses a value.
    """
    for _ in range(int(rng.integers(1, 4))):
        places = _messages(model)
        message = places[int(rng.integers(0, len(places)))]
        fields = [field for field, _ in message.ListFields()]
        if not fields or rng.random() < 0.15:
            fields = list(message.DESCRIPTOR.fields)
        field = fields[int(rng.integers(0, len(fields)))]
        if field.is_repeated:
            _mutate_repeated(message, field, other, rng)
        elif field.message_type is not None:
            _mutate_message(message, field, other, rng)
        elif rng.random() < 0.1:
            message.ClearField(field.name)
        else:
            setattr(message, field.name, _scalar(getattr(message, field.name), field, rng))


def _messages(root: Message) -> list[Any]:
    found: list[Any] = [root]
    for message in found:
        if len(found) >= MAX_PLACES:
            break
        for field, value in message.ListFields():
            if field.message_type is None:
                continue
            found.extend(value if field.is_repeated else [value])
    return found


def _mutate_repeated(
    message: Any, field: FieldDescriptor, other: onnx.ModelProto, rng: np.random.Generator
) -> None:
    values = getattr(message, field.name)
    at = int(rng.integers(0, len(values))) if len(values) else 0
    action = int(rng.integers(0, 5))
    if field.message_type is not None:
        donors = [m for m in _messages(other) if m.DESCRIPTOR is field.message_type]
        if action == 0 and donors:
            values.add().CopyFrom(donors[int(rng.integers(0, len(donors)))])
        elif action == 1 or not values:
            values.add()
        elif action == 2:
            values.add().CopyFrom(values[at])
        elif action == 3 and donors:
            values[at].CopyFrom(donors[int(rng.integers(0, len(donors)))])
        else:
            del values[at]
        return
    if not values or action == 0:
        values.append(_scalar(field.default_value or _zero(field), field, rng))
    elif action == 1:
        del values[at]
    elif action == 2:
        values.append(values[int(rng.integers(0, len(values)))])
    elif action == 3 and len(values) > 1:
        to = int(rng.integers(0, len(values)))
        values[at], values[to] = values[to], values[at]
    else:
        values[at] = _scalar(values[at], field, rng)


def _zero(field: FieldDescriptor) -> Any:
    return {
        FieldDescriptor.CPPTYPE_STRING: b"" if field.type == FieldDescriptor.TYPE_BYTES else "",
        FieldDescriptor.CPPTYPE_FLOAT: 0.0,
        FieldDescriptor.CPPTYPE_DOUBLE: 0.0,
    }.get(field.cpp_type, 0)


def _mutate_message(
    message: Any, field: FieldDescriptor, other: onnx.ModelProto, rng: np.random.Generator
) -> None:
    donors = [m for m in _messages(other) if m.DESCRIPTOR is field.message_type]
    if donors and rng.random() < 0.5:
        getattr(message, field.name).CopyFrom(donors[int(rng.integers(0, len(donors)))])
    elif rng.random() < 0.7:
        message.ClearField(field.name)
    else:
        getattr(message, field.name).Clear()


def _scalar(value: Any, field: FieldDescriptor, rng: np.random.Generator) -> Any:
    """A value of the field's type: one at an edge, or one near the present one."""
    if field.type == FieldDescriptor.TYPE_BYTES:
        buffer = bytearray(value)
        if buffer and rng.random() < 0.7:
            buffer[int(rng.integers(0, len(buffer)))] ^= 1 << int(rng.integers(0, 8))
        elif rng.random() < 0.5:
            buffer += rng.bytes(int(rng.integers(1, 9)))
        else:
            del buffer[len(buffer) // 2 :]
        return bytes(buffer)
    if field.cpp_type == FieldDescriptor.CPPTYPE_STRING:
        if isinstance(value, str) and value and rng.random() < 0.3:
            return value + NAMES[int(rng.integers(0, len(NAMES)))][:20]
        return NAMES[int(rng.integers(0, len(NAMES)))]
    if field.cpp_type in (FieldDescriptor.CPPTYPE_FLOAT, FieldDescriptor.CPPTYPE_DOUBLE):
        return FLOATS[int(rng.integers(0, len(FLOATS)))]
    if field.enum_type is not None:
        numbers = [entry.number for entry in field.enum_type.values]
        return numbers[int(rng.integers(0, len(numbers)))]
    if rng.random() < 0.4:
        return int(value) + int(rng.integers(-2, 3))
    number = INTEGERS[int(rng.integers(0, len(INTEGERS)))]
    narrow = field.cpp_type in (FieldDescriptor.CPPTYPE_INT32, FieldDescriptor.CPPTYPE_UINT32)
    unsigned = field.cpp_type in (FieldDescriptor.CPPTYPE_UINT32, FieldDescriptor.CPPTYPE_UINT64)
    if unsigned:
        number = abs(number)
    return number % (2**31) if narrow else number
