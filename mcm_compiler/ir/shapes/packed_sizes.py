"""Packed weights whose scales or zero points do not fit, as onnxruntime would refuse them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import onnx_ir as ir

from mcm_compiler.diagnostics import CompileError, Diagnostic, quote
from mcm_compiler.graph.static_shapes import static_dims

Dims = tuple[int, ...]


def check_packed_weights(model: ir.Model) -> None:
    """Compares scales and zero points with the weights that they are of.

    Raises:
        CompileError: MCM-I060 for sizes that no kernel runs with.
    """
    faults: list[Diagnostic] = []
    for node in model.graph:
        check = _CHECKS.get((node.domain, node.op_type))
        why = None if check is None else check(node)
        if why is not None:
            at = f"node {quote(node.name or '')} ({node.op_type})"
            faults.append(Diagnostic("MCM-I060", why, at))
    if faults:
        more = f" ({len(faults) - 1} more ops likewise)" if len(faults) > 1 else ""
        raise CompileError(replace(faults[0], message=faults[0].message + more))


def _dims(node: ir.Node, at: int) -> Dims | None:
    value = node.inputs[at] if at < len(node.inputs) else None
    return None if value is None or value.shape is None else static_dims(value.shape)


def _lacks_scales(node: ir.Node, at: int) -> str | None:
    given = at < len(node.inputs) and node.inputs[at] is not None
    return None if given else "its weights have no scales"


def _differs(what: str, found: Dims | None, wanted: Sequence[Dims]) -> str | None:
    """A complaint on a shape that is none of those wanted, the first of which is named."""
    if found is None or found in wanted:
        return None
    return f"{what} are {list(found)}, and its weights need {list(wanted[0])}"


def _dequantized(node: ir.Node) -> str | None:
    weights, scales = _dims(node, 0), _dims(node, 1)
    block, axis = (node.attributes.get_int(n, d) for n, d in (("block_size", 0), ("axis", 1)))
    if not weights or scales is None:
        return None
    axis %= len(weights)
    blocks = -(-weights[axis] // block) if block else 0
    if block:
        wanted = [(*weights[:axis], blocks, *weights[axis + 1 :])]
    else:
        wanted = [(weights[axis],), (), (1,)]
    of_zeros = [(), (1,)] if scales in ((), (1,)) else [scales]
    return _differs("scales", scales, wanted) or _differs("zero points", _dims(node, 2), of_zeros)


def _product(node: ir.Node) -> str | None:
    if (fault := _lacks_scales(node, 2)) is not None:
        return fault
    get = node.attributes.get_int
    columns, inner, bits, block = get("N", 0), get("K", 0), get("bits", 4), get("block_size", 0)
    if min(columns, inner, bits, block) < 1:
        return f"N={columns}, K={inner}, bits={bits} and block_size={block} have to be positive"
    left, blocks = _dims(node, 0), -(-inner // block)
    zeros = node.inputs[3] if len(node.inputs) > 3 else None
    packed = zeros is not None and zeros.dtype is ir.DataType.UINT8
    of_zeros = -(-blocks * bits // 8) if packed else blocks
    if left and left[-1] != inner:
        return f"rows of {left[-1]} elements meet K={inner}"
    return (
        _differs("blocks", _dims(node, 1), [(columns, blocks, block * bits // 8)])
        or _differs("scales", _dims(node, 2), [(columns, blocks), (columns * blocks,)])
        or _differs("zero points", _dims(node, 3), [(columns, of_zeros), (columns * of_zeros,)])
    )


def _looked_up(node: ir.Node) -> str | None:
    if (fault := _lacks_scales(node, 2)) is not None:
        return fault
    get, table = node.attributes.get_int, _dims(node, 0)
    if not table:
        return None
    axis, block, bits = get("quantize_axis", 1) % len(table), get("block_size", 128), get("bits", 4)
    if min(block, bits) < 1:
        return f"bits={bits} and block_size={block} have to be positive"
    value = node.inputs[0]
    in_bytes = value is not None and value.dtype is ir.DataType.UINT8
    elements = table[axis] * (8 // bits if in_bytes else 1)
    wanted = (*table[:axis], math.ceil(elements / block), *table[axis + 1 :])
    return _differs("scales", _dims(node, 2), [wanted])


_CHECKS: Mapping[tuple[str, str], Callable[[ir.Node], str | None]] = {
    ("", "DequantizeLinear"): _dequantized,
    ("com.microsoft", "GatherBlockQuantized"): _looked_up,
    ("com.microsoft", "MatMulNBits"): _product,
}
