"""Sizes of caches that contradict each other, as the kernels of onnxruntime would refuse them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import onnx_ir as ir

from mcm_compiler.diagnostics import CompileError, Diagnostic, quote
from mcm_compiler.graph.static_shapes import static_dims

Dims = tuple[int, ...]


@dataclass(frozen=True)
class _Caches:
    """Positions of what an op with a cache reads.

    Attributes:
        past: of keys; those of values come next.
        bias: of what is added to scores, None where the op has none.
        heads: attribute with the number of heads in the cache.
    """

    past: int
    bias: int | None
    heads: str


_OPS = {
    ("com.microsoft", "GroupQueryAttention"): _Caches(3, None, "kv_num_heads"),
    ("com.microsoft", "MultiHeadAttention"): _Caches(6, 5, "num_heads"),
    ("", "Attention"): _Caches(4, 3, "kv_num_heads"),
}


def check_caches(
    model: ir.Model, declared: Mapping[str, ir.Shape], bound: Mapping[str, int]
) -> list[Diagnostic]:
    """Compares the caches of a model with the tokens that are new.

    Args:
        model: with its shapes.
        declared: shapes of graph outputs in the file.
        bound: sizes of symbolic dimensions.

    Returns:
        MCM-P084, a warning, for a present that has another size than the file says.

    Raises:
        CompileError: MCM-P083 for sizes that no kernel runs with.
    """
    # From opset 24 on a mask may end before the last key.
    pads_masks = model.opset_imports.get("", 0) >= 24
    faults: list[Diagnostic] = []
    others: list[Diagnostic] = []
    for node in model.graph:
        caches = _OPS.get((node.domain, node.op_type))
        if node.op_type == "Concat" and (continued := node.inputs[0]) is not None:
            past = static_dims(continued.shape)
            if past is not None and continued.is_graph_input():
                others += _renamed(node.outputs[0], past, declared, bound)
        if caches is not None and node.op_type == "Attention" and pads_masks:
            caches = replace(caches, bias=None)
        if caches is None or (past := _dims(node, caches.past)) is None or len(past) != 4:
            continue
        if (why := _contradiction(node, caches, past)) is not None:
            at = f"node {quote(node.name or '')} ({node.op_type})"
            faults.append(Diagnostic("MCM-P083", why, at))
        for value in node.outputs[1:3]:
            others += _renamed(value, past, declared, bound)
    if faults:
        more = f" ({len(faults) - 1} more ops likewise)" if len(faults) > 1 else ""
        raise CompileError(replace(faults[0], message=faults[0].message + more))
    return others[:1]


def _contradiction(node: ir.Node, caches: _Caches, past: Dims) -> str | None:
    """Why no kernel runs with the sizes of an op, None where one does."""
    query, values = _dims(node, 0), _dims(node, caches.past + 1)
    present = static_dims(node.outputs[1].shape) if len(node.outputs) > 1 else None
    if query is None:
        return None
    if past[0] != query[0]:
        return f"the cache holds {past[0]} sequences, and the batch has {query[0]}"
    heads = node.attributes.get_int(caches.heads, 0)
    if heads and past[1] != heads:
        return f"the cache has {past[1]} heads, and the op {heads}"
    if values is not None and values[:3] != past[:3]:
        return f"the cache of keys is {list(past)}, that of values {list(values)}"
    if present is None or len(present) != 4:
        return None
    new, old, whole = query[-2] if len(query) == 4 else query[1], past[2], present[2]
    if whole != old and whole != old + new and node.op_type == "GroupQueryAttention":
        return (
            f"a cache of {old} tokens with {new} more has {old + new} (or is one buffer of at "
            f"least {whole}), and the total length is {whole}"
        )
    if new > whole:
        return f"{new} new tokens do not fit a cache of {whole}"
    bias = _dims(node, caches.bias) if caches.bias is not None else None
    if bias and bias[-1] not in (1, whole):
        return _other_columns(bias[-1], whole)
    return None


def mask_fault(model: ir.Model, node: ir.Node) -> Diagnostic | None:
    """MCM-P083 where an op cannot read the scores of a cache with a mask of another length."""
    if node.op_type not in ("Add", "Where"):
        return None
    lasts = {dims[-1] for at in range(len(node.inputs)) if (dims := _dims(node, at))} - {1}
    for concat in model.graph:
        continued = concat.inputs[0] if concat.op_type == "Concat" else None
        if continued is None or not continued.is_graph_input():
            continue
        past, made = static_dims(continued.shape), static_dims(concat.outputs[0].shape)
        if past is None or made is None or (*past[:2], *past[3:]) != (*made[:2], *made[3:]):
            continue
        if len(past) == 4 and made[2] in lasts and (others := lasts - {made[2]}):
            why = _other_columns(min(others), made[2])
            return Diagnostic("MCM-P083", why, f"node {quote(node.name or '')} ({node.op_type})")
    return None


def _other_columns(columns: int, whole: int) -> str:
    return f"the mask has {columns} columns, and past and new tokens are {whole}"


def _renamed(
    value: ir.Value, past: Dims, declared: Mapping[str, ir.Shape], bound: Mapping[str, int]
) -> list[Diagnostic]:
    """MCM-P084 where the sizes of a present are others than the names in the file say."""
    found, said = static_dims(value.shape), declared.get(value.name or "")
    if found is None or said is None or len(found) != len(said):
        return []
    sizes = [d if isinstance(d, int) else bound.get(d.value or "") for d in said]
    if all(a is None or a == b for a, b in zip(sizes, found, strict=True)):
        return []
    shown = [b if a is None else a for a, b in zip(sizes, found, strict=True)]
    buffers = "past and present are taken for one buffer"
    grown = f"the past is {list(past)}, and the sizes of the op are used"
    return [
        Diagnostic(
            "MCM-P084",
            f"with these sizes the file says {shown} of {quote(value.name or '')}, and the op "
            f"makes {list(found)}: {buffers if found == past else grown}",
            at=f"output {quote(value.name or '')}",
        )
    ]


def _dims(node: ir.Node, position: int) -> Dims | None:
    value = node.inputs[position] if position < len(node.inputs) else None
    return static_dims(value.shape) if value is not None else None
