"""Builds the ONNX graph of a block: every value has a shape, and weights are made when written."""

from __future__ import annotations

import onnx_ir as ir

from mcm_models.zoo.layers.graph_builder import Attribute, GraphBuilder, Scope, declare
from mcm_models.zoo.layers.weights import around, keeps_variance

_OPSET = 20
_IR_VERSION = 9


class BlockGraph:
    """A graph that is added to in the order of its ops.

    Args:
        name: of the model.
        seed: of its weights.
    """

    def __init__(self, name: str, seed: int) -> None:
        self._builder = GraphBuilder(
            name, opset=_OPSET, ir_version=_IR_VERSION, seed=seed, shape_only=False
        )
        self._outputs = 0

    def input(self, name: str, *shape: int) -> ir.Value:
        """A graph input in float32."""
        return self._builder.input(name, ir.DataType.FLOAT, shape)

    def output(self, value: ir.Value) -> None:
        """Makes a value a graph output."""
        self._builder.output(value, f"y{self._outputs}", ir.DataType.FLOAT, shape_of(value))
        self._outputs += 1

    def op(
        self,
        scope: str,
        op_type: str,
        shape: tuple[int, ...],
        *inputs: ir.Value,
        **given: Attribute,
    ) -> ir.Value:
        """An op whose result has a given shape."""
        return declare(self._scope(scope).op(op_type, *inputs, **given), ir.DataType.FLOAT, shape)

    def reshaped(self, scope: str, value: ir.Value, *shape: int) -> ir.Value:
        """The value under another shape."""
        return self.op(scope, "Reshape", shape, value, self._scope(scope).ints(*shape))

    def scaled(self, scope: str, value: ir.Value, factor: float) -> ir.Value:
        """The value times a number."""
        return self.op(scope, "Mul", shape_of(value), value, self._scope(scope).floats(factor))

    def linear(self, scope: str, value: ir.Value, width: int) -> ir.Value:
        """A layer with bias on the last axis."""
        place, shape = self._scope(scope), shape_of(value)
        weight = place.weight("weight", [shape[-1], width], keeps_variance(shape[-1]))
        bias = place.weight("bias", [width], around(0.0, 0.1))
        wide = (*shape[:-1], width)
        return self.op(scope, "Add", wide, self.op(scope, "MatMul", wide, value, weight), bias)

    def normalized(self, scope: str, value: ir.Value) -> ir.Value:
        """Layer normalisation over the last axis."""
        place, shape = self._scope(scope), shape_of(value)
        weights = [
            place.weight(name, [shape[-1]], around(mean, 0.1))
            for name, mean in (("weight", 1.0), ("bias", 0.0))
        ]
        return self.op(scope, "LayerNormalization", shape, value, *weights, axis=-1)

    def model(self) -> ir.Model:
        """The finished model."""
        return self._builder.model()

    def _scope(self, name: str) -> Scope:
        return self._builder.root.sub(name)


def shape_of(value: ir.Value) -> tuple[int, ...]:
    """The static shape of a value.

    Raises:
        ValueError: if it has none.
    """
    if value.shape is None:
        raise ValueError(f"{value.name} has no shape")
    return tuple(value.shape.numpy())
