"""Binding the symbolic dimensions of graph inputs to numbers."""

from __future__ import annotations

import difflib
from collections.abc import Mapping

import onnx_ir as ir

from mcm_compiler.diagnostics import CompileError, Diagnostic, quote


def bind_dimensions(
    model: ir.Model, dims: Mapping[str, int], shapes: Mapping[str, tuple[int, ...]]
) -> dict[str, int]:
    """Sets the shapes of graph inputs in place.

    Args:
        model: the model; initializers among its inputs (IR version 3) are left alone.
        dims: sizes by the name of the symbolic dimension.
        shapes: full shapes by input name.

    Returns:
        The bindings of named dimensions that were applied, those that follow from `shapes` too.

    Raises:
        CompileError: MCM-U005 for a dimension or input that the model does not have, MCM-I030 for
            dimensions left open, MCM-I031 for a shape that contradicts the model.
    """
    inputs = free_inputs(model)
    faults: list[Diagnostic] = []
    bound = dict(dims)
    by_name = {v.name or "": v for v in inputs}
    for name, shape in shapes.items():
        if name not in by_name:
            faults.append(_unknown("input", name, list(by_name), "--shape"))
        else:
            faults += _apply_shape(by_name[name], shape, bound)
    used: set[str] = set()
    open_dims: dict[str, list[str]] = {}
    for value in inputs:
        applied, left = _bind_value(value, bound)
        used |= applied
        for symbol in left:
            open_dims.setdefault(symbol, []).append(value.name or "")
    known = sorted({*used, *open_dims} - {""})
    given = [name for name in dims if name not in used]
    faults += [_unknown("dimension", name, known, "--dim") for name in given]
    faults += [_left_open(symbol, names, by_name) for symbol, names in open_dims.items()]
    if faults:
        raise CompileError(faults)
    return {symbol: bound[symbol] for symbol in sorted(used)}


def free_inputs(model: ir.Model) -> list[ir.Value]:
    """Graph inputs that are not initializers at the same time."""
    return [v for v in model.graph.inputs if (v.name or "") not in model.graph.initializers]


def _bind_value(value: ir.Value, bound: Mapping[str, int]) -> tuple[set[str], list[str]]:
    """Sets the bound dimensions of an input in place.

    Returns:
        The symbols that were bound, and those left open, once for each dimension; "" stands for a
        dimension without a name, and for a whole shape.
    """
    # Elements of a sequence differ in size; an optional may be absent.
    needed = isinstance(value.type, ir.TensorType)
    if value.shape is None:
        return set(), [""] if needed else []
    used: set[str] = set()
    left: list[str] = []
    sizes = list(value.shape)
    for axis, dim in enumerate(sizes):
        if isinstance(dim, int) and dim >= 0:
            continue
        symbol = str(dim.value or "") if isinstance(dim, ir.SymbolicDim) else ""
        if symbol in bound:
            sizes[axis] = bound[symbol]
            used.add(symbol)
        elif needed:
            left.append(symbol)
    value.shape = ir.Shape(sizes)
    return used, left


def _left_open(symbol: str, names: list[str], inputs: Mapping[str, ir.Value]) -> Diagnostic:
    """MCM-I030 for a dimension of the inputs `names`; the symbol is empty where it has no name."""
    where = ", ".join(dict.fromkeys(map(quote, names)))
    if symbol:
        return Diagnostic(
            "MCM-I030",
            f"the dimension {quote(symbol)} has no size",
            at=f"input {where}",
            hint=f"give it one with --dim {symbol}=N",
        )
    rank = inputs[names[0]].shape
    form = ",".join("N" for _ in rank) if rank is not None else "N,..."
    return Diagnostic(
        "MCM-I030",
        "a dimension without a name has no size",
        at=f"input {where}",
        hint=f"give the whole shape with --shape {names[0]}={form}",
    )


def _apply_shape(
    value: ir.Value, shape: tuple[int, ...], bound: dict[str, int]
) -> list[Diagnostic]:
    faults: list[Diagnostic] = []
    old = value.shape
    if old is not None and len(old) != len(shape):
        return [_contradiction(value, shape)]
    for dim, size in zip(old or (), shape, strict=bool(old)):
        if (isinstance(dim, int) and dim >= 0 and dim != size) or (
            isinstance(dim, ir.SymbolicDim)
            and dim.value
            and bound.setdefault(str(dim.value), size) != size
        ):
            faults.append(_contradiction(value, shape))
    if not faults:
        value.shape = ir.Shape(shape)
    return faults


def _contradiction(value: ir.Value, shape: tuple[int, ...]) -> Diagnostic:
    return Diagnostic(
        "MCM-I031",
        f"the shape {list(shape)} contradicts the model, which says {value.shape}",
        at=f"input {quote(value.name or '')}",
        hint="fixed dimensions cannot be changed; export the model with dynamic axes for that",
    )


def _unknown(kind: str, name: str, known: list[str], flag: str) -> Diagnostic:
    near = difflib.get_close_matches(name, known, n=1)
    listed = ", ".join(map(quote, known[:20])) or "none"
    return Diagnostic(
        "MCM-U005",
        f"the model has no {kind} {quote(name)}; it has: {listed}",
        at=flag,
        hint=f"did you mean {quote(near[0])}?" if near else None,
    )
