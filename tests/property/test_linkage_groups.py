"""Classes found in one go against Auto-MAP's extraction, one dimension at a time."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
from hypothesis import given, settings
from hypothesis import strategies as st

from mcm_compiler.contracts.sharding.rules import Factor, FactorKind, ShardingRule
from mcm_passes.parallelism.classes.dimension_classes import classes_of, linkage_groups
from mcm_passes.parallelism.classes.joined_dimensions import join_dimensions
from mcm_passes.parallelism.rules.rule_templates import Block
from mcm_passes.parallelism.rules.ruled_graph import ruled_graph
from tests.oracles.one_at_a_time import exclude_each_other, extract

_SIZES = (1, 2, 3, 4, 8)
_KINDS = (*[FactorKind.PASS] * 10, *[FactorKind.REPLICATE] * 3, FactorKind.HALO, FactorKind.BLOCKED)


def _value(name: str, shape: list[int]) -> ir.Value:
    return ir.Value(name=name, type=ir.TensorType(ir.DataType.FLOAT), shape=ir.Shape(shape))


@st.composite
def ruled_graphs(draw: st.DrawFn):
    """A random graph of ops that are nothing but their rules."""
    pool = [
        _value(f"in{k}", draw(st.lists(st.sampled_from(_SIZES), max_size=3)))
        for k in range(draw(st.integers(1, 4)))
    ]
    inputs = list(pool)
    ruled: list[tuple[ir.Node, ShardingRule]] = []
    for number in range(draw(st.integers(1, 7))):
        operands = draw(st.lists(st.sampled_from(pool), min_size=1, max_size=3))
        factors: list[Factor] = []
        sides: list[tuple[tuple[int, ...], ...] | None] = []
        for value in operands:
            if draw(st.integers(0, 19)) == 0:
                sides.append(None)
                continue
            dims: list[tuple[int, ...]] = []
            for size in value.shape.numpy():
                used = {factor for dim in dims for factor in dim}
                fitting = [k for k, f in enumerate(factors) if f.size == size and k not in used]
                if size == 1 and draw(st.booleans()):
                    dims.append(())
                elif fitting and draw(st.booleans()):
                    dims.append((draw(st.sampled_from(fitting)),))
                elif size in (4, 8) and draw(st.booleans()):
                    halves = size.bit_length() - 1
                    factors += [_factor(draw, len(factors) + k, 2) for k in range(halves)]
                    dims.append(tuple(range(len(factors) - halves, len(factors))))
                elif draw(st.integers(0, 19)) == 0:
                    dims.append(())
                else:
                    factors.append(_factor(draw, len(factors), size))
                    dims.append((len(factors) - 1,))
            sides.append(tuple(dims))
        kept = draw(st.permutations(range(len(factors))))[: draw(st.integers(0, 4))]
        out: list[tuple[int, ...]] = [(factor,) for factor in kept]
        while len(out) > 1 and draw(st.booleans()):
            out = [(*out[0], *out[1]), *out[2:]]
        factors = [
            Factor(f.name, f.size, FactorKind.REDUCE)
            if f.kind is FactorKind.PASS and k not in kept
            else f
            for k, f in enumerate(factors)
        ]
        shape = [int(np.prod([factors[f].size for f in dim])) for dim in out]
        result = _value(f"v{number}", shape)
        node = ir.node("Op", operands, domain="test", outputs=[result], name=f"n{number}")
        rule = ShardingRule(tuple(factors), tuple(sides), (tuple(out),))
        ruled.append((node, rule))
        pool.append(result)
    graph = ir.Graph(inputs, [pool[-1]], nodes=[node for node, _ in ruled], name="g")
    return graph, ruled


def _factor(draw: st.DrawFn, number: int, size: int) -> Factor:
    return Factor(f"f{number}", size, draw(st.sampled_from(_KINDS)))


@settings(max_examples=150)
@given(ruled_graphs())
def test_classes_are_the_groups_of_one_at_a_time(made):
    graph, ruled = made
    classes = classes_of(ruled_graph(graph, ruled))
    # Some ops are read as if they needed more of their factors whole.
    ruled = [
        (node, classes.ruled.rule_of(number).rule)
        for number, node in enumerate(classes.ruled.nodes)
    ]
    tensors = list(classes.ruled.values)
    groups = linkage_groups(classes, tensors)
    conflicts = classes.conflicts(groups.class_of_group)
    count = len(groups.class_of_group)
    extracted = {}
    for tensor, value in enumerate(tensors):
        first = int(groups.dim_ptr[tensor])
        for dim, size in enumerate(value.shape.numpy()):
            group = int(groups.group_of[first + dim])
            assert (group < 0) == (size == 1)
            if group < 0:
                continue
            found = extract((value, dim), ruled)
            members = {
                (other, at)
                for number, other in enumerate(tensors)
                for at in range(len(other.shape))
                if groups.group_of[groups.dim_ptr[number] + at] == group
            }
            assert found.divided == members
            block = Block(int(classes.block[groups.class_of_group[group]]))
            assert found.possible == (block is Block.NONE)
            extracted[group] = found
    assert len(extracted) == count
    for one in range(count):
        meets = conflicts[one]
        assert not meets[one]
        for other in range(count):
            if other != one:
                assert meets[other] == exclude_each_other(extracted[one], extracted[other])


@settings(max_examples=150)
@given(ruled_graphs())
def test_reading_ops_otherwise_only_frees_dimensions(made):
    ruled = ruled_graph(*made)
    before, after = join_dimensions(ruled), classes_of(ruled)
    free = [
        (found.class_of >= 0) & (np.append(found.block, Block.WHOLE)[found.class_of] == Block.NONE)
        for found in (before, after)
    ]
    assert not np.any(free[0] & ~free[1])
    same = np.flatnonzero(free[0])
    groups = [found.class_of[same].tolist() for found in (before, after)]
    assert len(set(zip(*groups, strict=True))) == len(set(groups[0])) == len(set(groups[1]))
    if after.ruled is not ruled:
        assert np.any(free[1] & ~free[0])
