"""Recurrent layers: input projections at once, then one step after another."""

from __future__ import annotations

from functools import partial

from mcm_hardware.op_costs.node_shapes import NodeShapes
from mcm_hardware.op_costs.work import SIGMOID, TANH, Formula, Gemm, Work


def _recurrent(gates: int, per_cell: int, node: NodeShapes) -> Work:
    """Appleyard et al. 2016: `W x` does not depend on the state, so all steps are one product.

    `R h` is a product per step, and reads the recurrent weights anew in each.
    """
    steps, batch = node.dim(0, 0), node.dim(0, 1)
    if node.integer("layout") == 1:
        steps, batch = batch, steps
    directions, width = node.dim(1, 0), node.dim(0, 2)
    hidden = node.integer("hidden_size", node.dim(2, -1))
    gemms = (
        Gemm(directions, steps * batch, gates * hidden, width),
        Gemm(directions * steps, batch, gates * hidden, hidden, rounds=steps),
    )
    lane_ops = per_cell * directions * steps * batch * hidden
    return Work(gemms, lane_ops, reads=((2, steps * node.size(2)),))


_LSTM = partial(_recurrent, 4, 3 * SIGMOID + 2 * TANH + 4 + 8)

FORMULAS: dict[str, Formula] = {
    "LSTM": _LSTM,
    "GRU": partial(_recurrent, 3, 2 * SIGMOID + TANH + 5 + 6),
    "RNN": partial(_recurrent, 1, TANH + 2),
}
"""Recurrent layers of the default domain; cells with their default activations."""

MICROSOFT_FORMULAS: dict[str, Formula] = {"DynamicQuantizeLSTM": _LSTM, "AttnLSTM": _LSTM}
"""Recurrent layers of `com.microsoft`."""
