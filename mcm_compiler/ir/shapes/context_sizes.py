"""Sizes of a decoder's dimensions from one number: the positions that a step works on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import onnx_ir as ir

from mcm_compiler.diagnostics import CompileError, quote
from mcm_compiler.graph.dimension_formulas import formula_of
from mcm_compiler.graph.dimensions import free_inputs, sizes_of
from mcm_compiler.graph.states import customary_pairs, is_named_as_cache


def context_sizes(model: ir.Model, context: int, dims: Mapping[str, int]) -> dict[str, int]:
    """The sizes of open dimensions that make a step of a decoder work on some positions.

    The past is the context without the new tokens, one unless `dims` says otherwise, or all of it
    where past and present are one buffer. Further lengths, such as that of a mask, are the context.

    Args:
        model: with open dimensions.
        context: positions, those of the new tokens included.
        dims: sizes that are given.

    Returns:
        `dims` with further sizes.

    Raises:
        CompileError: MCM-U009 where no cache has an open length, or sizes contradict the context.
    """
    values = {v.name or "": v for v in free_inputs(model)}
    made = {v.name or "": v for v in model.graph.outputs}
    states = {pair.past: pair.present for pair in customary_pairs(values, made)}
    states = states or {name: "" for name in values if is_named_as_cache(name)}
    shapes = {name: sizes_of(value) or () for name, value in values.items()}
    given = {name: shape for name, shape in shapes.items() if name not in states}
    batch = {shape[0] for shape in given.values() if shape}
    tokens = tokens_dimension(model)
    found, step = dict(dims), dims.get(tokens, 1)
    if tokens:
        found[tokens] = step
    whole = False
    for past, present in states.items():
        behind = sizes_of(made[present]) or () if present else ()
        for axis, size in _open(shapes[past]):
            if size in (*batch, tokens) or formula_of(size) is not None:
                continue
            if not (axis < len(behind) and behind[axis] == size):
                _give(found, size, context - step, context)
            elif found.get(size, 0) < context:  # a buffer may be longer
                _give(found, size, context, context)
            whole = True
    if not whole:
        names = dict.fromkeys(s for shape in shapes.values() for _, s in _open(shape) if s)
        listed = ", ".join(map(quote, names)) or "none"
        raise CompileError.of(
            "MCM-U009",
            f"no input that is a cache has a length that is open; open dimensions are {listed}",
            at="option context",
        )
    for shape in given.values():
        for axis, size in _open(shape):
            if axis and size and size not in (*batch, *found) and formula_of(size) is None:
                _give(found, size, context, context)
    return found


def tokens_dimension(model: ir.Model) -> str:
    """The name of the number of new tokens, where it is open; else ""."""
    values = {v.name or "": v for v in free_inputs(model)}
    made = {v.name or "": v for v in model.graph.outputs}
    pasts = {pair.past for pair in customary_pairs(values, made)}
    shapes = [
        sizes_of(value) or ()
        for name, value in values.items()
        if name not in pasts and "mask" not in name
    ]
    return next((s[1] for s in shapes if len(s) > 1 and isinstance(s[1], str)), "")


def _open(shape: tuple[int | str, ...]) -> Iterator[tuple[int, str]]:
    return ((axis, size) for axis, size in enumerate(shape) if isinstance(size, str))


def _give(found: dict[str, int], name: str, size: int, context: int) -> None:
    if size < 0 or found.setdefault(name, size) != size:
        said = f"{quote(name)} is {found[name]}" if name in found else f"a step has {-size} more"
        raise CompileError.of(
            "MCM-U009",
            f"with a context of {context} positions {quote(name)} would be {size}, and {said}",
            at="option context",
            hint="leave out the other size, or give a longer context",
        )
