from __future__ import annotations

import onnx_ir as ir
from hypothesis import given, settings
from hypothesis import strategies as st

from mcm_hardware.builtin_targets import mcm36
from mcm_hardware.cycle_model import cycle_model
from mcm_hardware.op_costs.formula_table import FORMULA_TABLE
from mcm_hardware.op_costs.work import Gemm
from mcm_hardware.roofline import Roofline
from mcm_hardware.tile_cycles import pipelined_cycles, streaming_cycles

CHIP = mcm36().spec.reference
COMMON = sorted(key for key in FORMULA_TABLE if key[0] in ("", "com.microsoft"))
extents = st.integers(1, 300)


@given(extents, extents, extents, extents, st.integers(1, 9))
def test_fill_and_drain_never_save_time(count, m, n, k, rounds):
    gemm = Gemm(count, m, n, k, rounds)
    assert pipelined_cycles(CHIP.array, gemm) >= streaming_cycles(CHIP.array, gemm)
    # No array does more multiply-accumulates per cycle than it has units.
    assert streaming_cycles(CHIP.array, gemm) * 64 * 64 >= gemm.macs


@st.composite
def chains(draw: st.DrawFn) -> list[ir.Node]:
    """Ops of any kind, each reading values that are already there."""
    dims = draw(st.lists(st.integers(1, 70), min_size=1, max_size=4))

    def value(name: str) -> ir.Value:
        return ir.Value(name=name, shape=ir.Shape(dims), type=ir.TensorType(ir.DataType.FLOAT))

    there = [value("x"), value("y")]
    nodes: list[ir.Node] = []
    for position in range(draw(st.integers(1, 6))):
        domain, op_type = draw(st.sampled_from(COMMON))
        inputs = draw(st.lists(st.sampled_from(there), min_size=1, max_size=3))
        out = value(f"v{position}")
        nodes.append(ir.Node(domain, op_type, inputs, outputs=[out]))
        there.append(out)
    return nodes


@given(chains())
@settings(max_examples=300, deadline=None)
def test_a_group_costs_no_more_than_its_ops_and_no_less_than_analysis_says(nodes):
    roofline = Roofline(CHIP)
    whole = roofline.group_cost(nodes)
    parts = [roofline.node_cost(node) for node in nodes]
    assert whole.seconds <= sum(part.seconds for part in parts) * (1 + 1e-12)
    assert whole.flops == sum(part.flops for part in parts)
    assert whole.read_bytes <= sum(part.read_bytes for part in parts)
    assert whole.write_bytes <= sum(part.write_bytes for part in parts)
    assert cycle_model(CHIP).group_cost(nodes).seconds >= whole.seconds
