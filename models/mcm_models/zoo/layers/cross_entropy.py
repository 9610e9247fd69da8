"""The cross-entropy of logits, spelt out."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from mcm_models.zoo.layers.graph_builder import Scope


def cross_entropy(
    scope: Scope,
    logits: ir.Value,
    labels: ir.Value,
    classes: int,
    class_weights: ir.Value | None = None,
) -> ir.Value:
    """Minus the logarithm of the probability that each label was given.

    Reductions over the classes are the only thing that ties them together: no probabilities are
    written out, so that the classes may lie on several devices (as in Shoeybi et al. 2019,
    *Megatron-LM*, section 3), which the op `SoftmaxCrossEntropyLoss` would not allow.

    Args:
        scope: the loss's place.
        logits: `[..., classes]`.
        labels: int64 `[...]`.
        classes: number of logits.
        class_weights: factor of each class, `[classes]`; 1 where None.

    Returns:
        `[...]`.
    """
    highest = scope.op("ReduceMax", logits, axes=[-1], keepdims=1)
    shifted = scope.op("Sub", logits, highest)
    last = scope.ints(-1)
    total = scope.op("ReduceSum", scope.op("Exp", shifted), last, keepdims=0)
    wanted = scope.op("Unsqueeze", labels, last)
    numbers = scope.table("class_numbers", np.arange(classes, dtype=np.int64))
    hit = scope.op("Cast", scope.op("Equal", wanted, numbers), to=int(ir.DataType.FLOAT))
    chosen = scope.op("ReduceSum", scope.op("Mul", hit, shifted), last, keepdims=0)
    losses = scope.op("Sub", scope.op("Log", total), chosen)
    if class_weights is None:
        return losses
    factors = scope.op("ReduceSum", scope.op("Mul", hit, class_weights), last, keepdims=0)
    return scope.op("Mul", losses, factors)
