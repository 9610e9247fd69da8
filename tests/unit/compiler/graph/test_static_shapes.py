"""Shapes that are fully known."""

from __future__ import annotations

import onnx_ir as ir
import pytest

from mcm_compiler.graph.static_shapes import static_dims


@pytest.mark.parametrize(
    ("shape", "dims"),
    [
        (None, None),
        (ir.Shape([]), ()),
        (ir.Shape([2, 0]), (2, 0)),
        (ir.Shape([2, "n"]), None),
        (ir.Shape([None]), None),
    ],
)
def test_only_sizes_are_dimensions(shape: ir.Shape | None, dims: tuple[int, ...] | None) -> None:
    assert static_dims(shape) == dims
    assert (dims is not None) == (shape is not None and shape.is_static())
