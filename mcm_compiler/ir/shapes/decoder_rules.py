"""Shapes of the ops that onnxruntime adds for decoders, from the sizes of their inputs.

As the kernels of onnxruntime compute them (`docs/ContribOperators.md` there); the tests compare
every rule with a run.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import onnx
import onnx_ir as ir

Size = int | None
"""A number, or unknown."""

Sizes = tuple[Size, ...]


@dataclass(frozen=True)
class OpSizes:
    """An op with what is known of its inputs.

    Attributes:
        node: the op.
        inputs: sizes by position; None where the input is left out or has no rank yet.
        total: number of tokens, those of the past included, as GroupQueryAttention reads it; None
            if unknown.
    """

    node: ir.Node
    inputs: tuple[Sizes | None, ...]
    total: int | None

    def of(self, position: int) -> Sizes | None:
        """Sizes of the input at `position`, None where it has none."""
        return self.inputs[position] if position < len(self.inputs) else None

    def attribute(self, name: str, default: int = 1) -> int:
        """An attribute of the op that is a whole number."""
        return self.node.attributes.get_int(name, default) or default


Made = tuple[int, Sizes]
"""An output: the input that it has its element type from (or `FLOAT`), and its sizes."""

FLOAT = -1


def decoder_sizes(op: OpSizes) -> list[Made | None]:
    """Element types and sizes of the outputs of an op; empty where no rule knows the op."""
    rule = _RULES.get(op.node.op_type) if covers(op.node) else None
    return rule(op) if rule is not None and op.of(0) is not None else []


def element_type(made: Made, types: Sequence[int]) -> int:
    """The element type of an output, from those of the inputs."""
    return onnx.TensorProto.FLOAT if made[0] == FLOAT else types[made[0]]


def covers(node: ir.Node) -> bool:
    """True where sizes of inputs, and a total length, decide all shapes that an op makes."""
    added = node.domain == "com.microsoft" or node.op_type == "SimplifiedLayerNormalization"
    return added and node.op_type in _RULES


def _grouped_query_attention(op: OpSizes) -> list[Made | None]:
    """Queries of some heads on keys and values of fewer; the cache grows or is one buffer."""
    query, key = op.of(0) or (), op.of(1)
    heads, kv_heads = op.attribute("num_heads"), op.attribute("kv_num_heads")
    if len(query) != 3:
        return []
    width = _divided(query[2], heads if key is not None else heads + 2 * kv_heads)
    made: list[Made | None] = [(0, (*query[:2], _times(width, heads)))]
    for position in (3, 4):
        past = op.of(position)
        if past is None:
            made.append((0, (query[0], kv_heads, op.total, width)))
        elif len(past) == 4:
            made.append((position, (*past[:2], _longer(past[2], op.total), past[3])))
        else:
            made.append(None)
    return made


def _multi_head_attention(op: OpSizes) -> list[Made | None]:
    query, key, value = op.of(0) or (), op.of(1), op.of(2)
    heads = op.attribute("num_heads")
    if len(query) == 5:  # [batch, length, heads, 3, width]
        batch, length, _, _, width = query
        v_width, new = width, length
    elif len(query) == 3 and key is not None:
        (batch, length, all_widths), new = query, key[2 if len(key) == 4 else 1]
        width = v_width = _divided(all_widths, heads)
        if value is not None:
            v_width = value[3] if len(value) == 4 else _divided(value[2], heads)
    else:
        return []
    made: list[Made | None] = [(0, (batch, length, _times(v_width, heads)))]
    past = op.of(6)
    if past is not None and len(past) == 4:
        shared = op.of(8) is not None  # the length of the past is an input: one buffer
        new = past[2] if shared else _sum(past[2], new)
    made += [(0, (batch, heads, new, width)), (0, (batch, heads, new, v_width))]
    return made


def _product_of_blocks(op: OpSizes) -> list[Made | None]:
    rows = op.of(0) or ()
    return [(0, (*rows[:-1], op.attribute("N")))]


def _gathered_blocks(op: OpSizes) -> list[Made | None]:
    """Rows of a packed table; bytes hold several columns each."""
    table, indices = op.of(0) or (), op.of(1)
    axis = op.node.attributes.get_int("gather_axis", 0) or 0
    if indices is None or not table:
        return []
    packed = op.node.inputs[0]
    if packed is not None and packed.dtype is ir.DataType.UINT8:
        table = (*table[:-1], _times(table[-1], 8 // op.attribute("bits", 4)))
    axis %= len(table)
    return [(2, (*table[:axis], *indices, *table[axis + 1 :]))]


def _normalized(op: OpSizes) -> list[Made | None]:
    sizes = op.of(0) or ()
    axis = op.node.attributes.get_int("axis", -1) or 0
    axis %= max(len(sizes), 1)
    return [(1, sizes), (FLOAT, (*sizes[:axis], *(1,) * (len(sizes) - axis)))]


def _normalized_sum(op: OpSizes) -> list[Made | None]:
    sizes = op.of(0) or ()
    moments = (FLOAT, (*sizes[:-1], 1))
    return [(0, sizes), moments, moments, (0, sizes)]


def _as_first(op: OpSizes) -> list[Made | None]:
    return [(0, op.of(0) or ())]


_RULES: dict[str, Callable[[OpSizes], list[Made | None]]] = {
    "GatherBlockQuantized": _gathered_blocks,
    "GroupQueryAttention": _grouped_query_attention,
    "MatMulBnb4": _product_of_blocks,
    "MatMulNBits": _product_of_blocks,
    "MoE": _as_first,
    "MultiHeadAttention": _multi_head_attention,
    "QMoE": _as_first,
    "RotaryEmbedding": _as_first,
    "SimplifiedLayerNormalization": _normalized,
    "SkipLayerNormalization": _normalized_sum,
    "SkipSimplifiedLayerNormalization": _normalized_sum,
}


def _divided(size: Size, by: int) -> Size:
    return size // by if isinstance(size, int) else None


def _times(size: Size, by: int) -> Size:
    return size * by if isinstance(size, int) else None


def _sum(a: Size, b: Size) -> Size:
    return a + b if isinstance(a, int) and isinstance(b, int) else None


def _longer(past: Size, total: int | None) -> Size:
    return max(past, total) if isinstance(past, int) and total is not None else None
