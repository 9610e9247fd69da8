"""Chains of ops give the same bits in tiles of rows, whatever is asked for."""

from __future__ import annotations

import re

import numpy as np
import onnx_ir as ir
from hypothesis import given, settings
from hypothesis import strategies as st

from mcm_compiler.artifact.chain import put_together
from mcm_compiler.contracts.sharding.sharding import OutputPart
from mcm_compiler.contracts.target import HOST, ChipModel, Wire
from mcm_compiler.equivalence.structure_proof import prove_chips
from mcm_compiler.execution.runner import run_model, same_bits
from mcm_compiler.graph.invariants import check_invariants
from mcm_compiler.ir.reading.importer import import_model
from mcm_passes.parallelism.oversized.model_division import ModelDivision
from mcm_passes.parallelism.row_tiles.row_tiling import RowTiler
from tests.unit.passes.pipeline.test_shard_oversized import ByteModel, context
from tools.update_goldens import parse_filled

BATCH, WIDTH = 2, 64

STEPS = (
    "Relu ({0})",
    "Softmax <axis = -1> ({0})",
    "Softmax <axis = 1> ({0})",
    "Add ({0}, {1})",
    "MatMul ({0}, w)",
    "Mul ({0}, scale)",
    "LayerNormalization <axis = -1> ({0}, gain)",
    "Transpose <perm = [1, 0, 2]> ({0})",
    "Where (above{2}, {0}, {1})",
)
"""Each reads the last value, and perhaps an earlier one of the same shape."""


@st.composite
def chains(draw: st.DrawFn) -> tuple[str, int]:
    """A model as text, and the rows of its largest dimension."""
    rows = draw(st.integers(2, 40))
    shape = [BATCH, rows, WIDTH]
    values = [("x", tuple(shape))]
    lines: list[str] = []
    for k, step in enumerate(draw(st.lists(st.sampled_from(STEPS), min_size=1, max_size=6))):
        (last, extents) = values[-1]
        if "scale" in step and extents[0] != BATCH:
            continue
        other = draw(st.sampled_from([name for name, of in values if of == extents]))
        if "above" in step:
            lines.append(f"above{k} = Greater ({last}, {other})")
        lines.append(f"v{k} = " + step.format(last, other, k))
        turned = (extents[1], extents[0], extents[2]) if "Transpose" in step else extents
        values.append((f"v{k}", turned))
    if not lines:
        lines, values = ["v0 = Tanh (x)"], [*values, ("v0", tuple(shape))]
    name, extents = values[-1]
    shown = ",".join(map(str, extents))
    text = f"""<ir_version: 8, opset_import: ["" : 17]>
        m (float[{BATCH},{rows},{WIDTH}] x) => (float[{shown}] {name})
        <float[{WIDTH},{WIDTH}] w, float[{BATCH},{rows},1] scale, float[{WIDTH}] gain>
        {{ {" ".join(lines)} }}"""
    return text, rows


def model_of(text: str) -> ir.Model:
    """The model with weights that do not add up exactly."""
    model = import_model(ir.from_proto(parse_filled(text)), "test")[0]
    rng = np.random.default_rng(3)
    for value in model.graph.initializers.values():
        if value.dtype is ir.DataType.FLOAT and value.shape is not None:
            array = rng.standard_normal(value.shape.numpy()).astype(np.float32)
            value.const_value = ir.Tensor(array, name=value.name)
    return model


def run(model: ir.Model, parts: dict[str, OutputPart]) -> dict[str, np.ndarray]:
    """Outputs of a model, pieces put together."""
    value = model.graph.inputs[0]
    assert value.shape is not None
    x = np.random.default_rng(4).standard_normal(value.shape.numpy()).astype(np.float32)
    found = run_model(ir.to_proto(model), {"x": x})
    put_together(found, [Wire(name, 0, (HOST,), part) for name, part in parts.items()])
    return found


def tiled(
    model: ir.Model, sram_bytes: int, tile_rows: int
) -> tuple[dict[str, OutputPart], list[tuple[int, int]]]:
    """Pieces of outputs; rows and tiles of each region that is divided."""
    scope, reports = context(sram_bytes, 4)
    division = ModelDivision(model, scope, scope.target.limits, ByteModel(), 0.95, costed=False)
    assert RowTiler(division, tile_rows).run() == any(one.code == "MCM-P057" for one in reports)
    texts = [one.message.replace(",", "") for one in reports if one.code == "MCM-P057"]
    found = [re.search(r"along (\d+) rows into (\d+) tiles", text) for text in texts]
    return division.parts, [(int(one[1]), int(one[2])) for one in found if one]


def as_chip(model: ir.Model) -> ChipModel:
    names = [
        tuple(v.name or "" for v in side) for side in (model.graph.inputs, model.graph.outputs)
    ]
    return ChipModel(0, model, names[0], names[1])


def wires(model: ir.Model, parts: dict[str, OutputPart]) -> list[Wire]:
    """Of one chip that has the whole model."""
    into = [Wire(value.name or "", HOST, (0,)) for value in model.graph.inputs]
    names = [value.name or "" for value in model.graph.outputs]
    return into + [Wire(name, 0, (HOST,), parts.get(name)) for name in names]


@settings(max_examples=25)
@given(chains(), st.integers(0, 17), st.sampled_from([20_000, 40_000, 10**7]))
def test_tiles_give_the_bits_of_the_whole(
    chain: tuple[str, int], tile_rows: int, sram_bytes: int
) -> None:
    text, _ = chain
    before, after = model_of(text), model_of(text)
    parts, regions = tiled(after, sram_bytes, tile_rows)
    assert check_invariants(after) == []
    expected, actual = run(before, {}), run(after, parts)
    for name, array in expected.items():
        assert same_bits(array, actual[name])
    proof = prove_chips(before, [as_chip(after)], wires(after, parts), placeholders=False)
    assert not proof.unproven
    assert not proof.outputs
    if not tile_rows and sram_bytes == 10**7:
        assert not regions
    assert len(before.graph) <= len(after.graph)


@settings(max_examples=10)
@given(chains(), st.integers(1, 17))
def test_an_option_divides_something_of_every_chain_that_starts_by_rows(
    chain: tuple[str, int], tile_rows: int
) -> None:
    text, _ = chain
    first = text.partition("{")[2].split("=")[1]
    model = model_of(text)
    _, regions = tiled(model, 10**7, tile_rows)
    if "Relu" in first or "Tanh" in first:
        assert regions
    for rows, tiles in regions:
        assert 2 <= tiles <= rows
