"""BERT with its head for masked tokens, as it is pre-trained (Devlin et al. 2019, section 3.1)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import onnx_ir as ir

from mcm_models.zoo.bert import Bert
from mcm_models.zoo.layers.bert_layers import layer_norm
from mcm_models.zoo.layers.graph_builder import Scope
from mcm_models.zoo.layers.weights import around, keeps_variance

_SQRT_2 = 2.0**0.5


@dataclass(frozen=True)
class BertPretraining(Bert):
    """An encoder with pooler and a prediction for every token.

    The projection onto the vocabulary has a weight of its own, not the transposed embedding: in a
    pipeline the first and the last stage have a copy each anyway.
    """

    name: ClassVar[str] = "bert-pretraining"
    summary: ClassVar[str] = "BERT of any size with its head for masked tokens"

    def _pooler(self, scope: Scope, hidden: ir.Value) -> ir.Value:
        head = scope.graph.root.sub("cls.predictions")
        logits = self._predictions(head, hidden)
        extents = ("batch", "seq") if self.dynamic else (self.batch, self.seq)
        scope.graph.output(logits, "prediction_logits", ir.DataType.FLOAT, [*extents, self.vocab])
        return super()._pooler(scope, hidden)

    def _predictions(self, scope: Scope, hidden: ir.Value) -> ir.Value:
        """Transform with Gelu and normalisation, then scores of all tokens."""
        transform = scope.sub("transform")
        dense = transform.sub("dense")
        weight = dense.weight("weight", [self.hidden, self.hidden], keeps_variance(self.hidden))
        bias = dense.weight("bias", [self.hidden], around(0.0, 0.1))
        x = dense.op("Add", dense.op("MatMul", hidden, weight), bias)
        act = transform.sub("transform_act_fn")
        half = act.op("Add", act.op("Erf", act.op("Div", x, act.floats(_SQRT_2))), act.floats(1.0))
        x = act.op("Mul", act.op("Mul", x, half), act.floats(0.5))
        x = layer_norm(transform.sub("LayerNorm"), x, self.hidden)
        decoder = scope.sub("decoder")
        table = decoder.weight("weight", [self.hidden, self.vocab], keeps_variance(self.hidden))
        bias = decoder.weight("bias", [self.vocab], around(0.0, 0.1))
        return decoder.op("Add", decoder.op("MatMul", x, table), bias)
