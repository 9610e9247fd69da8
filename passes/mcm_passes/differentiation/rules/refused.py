"""Ops of floating point that have no gradient here, each with its reason."""

from __future__ import annotations

from mcm_compiler.contracts.gradients import GradientRequest, GradientRule, NotDifferentiable
from mcm_passes.differentiation.rules.operands import Gradients

REASONS: dict[str, str] = {
    "Bernoulli": "it draws at random, and the result is no function of the operand",
    "DeformConv": "the operator that adds up over deformed windows is none of ONNX's",
    "Det": "the gradient needs an inverse matrix, which ONNX has no operator for",
    "DynamicQuantizeLinear": "what it rounds has no slope; train before quantization",
    "Loop": "how often it runs is decided when it runs; export the model with the loop unrolled",
    "MaxRoiPool": "the places of its largest elements are no output of it",
    "NonMaxSuppression": "it chooses bounding boxes, and gives whole numbers",
    "OptionalGetElement": "gradients are of tensors, and its operand is an optional",
    "RoiAlign": "its sampled places have no gradient rule",
    "STFT": "its frames have no gradient rule",
    "SequenceAt": "gradients are of tensors, and its operand is a sequence",
    "SequenceConstruct": "gradients are of tensors, and its result is a sequence",
    "SequenceInsert": "gradients are of tensors, and its operand is a sequence",
    "SplitToSequence": "gradients are of tensors, and its result is a sequence",
    "Unique": "how many elements it gives is decided when it runs",
    "If": "its branch is decided when it runs",
    "ai.onnx.ml::ArrayFeatureExtractor": "operators of classical machine learning are not trained",
    "ai.onnx.ml::Binarizer": "operators of classical machine learning are not trained",
    "ai.onnx.ml::TreeEnsemble": "operators of classical machine learning are not trained",
    "ai.onnx.preview.training::Adagrad": "it is an update already, not a part of a loss",
    "ai.onnx.preview.training::Adam": "it is an update already, not a part of a loss",
    "ai.onnx.preview.training::Momentum": "it is an update already, not a part of a loss",
}
"""By operator: why it has no gradient."""


def _refused(operator: str) -> GradientRule:
    def rule(request: GradientRequest) -> Gradients:
        raise NotDifferentiable(REASONS[operator])

    return rule


RULES: dict[str, GradientRule] = {operator: _refused(operator) for operator in REASONS}
