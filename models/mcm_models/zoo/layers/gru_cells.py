"""GRU cells spelt out in elementary ops, one copy per time step, as unrolling leaves them."""

from __future__ import annotations

from dataclasses import dataclass

import onnx_ir as ir

from mcm_models.zoo.layers.graph_builder import Scope
from mcm_models.zoo.layers.weights import Uniform, around, keeps_variance

GATES = 3


@dataclass(frozen=True)
class GruLayer:
    """One layer; its cells share the weights (Cho et al. 2014, *Learning phrase representations*).

    The reset gate acts behind the recurrent product, as in cuDNN and in ONNX's
    `linear_before_reset`, so that the two products of a cell do not wait for each other.

    Attributes:
        scope: where its weights are; the cells stand below.
        hidden: size of the state.
        input_weight: `[inputs, 3 * hidden]`: update gate, reset gate, candidate.
        input_bias: `[3 * hidden]`.
        state_weight: `[hidden, 3 * hidden]`, in the same order.
        state_bias: `[3 * hidden]`.
    """

    scope: Scope
    hidden: int
    input_weight: ir.Value
    input_bias: ir.Value
    state_weight: ir.Value
    state_bias: ir.Value

    @classmethod
    def with_weights(cls, scope: Scope, inputs: int, hidden: int) -> GruLayer:
        """A layer that reads `inputs` numbers, with weights of its own."""
        width = GATES * hidden

        def parameter(name: str, shape: list[int], values: Uniform) -> ir.Value:
            return scope.weight(name, shape, values)

        return cls(
            scope,
            hidden,
            parameter("input.weight", [inputs, width], keeps_variance(inputs)),
            parameter("input.bias", [width], around(0.0, 0.1)),
            parameter("state.weight", [hidden, width], keeps_variance(hidden)),
            parameter("state.bias", [width], around(0.0, 0.1)),
        )

    def step(self, number: int, read: ir.Value, state: ir.Value) -> ir.Value:
        """The cell of one time step, the state after it: 16 ops.

        Args:
            number: of the step, for the names.
            read: `[batch, inputs]`.
            state: of the step before, `[batch, hidden]`.
        """
        scope = self.scope.sub(f"step.{number}")
        ahead = scope.op("Add", scope.op("MatMul", read, self.input_weight), self.input_bias)
        back = scope.op("Add", scope.op("MatMul", state, self.state_weight), self.state_bias)
        update_read, reset_read, fresh_read = scope.ops(GATES, "Split", ahead, axis=1)
        update_state, reset_state, fresh_state = scope.ops(GATES, "Split", back, axis=1)
        update = scope.op("Sigmoid", scope.op("Add", update_read, update_state))
        reset = scope.op("Sigmoid", scope.op("Add", reset_read, reset_state))
        fresh = scope.op("Add", fresh_read, scope.op("Mul", reset, fresh_state))
        fresh = scope.op("Tanh", fresh)
        # (1 - update) * fresh + update * state, with one product
        kept = scope.op("Mul", update, scope.op("Sub", state, fresh))
        return scope.op("Add", fresh, kept)
