"""Gradients of contractions: matrix products, `Einsum` and `DFT`.

An operand of `Einsum` gets the sum of products of its other operands and of what arrives. `DFT` is
a product with two constant matrices.
"""

from __future__ import annotations

import math
import string
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from mcm_compiler.contracts.gradients import (
    GradientOps,
    GradientRequest,
    GradientRule,
    NotDifferentiable,
)
from mcm_passes.differentiation.composition import composed, text
from mcm_passes.differentiation.rules.operands import (
    Gradients,
    arriving,
    dims,
    given,
    ints,
    known_value,
    numpy_type,
    operand,
    reshaped,
)


@dataclass(frozen=True)
class _Sum:
    """An equation without `...`, with a letter for each dimension.

    Attributes:
        terms: of the operands.
        result: of the result.
    """

    terms: tuple[str, ...]
    result: str

    @classmethod
    def of(cls, equation: str, ranks: list[int]) -> _Sum:
        """Gives letters to what `...` stands for, and a result to an equation without one."""
        left, arrow, right = equation.replace(" ", "").partition("->")
        terms = left.split(",")
        named = [len(term.replace("...", "")) for term in terms]
        most = max(
            (rank - n for term, rank, n in zip(terms, ranks, named, strict=True) if "..." in term),
            default=0,
        )
        free = [letter for letter in string.ascii_letters if letter not in equation][:most]
        if not arrow:
            letters = left.replace("...", "").replace(",", "")
            once = sorted(letter for letter in set(letters) if letters.count(letter) == 1)
            right = ("..." if "..." in left else "") + "".join(once)
        found: list[str] = []
        for term, rank, count in zip(terms, ranks, named, strict=True):
            # Dimensions of `...` are aligned at the last one.
            own = free[most - (rank - count) :] if rank > count else []
            found.append(term.replace("...", "".join(own)))
        return cls(tuple(found), right.replace("...", "".join(free)))


def _einsum(request: GradientRequest) -> Gradients:
    operands = [given(request, index) for index in range(len(request.node.inputs))]
    shapes = [request.shape(value) for value in operands]
    equation = _Sum.of(text(request, "equation", ""), [len(shape) for shape in shapes])
    return [
        _one(request, equation, operands, index) if wanted else None
        for index, wanted in enumerate(request.wanted)
    ]


def _one(
    request: GradientRequest, equation: _Sum, operands: list[ir.Value], index: int
) -> ir.Value:
    """The gradient of one operand.

    A letter that it has twice keeps a name for each place, and a unit matrix joins the two. Letters
    of it alone, over which it was summed, are spread in the end.
    """
    ops, term = request.ops, equation.terms[index]
    shape = request.shape(operands[index])
    others = [value for place, value in enumerate(operands) if place != index]
    terms = [equation.result, *(t for place, t in enumerate(equation.terms) if place != index)]
    factors = [arriving(request), *others]
    used = {*equation.result, *"".join(equation.terms)}
    free = iter([letter for letter in string.ascii_letters if letter not in used])
    own = ""
    for place, letter in enumerate(term):
        if letter in own:
            fresh = next(free)
            unit = np.eye(shape[place], dtype=numpy_type(operands[index]))
            factors.append(ops.constant(unit))
            terms.append(letter + fresh)
            letter = fresh  # noqa: PLW2901 - it stands for this place from here on
        own += letter
    kept = "".join(letter for letter in own if any(letter in other for other in terms))
    found = ops.op("Einsum", *factors, equation=f"{','.join(terms)}->{kept}")
    sizes = dims(found)
    wide = iter(sizes)
    extents = [next(wide) if letter in kept else 1 for letter in own]
    found = reshaped(ops, found, extents)
    whole = tuple(
        size if letter not in kept else extent
        for letter, size, extent in zip(own, shape, extents, strict=True)
    )
    if tuple(extents) != whole:
        found = ops.op("Expand", found, ops.constant(np.array(whole, np.int64)))
    return ops.reduced_to(found, operands[index])


def _transformed(request: GradientRequest) -> list[ir.Value]:
    """`Σ x exp(∓ 2 π i j k / n)` with real and imaginary parts along the last dimension."""
    ops, x = request.ops, given(request, 0)
    shape, made = request.shape(x), request.shape(request.node.outputs[0])
    rank = len(shape)
    axis = _axis(request) % rank
    inverse = bool(request.attribute("inverse", 0))
    one_sided = bool(request.attribute("onesided", 0))
    if inverse and one_sided:
        raise NotDifferentiable("an inverse of one side has no gradient rule")
    length = _whole(operand(request, 1), shape[axis])
    # Numbers behind the length are cut, and zeros in front of it change nothing.
    places = np.arange(min(length, shape[axis]))
    angles = 2.0 * np.pi * np.outer(places, np.arange(made[axis])) / length
    scale = 1.0 / length if inverse else 1.0
    kind = numpy_type(x)
    cosine = ops.constant((scale * np.cos(angles)).astype(kind))
    sine = ops.constant(((1.0 if inverse else -1.0) * scale * np.sin(angles)).astype(kind))
    if shape[axis] > length:
        x = ops.op("Slice", x, ints(ops, [0]), ints(ops, [length]), ints(ops, [axis]))
    # The axis changes places with that of the parts, [..., parts, axis].
    order = [*(place for place in range(rank - 1) if place != axis), rank - 1, axis]
    rows = ops.op("Transpose", x, perm=order)
    parts = [
        ops.op("Slice", rows, ints(ops, [part]), ints(ops, [part + 1]), ints(ops, [rank - 2]))
        for part in range(shape[-1])
    ]
    real = ops.op("MatMul", parts[0], cosine)
    imaginary = ops.op("MatMul", parts[0], sine)
    if len(parts) > 1:
        real = ops.op("Sub", real, ops.op("MatMul", parts[1], sine))
        imaginary = ops.op("Add", imaginary, ops.op("MatMul", parts[1], cosine))
    both = ops.op("Concat", real, imaginary, axis=rank - 2)
    return [ops.op("Transpose", both, perm=[order.index(place) for place in range(rank)])]


def _axis(request: GradientRequest) -> int:
    """An attribute up to opset 19, an input since."""
    if request.version < 20:
        return int(request.attribute("axis", 1))
    return _whole(operand(request, 2), -2)


def _whole(value: ir.Value | None, default: int) -> int:
    if value is None:
        return default
    known = known_value(value)
    if known is None:
        raise NotDifferentiable(f"{value.name} is not constant")
    return int(known.reshape(-1)[0])


def _matmul(request: GradientRequest) -> Gradients:
    """`g Bᵀ` and `Aᵀ g`; a vector counts as a row on the left and as a column on the right."""
    ops, gradient = request.ops, arriving(request)
    a, b = given(request, 0), given(request, 1)
    left, right = request.shape(a), request.shape(b)
    wide_left = left if len(left) > 1 else (1, *left)
    wide_right = right if len(right) > 1 else (*right, 1)
    batch = request.shape(request.node.outputs[0])
    batch = batch[: len(batch) - (len(left) > 1) - (len(right) > 1)]
    gradient = reshaped(ops, gradient, (*batch, wide_left[-2], wide_right[-1]))
    wide_a, wide_b = reshaped(ops, a, wide_left), reshaped(ops, b, wide_right)
    to_a = to_b = None
    if request.wanted[0]:
        to_a = reshaped(ops, _times_transposed(ops, gradient, wide_b, wide_a), left)
    if request.wanted[1]:
        to_b = reshaped(ops, _transposed_times(ops, wide_a, gradient, wide_b), right)
    return [to_a, to_b]


def _times_transposed(ops: GradientOps, gradient: ir.Value, b: ir.Value, a: ir.Value) -> ir.Value:
    """The gradient of `a` in `a b`."""
    if len(dims(gradient)) == 2:
        return ops.op("Gemm", gradient, b, transB=1)
    return ops.reduced_to(ops.op("MatMul", gradient, _transposed(ops, b)), a)


def _transposed_times(ops: GradientOps, a: ir.Value, gradient: ir.Value, b: ir.Value) -> ir.Value:
    """The gradient of `b` in `a b`; where b is one matrix for the whole batch, in one product."""
    left, out = dims(a), dims(gradient)
    if len(dims(b)) == 2 and left[:-1] == out[:-1]:
        rows = math.prod(left[:-1])
        flat = reshaped(ops, gradient, (rows, out[-1]))
        return ops.op("Gemm", reshaped(ops, a, (rows, left[-1])), flat, transA=1)
    return ops.reduced_to(ops.op("MatMul", _transposed(ops, a), gradient), b)


def _transposed(ops: GradientOps, value: ir.Value) -> ir.Value:
    rank = len(dims(value))
    return ops.op("Transpose", value, perm=[*range(rank - 2), rank - 1, rank - 2])


def _gemm(request: GradientRequest) -> Gradients:
    ops, gradient = request.ops, arriving(request)
    a, b, c = given(request, 0), given(request, 1), operand(request, 2)
    alpha, beta = float(request.attribute("alpha", 1.0)), float(request.attribute("beta", 1.0))
    trans_a, trans_b = int(request.attribute("transA", 0)), int(request.attribute("transB", 0))
    to_a = to_b = to_c = None
    if request.wanted[0]:
        if trans_a:
            to_a = ops.op("Gemm", b, gradient, alpha=alpha, transA=trans_b, transB=1)
        else:
            to_a = ops.op("Gemm", gradient, b, alpha=alpha, transB=1 - trans_b)
    if request.wanted[1]:
        if trans_b:
            to_b = ops.op("Gemm", gradient, a, alpha=alpha, transA=1, transB=trans_a)
        else:
            to_b = ops.op("Gemm", a, gradient, alpha=alpha, transA=1 - trans_a)
    if c is not None and request.wanted[2]:
        to_c = ops.reduced_to(gradient, c)
        to_c = to_c if beta == 1.0 else ops.op("Mul", to_c, ops.like(to_c, beta))
    return [to_a, to_b, to_c][: len(request.node.inputs)]


RULES: dict[str, GradientRule] = {
    "Einsum": _einsum,
    "DFT": composed(_transformed),
    "MatMul": _matmul,
    "Gemm": _gemm,
}
