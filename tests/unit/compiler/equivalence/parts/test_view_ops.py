"""Views of values that the proof follows; what onnxruntime would refuse is none."""

from __future__ import annotations

import pytest

from mcm_compiler.equivalence.parts.value_views import whole_piece
from mcm_compiler.equivalence.parts.view_ops import viewed
from mcm_compiler.equivalence.values.value_numbers import OpKey


def op(op_type: str, **attributes: tuple[str, object]) -> OpKey:
    named = tuple(sorted(attributes.items()))
    return OpKey("", op_type, "", 13, named, (0, None), ("",), ())


@pytest.mark.parametrize(
    ("key", "known"),
    [
        (op("Split", axis=("i", 1)), True),
        (op("Split", axis=("i", -1)), True),
        (op("Split", axis=("i", 3)), False),
        (op("Split", axis=("i", -3)), False),
        (op("Concat", axis=("i", 1)), True),
        (op("Concat", axis=("i", 2)), False),
        (op("Flatten", axis=("i", 2)), True),
        (op("Flatten", axis=("i", 3)), False),
        (op("Squeeze", axes=("is", (0,))), True),
        (op("Squeeze", axes=("is", (1,))), False),
        (op("Squeeze", axes=("is", (2,))), False),
        (op("Unsqueeze", axes=("is", (3,))), False),
    ],
)
def test_axes_that_a_value_does_not_have(key: OpKey, known: bool) -> None:
    piece = whole_piece(7, (1, 8))
    pieces = [piece] if key.op_type == "Concat" else [piece, None]
    assert (viewed(key, pieces, lambda at: None, 2) is not None) == known
