"""Dimensions whose size depends on data: known to be open, with the size to plan for.

Such a dimension is symbolic in every emitted model, because a runtime holds a static one against
what it is given. Its name ends in the size that costs and memory plans count with, which is an
upper bound where there is one, and else what a run with random inputs gave. Names are distinct:
onnxruntime takes dimensions of one name for equal.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence

import onnx_ir as ir

from mcm_compiler.graph.static_shapes import static_dims

BATCH = 1
TOKENS = 128
PIXELS = 224
SAMPLES = 16_000
MEL_FRAMES = 100
ITEMS = 16

_USUAL: tuple[tuple[str, int], ...] = (
    (r"past|cache", TOKENS),
    (r"(^|_)total", 2 * TOKENS),
    (r"batch|^(n|b|bs|s\d+_batch)$|(^|_)bs($|_)", BATCH),
    (r"height|width|^(h|w|rows|cols)$|image.*size|resolution", PIXELS),
    (r"wave|audio|samples", SAMPLES),
    (r"frame|mel", MEL_FRAMES),
    (r"seq|token|length|(^|_)len($|_)|text|time|step|^(s|t|l)$|context|words", TOKENS),
    (r"node|edge|point|box|object|item|choice|candidate|label|neighbo", ITEMS),
    (r"channel", 3),
)
"""Patterns of names in lower case, the first that is found first."""


def usual_size(name: str, axis: int = 0, rank: int = 1) -> int:
    """A usual size of a dimension.

    Args:
        name: of the symbolic dimension, or "" where it has none.
        axis: where it stands in an input.
        rank: of that input.
    """
    if name.endswith(f"_{axis}"):
        name = ""  # made of the input's name, which says nothing of this axis
    lower = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()
    for pattern, size in _USUAL:
        if re.search(pattern, lower):
            return size
    if rank == 4 and axis == 1:
        return 3
    if rank == 4 and axis > 1:
        return PIXELS
    if rank in {2, 3} and axis == 1:
        return TOKENS
    return BATCH if axis == 0 else ITEMS


def usual_shape(sizes: Sequence[int | str], chosen: Mapping[str, int]) -> tuple[int, ...]:
    """A shape with the `chosen` size for each symbol, and a usual one for "", which has no name."""
    return tuple(
        size
        if isinstance(size, int)
        else (chosen.get(size) if size else None) or usual_size(size, axis, len(sizes))
        for axis, size in enumerate(sizes)
    )


_NAME = re.compile(r"/(\d+)=(\d+)\?$")


def estimated_dim(value_name: str, axis: int, size: int) -> ir.SymbolicDim:
    """The open dimension `axis` of a value, planned with `size` elements."""
    return ir.SymbolicDim(f"{value_name}/{axis}={size}?")


def dim_size(dim: int | ir.SymbolicDim) -> int:
    """The size to plan with: of an estimated dimension its estimate, of one that is open 1."""
    if isinstance(dim, int):
        return dim
    match = _NAME.search(dim.value or "")
    return int(match[2]) if match else 1


def is_estimated(dim: int | ir.SymbolicDim) -> bool:
    """Return whether `dim` is open, but planned with a size."""
    return isinstance(dim, ir.SymbolicDim) and _NAME.search(dim.value or "") is not None


def upper_bound(node: ir.Node) -> tuple[int, ...] | None:
    """The largest shape of the first output of an op whose output depends on data.

    NonZero finds at most all elements, Unique and Compress keep at most all, and
    NonMaxSuppression at most the given number of boxes for each batch and class.

    Returns:
        None for other ops, and where the shapes of the inputs are not static.
    """
    if node.domain not in ("", "ai.onnx"):
        return None
    dims = [None if v is None else static_dims(v.shape) for v in node.inputs]
    first = dims[0] if dims else None
    if first is None:
        return None
    match node.op_type:
        case "NonZero":
            return (len(first), math.prod(first))
        case "Unique" | "Compress":
            axis = node.attributes.get("axis")
            if axis is None:
                return (math.prod(first),)
            return first
        case "NonMaxSuppression":
            scores = dims[1]
            if scores is None or len(scores) != 3:
                return None
            boxes = _constant_int(node, 2)
            each = scores[2] if boxes is None else min(max(boxes, 0), scores[2])
            return (scores[0] * scores[1] * each, 3)
        case _:
            return None


def _constant_int(node: ir.Node, position: int) -> int | None:
    value = node.inputs[position] if len(node.inputs) > position else None
    if value is None or value.is_graph_input():
        return None
    tensor = ir.convenience.get_const_tensor(value)
    return int(tensor.numpy().reshape(-1)[0]) if tensor is not None and tensor.size == 1 else None
