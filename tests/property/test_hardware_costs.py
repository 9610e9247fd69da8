from __future__ import annotations

from dataclasses import replace

import onnx_ir as ir
from hypothesis import given, settings
from hypothesis import strategies as st

from mcm_hardware.chip.chip_spec import ChipSpec, MacArray
from mcm_hardware.chip.roofline import Roofline, cycle_model
from mcm_hardware.chip.tile_cycles import (
    left_readings,
    passes,
    pipelined_cycles,
    result_blocks,
    right_readings,
    streaming_cycles,
)
from mcm_hardware.families.ring.ring_target import mcm36
from mcm_hardware.op_costs.formula_table import FORMULA_TABLE
from mcm_hardware.op_costs.work import Gemm

CHIP = mcm36().spec.reference
COMMON = sorted(key for key in FORMULA_TABLE if key[0] in ("", "com.microsoft"))
extents = st.integers(1, 300)
dataflows = st.sampled_from(("output_stationary", "weight_stationary"))


@st.composite
def arrays(draw: st.DrawFn) -> MacArray:
    return MacArray(draw(extents), draw(extents), 500e6, draw(dataflows))


@st.composite
def chip_specs(draw: st.DrawFn) -> ChipSpec:
    """Chips on which any of the engines may be the slowest."""
    rates = st.sampled_from((1e6, 1e8, 1e9, 1e11))
    return replace(
        CHIP,
        array=replace(draw(arrays()), clock_hz=draw(rates)),
        vector=replace(CHIP.vector, lanes=draw(st.sampled_from((1, 128))), clock_hz=draw(rates)),
        sram_bytes_per_s=draw(rates),
        launch_s=draw(st.sampled_from((0.0, 150e-9))),
    )


@given(arrays(), extents, extents, extents, extents, st.integers(1, 9))
def test_fill_and_drain_never_save_time(array, count, m, n, k, rounds):
    gemm = Gemm(count, m, n, k, rounds)
    assert pipelined_cycles(array, gemm) >= streaming_cycles(array, gemm)
    # No array does more multiply-accumulates per cycle than it has units.
    assert streaming_cycles(array, gemm) * array.rows * array.cols >= gemm.macs
    assert 1 <= result_blocks(array, gemm) <= passes(array, gemm)
    assert left_readings(array, gemm) >= 1
    assert right_readings(array, gemm) >= 1


@given(arrays(), extents, extents, extents, extents)
def test_a_product_takes_as_long_as_its_tiles_one_by_one_at_most(array, count, m, n, k):
    gemm = Gemm(count, m, n, k)
    tall, steps = (m, k) if array.dataflow == "output_stationary" else (k, m)
    rows, cols = min(tall, array.rows), min(n, array.cols)
    alone = 2 * rows + cols + steps - 2
    assert pipelined_cycles(array, gemm) <= passes(array, gemm) * alone


def _tile_by_tile(tiles: int, rows: int, cols: int, steps: int, stationary: str) -> int:
    """When the last result has left an array of `rows x cols` that works on one tile by another.

    Unit (i, j) works on step s of a tile i + j + s cycles after the tile starts, for operands enter
    skewed by a cycle per row and column. There are two sets of registers for what stays.
    """
    starts: list[int] = []
    ports: list[int] = []
    for tile in range(tiles):
        begin = starts[-1] + steps if starts else 0
        if stationary == "weight_stationary":
            # Weights enter a row per cycle, into the registers of the tile before the last one.
            free = starts[tile - 2] + steps if tile >= 2 else 0
            ports.append(max(free, ports[-1] if ports else 0) + rows)
            starts.append(max(begin, ports[-1]))
        else:
            # Results leave a row per cycle, once the last unit of the last column is done.
            free = ports[tile - 2] - (rows - 1) - (cols - 1) if tile >= 2 else 0
            starts.append(max(begin, free))
            done = starts[-1] + steps + (rows - 1) + (cols - 1)
            ports.append(max(done, ports[-1] if ports else 0) + rows)
    last = starts[-1] + steps + (rows - 1) + (cols - 1)
    return last if stationary == "weight_stationary" else ports[-1]


@given(st.integers(1, 12), st.integers(1, 9), st.integers(1, 9), st.integers(1, 20), dataflows)
def test_cycles_are_those_of_an_array_that_is_followed_tile_by_tile(
    tiles, rows, cols, steps, dataflow
):
    array = MacArray(rows, cols, 1.0, dataflow)
    stays = dataflow == "weight_stationary"
    gemm = Gemm(tiles, steps if stays else rows, cols, rows if stays else steps)
    expected = _tile_by_tile(tiles, rows, cols, steps, dataflow)
    assert pipelined_cycles(array, gemm) == expected


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


@given(chains(), chip_specs())
@settings(max_examples=200)
def test_a_group_costs_no_more_than_its_ops_and_no_less_than_analysis_says(nodes, chip):
    roofline, cycles = Roofline(chip), cycle_model(chip)
    for model in (roofline, cycles):
        whole = model.group_cost(nodes)
        parts = [model.node_cost(node) for node in nodes]
        assert whole.seconds <= sum(part.seconds for part in parts) * (1 + 1e-12)
        assert whole.flops == sum(part.flops for part in parts)
        assert whole.read_bytes <= sum(part.read_bytes for part in parts)
        assert whole.write_bytes <= sum(part.write_bytes for part in parts)
    assert cycles.group_cost(nodes).seconds >= roofline.group_cost(nodes).seconds
    for node in nodes:
        assert cycles.node_cost(node).seconds >= roofline.node_cost(node).seconds


@given(chains(), chip_specs(), st.floats(0.001, 1000.0))
def test_a_duration_is_that_of_the_reference_over_the_speed(nodes, chip, speed):
    for make in (Roofline, cycle_model):
        reference = make(chip).group_cost(nodes)
        scaled = make(replace(chip, speed=speed)).group_cost(nodes)
        assert scaled.seconds == reference.seconds / speed
        assert scaled.engines_s == {k: s / speed for k, s in (reference.engines_s or {}).items()}
        same = {"seconds": 0.0, "engines_s": None}
        assert replace(scaled, **same) == replace(reference, **same)
