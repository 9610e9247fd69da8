"""Shapes that are fully known, as plain integers."""

from __future__ import annotations

import onnx_ir as ir

_INTEGERS = frozenset({int})


def shape_for_copy(shape: ir.Shape | None) -> ir.Shape | None:
    """The shape of a copied value: the same where it cannot be changed, which most cannot."""
    return shape if shape is None or shape.frozen else shape.copy()


def shape_of_tensor(tensor: ir.TensorProtocol) -> ir.Shape:
    """The shape of a tensor, which cannot be changed."""
    shape = tensor.shape
    if isinstance(shape, ir.Shape) and shape.frozen:
        return shape
    return ir.Shape(shape.numpy(), frozen=True)


def static_dims(shape: ir.Shape | None) -> tuple[int, ...] | None:
    """The dimensions of a shape all of which have a size, or None.

    Asked of every value of large graphs, for which `ir.Shape.is_static` and `numpy` take several
    times as long.
    """
    if shape is None:
        return None
    dims = shape.dims
    # A shape holds integers of no other type.
    if not _INTEGERS.issuperset(map(type, dims)):
        return None
    return dims  # pyright: ignore[reportReturnType]
