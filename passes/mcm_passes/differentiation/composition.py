"""Gradients of ops by those of the ops that they are made of.

An op's forward pass is written again in standard ops, whose gradients are taken one by one: reverse
mode within one rule (Griewank and Walther 2008, *Evaluating Derivatives*, chapter 3). What the
forward pass made on its way is computed again, since an op keeps it to itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import onnx_ir as ir

from mcm_compiler.contracts.gradients import (
    GradientOps,
    GradientRequest,
    GradientRule,
    NotDifferentiable,
)
from mcm_compiler.registry import GRADIENT_RULES
from mcm_passes.differentiation.reverse_mode import reached_from
from mcm_passes.differentiation.rules.operands import Gradients

Forward = Callable[[GradientRequest], Sequence[ir.Value | None]]
"""Emits an op's forward pass; gives its outputs, None for those that nobody reads."""


def composed(forward: Forward) -> GradientRule:
    """The rule of an op that is written again in other ops."""

    def rule(request: GradientRequest) -> Gradients:
        made = forward(request)
        seeds = [
            (value, gradient)
            for value, gradient in zip(made, request.gradients, strict=False)
            if value is not None and gradient is not None
        ]
        return _pulled_back(request, seeds)

    return rule


def _pulled_back(request: GradientRequest, seeds: Sequence[tuple[ir.Value, ir.Value]]) -> Gradients:
    """Gradients of an op's inputs from those of values that were emitted from them.

    Args:
        request: of the op.
        seeds: values and the gradients that arrive there.

    Raises:
        NotDifferentiable: if an emitted op has no gradient.
    """
    ops, pairs = request.ops, list(zip(request.node.inputs, request.wanted, strict=True))
    sources = dict.fromkeys(value for value, wanted in pairs if value is not None and wanted)
    boundary = {value for value, _ in pairs if value is not None}
    nodes = _emitted_before([value for value, _ in seeds], boundary)
    reached = reached_from(nodes, sources)
    terms: dict[ir.Value, list[ir.Value]] = {}
    for value, gradient in seeds:
        terms.setdefault(value, []).append(gradient)
    for node in reversed(nodes):
        if not any(value in reached for value in node.outputs):
            continue
        gradients = tuple(_total(ops, terms, value) for value in node.outputs)
        if all(gradient is None for gradient in gradients):
            continue
        wanted = tuple(value is not None and value in reached for value in node.inputs)
        inner = GradientRequest(node, gradients, wanted, ops, request.version)
        for value, gradient in zip(node.inputs, _rule_of(node)(inner), strict=True):
            if value is not None and gradient is not None and value in reached:
                terms.setdefault(value, []).append(gradient)
    totals: dict[ir.Value | None, ir.Value | None] = {
        value: _total(ops, terms, value) for value in sources
    }
    # Of an input that the op has twice, the first gets all.
    return [totals.pop(value, None) if wanted else None for value, wanted in pairs]


def _rule_of(node: ir.Node) -> GradientRule:
    rule = cast("Mapping[str, GradientRule]", GRADIENT_RULES.get("onnx")).get(node.op_type)
    if rule is None:
        raise NotDifferentiable(f"its {node.op_type} has no gradient rule")
    return rule


def _total(
    ops: GradientOps, terms: dict[ir.Value, list[ir.Value]], value: ir.Value
) -> ir.Value | None:
    found = terms.get(value)
    if not found:
        return None
    if len(found) > 1:
        found[:] = [ops.op("Sum", *found)]
    return found[0]


def _emitted_before(values: Sequence[ir.Value], boundary: set[ir.Value]) -> list[ir.Node]:
    """The ops between a boundary and some values, in topological order."""
    order: list[ir.Node] = []
    seen: set[ir.Node] = set()
    stack: list[tuple[ir.Node, bool]] = []
    for value in values:
        node = value.producer()
        if value not in boundary and node is not None:
            stack.append((node, False))
    while stack:
        node, entered = stack.pop()
        if entered:
            order.append(node)
            continue
        if node in seen:
            continue
        seen.add(node)
        stack.append((node, True))
        for value in node.inputs:
            producer = None if value is None or value in boundary else value.producer()
            if producer is not None and producer not in seen:
                stack.append((producer, False))
    return order


@dataclass(frozen=True)
class Windows:
    """Where the windows of an op lie, one entry for each spatial dimension.

    Window `o` covers places `o stride + k dilation - before` of the operand, `k < kernel`.

    Attributes:
        kernel: places of a window.
        strides: from window to window.
        dilations: from place to place of a window.
        before: padding in front.
        behind: padding behind, as the op has it.
        size: of what the windows slide over, without padding.
        count: number of windows.
    """

    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    before: tuple[int, ...]
    behind: tuple[int, ...]
    size: tuple[int, ...]
    count: tuple[int, ...]

    @property
    def covered(self) -> tuple[int, ...]:
        """From the first place of the first window to the last of the last one."""
        return tuple(
            (o - 1) * s + (k - 1) * d + 1
            for o, s, k, d in zip(
                self.count, self.strides, self.kernel, self.dilations, strict=True
            )
        )

    def spreading(self) -> dict[str, Any]:
        """Attributes of the `ConvTranspose` that takes what windows hold back to their places.

        Padding behind is what windows reach, which with `ceil_mode` is more than the op has, and
        without can be less; places behind the last window are output padding.
        """
        spare = [
            size + before - covered
            for size, before, covered in zip(self.size, self.before, self.covered, strict=True)
        ]
        return {
            "strides": list(self.strides),
            "dilations": list(self.dilations),
            "pads": [*self.before, *(max(0, -places) for places in spare)],
            "output_padding": [max(0, places) for places in spare],
        }


def numbers(request: GradientRequest, name: str, default: Sequence[int]) -> tuple[int, ...]:
    """A list of integers among the attributes."""
    return tuple(int(number) for number in request.attribute(name, default))


def text(request: GradientRequest, name: str, default: str) -> str:
    """A text among the attributes."""
    found = request.attribute(name, default)
    return found.decode() if isinstance(found, bytes) else str(found)


def padding(
    request: GradientRequest, needed: Sequence[int]
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Padding in front and behind.

    Args:
        request: of an op with `auto_pad` and `pads`.
        needed: padding in all that makes the result as large as `SAME_*` wants it.
    """
    mode = text(request, "auto_pad", "NOTSET")
    zeros = (0,) * len(needed)
    if mode == "VALID":
        return zeros, zeros
    if mode == "NOTSET":
        pads = numbers(request, "pads", (0,) * (2 * len(needed)))
        return pads[: len(needed)], pads[len(needed) :]
    less = tuple(max(0, total) // 2 for total in needed)
    more = tuple(max(0, total) - half for total, half in zip(needed, less, strict=True))
    return (less, more) if mode == "SAME_UPPER" else (more, less)


def windows_of(
    request: GradientRequest, kernel: tuple[int, ...], size: tuple[int, ...], count: tuple[int, ...]
) -> Windows:
    """The windows of a convolution or of pooling.

    Args:
        request: of the op.
        kernel: places of a window.
        size: spatial dimensions of the operand.
        count: of the result.
    """
    ones = (1,) * len(kernel)
    strides, dilations = (numbers(request, name, ones) for name in ("strides", "dilations"))
    needed = [
        (o - 1) * s + (k - 1) * d + 1 - i
        for o, s, k, d, i in zip(count, strides, kernel, dilations, size, strict=True)
    ]
    before, behind = padding(request, needed)
    return Windows(kernel, strides, dilations, before, behind, size, count)
