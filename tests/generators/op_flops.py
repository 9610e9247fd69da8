"""Seconds of ops by their operations: the cost model of AutoMAP's tables."""

from __future__ import annotations

import math

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from mcm_compiler.contracts.sharding.rules import FactorKind
from mcm_passes.parallelism.classes.dimension_classes import DimensionClasses


def seconds_by_flops(classes: DimensionClasses, flops_per_s: float) -> NDArray[np.float64]:
    """Forward seconds of each ruled op on one device, at a rate.

    An op does two operations for each element of its results and each point of the factors that
    the results do not have, if it reads two operands that do have them (a product), and one for
    each element that it reads otherwise. Look-ups and rearrangements are free.
    """
    ruled = classes.ruled
    return np.array([_flops(classes, node) for node in range(len(ruled.nodes))]) / flops_per_s


def _flops(classes: DimensionClasses, node: int) -> float:
    op = classes.ruled.nodes[node]
    rule = classes.ruled.rule_of(node).rule
    produced = max((_elements(value) for value in op.outputs), default=0)
    read = max((_elements(value) for value in op.inputs if value is not None), default=0)
    if op.op_type in _FREE:
        return 0.0
    of_results = {f for dims in rule.outputs for dim in dims or () for f in dim}
    readers: dict[int, int] = {}
    for dims in rule.inputs:
        for factor in {f for dim in dims or () for f in dim} - of_results:
            readers[factor] = readers.get(factor, 0) + 1
    contracted = [f for f, times in readers.items() if times > 1]
    if not any(rule.factors[f].kind is FactorKind.REDUCE for f in contracted):
        return float(max(produced, read))
    return 2.0 * produced * math.prod(rule.factors[f].size or 1 for f in readers)


_FREE = frozenset(
    {"Cast", "Expand", "Flatten", "Gather", "Identity", "Reshape", "Shape", "Slice", "Split",
     "Squeeze", "Transpose", "Unsqueeze"}
)  # fmt: skip


def _elements(value: ir.Value) -> int:
    if value.shape is None or not value.shape.is_static():
        return 0
    return math.prod(value.shape.numpy())
