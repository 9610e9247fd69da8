"""Random blocks: deterministic, complete, spread over sizes."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest

from mcm_models.blocks.random_blocks import FAMILIES, random_block


def _macs(model: ir.Model) -> int:
    total = 0
    for node in model.graph:
        if node.op_type == "MatMul":
            left, made = node.inputs[0], node.outputs[0]
            assert left is not None
            assert left.shape is not None
            assert made.shape is not None
            total += int(np.prod(made.shape.numpy())) * left.shape.numpy()[-1]
    return total


@pytest.mark.parametrize("family", FAMILIES)
def test_equal_seeds_give_equal_blocks(family: str) -> None:
    one, other = (random_block(family, np.random.default_rng(5), 40) for _ in range(2))
    assert (one.name, one.compute_units) == (other.name, other.compute_units)
    texts = [ir.serde.serialize_model(block.model).SerializeToString() for block in (one, other)]
    assert texts[0] == texts[1]
    assert random_block(family, np.random.default_rng(6), 40).name != one.name


@pytest.mark.parametrize("family", FAMILIES)
def test_sizes_span_three_orders_of_magnitude(family: str) -> None:
    rng = np.random.default_rng(0)
    blocks = [random_block(family, rng, 40) for _ in range(150)]
    assert all(1 <= block.compute_units <= 40 for block in blocks)
    cycles = np.array([_macs(b.model) / 256 / b.compute_units for b in blocks])
    low, middle, high = np.percentile(cycles, [2, 50, 98])
    assert low < 150
    assert 600 < middle < 4000
    assert high > 12_000
    assert cycles.max() < 200_000
    for block in blocks:
        assert all(
            value.shape is not None and value.shape.is_static() and value.dtype is not None
            for node in block.model.graph
            for value in node.outputs
            if node.op_type != "Constant"
        )


def test_numbers_of_parts() -> None:
    rng = np.random.default_rng(1)
    gemm = {len(random_block("gemm", rng, 30).model.graph.outputs) for _ in range(40)}
    assert gemm == {1, 2, 3}
    layers = {
        sum(n.op_type == "MatMul" for n in random_block("mlp", rng, 30).model.graph)
        for _ in range(60)
    }
    assert layers == {2, 3, 4, 5, 6}
    heads = {random_block("mha", rng, 30).name.split("-")[2].split("x")[0] for _ in range(60)}
    assert heads == {"1", "2", "3", "4"}


@pytest.mark.parametrize("units", [1, 2])
def test_few_units(units: int) -> None:
    for family in FAMILIES:
        block = random_block(family, np.random.default_rng(0), units)
        assert block.compute_units <= units


def test_what_is_no_block() -> None:
    rng = np.random.default_rng(0)
    with pytest.raises(ValueError, match="gemm, mlp"):
        random_block("cnn", rng, 8)
    with pytest.raises(ValueError, match="0 compute units"):
        random_block("gemm", rng, 0)
