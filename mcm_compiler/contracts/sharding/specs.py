"""ONNX's `ShardingSpec` for a dimension that is divided in several runs of elements."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import onnx_ir as ir


def sharded_dim(value: ir.Value, axis: int, num_shards: int, runs: int = 1) -> ir.ShardedDim:
    """How a dimension is divided, as `shard_value` writes it.

    Args:
        value: of known shape if `runs` is more than 1.
        axis: not negative.
        num_shards: at least 1.
        runs: divides the extent along the axis.
    """
    extent = value.shape[axis] if value.shape is not None else ir.SymbolicDim(None)
    if runs == 1:
        return ir.ShardedDim(axis, (ir.SimpleShardedDim(extent, num_shards),))
    assert isinstance(extent, int)
    shards = ir.SimpleShardedDim(extent // runs, num_shards)
    return ir.ShardedDim(axis, (ir.SimpleShardedDim(runs, 1), shards))


def shard_value(
    node: ir.Node,
    value: ir.Value,
    configuration: ir.ModelConfiguration,
    *,
    axis: int,
    num_shards: int,
    runs: int = 1,
    device_indices: Sequence[int] = (),
) -> None:
    """Notes on a node that a dimension of an operand or result is divided.

    A part may consist of several runs, such as of concatenated queries, keys and values. It is
    written like axes that a reshape has fused: `runs` in one shard, each divided into `num_shards`.

    Args:
        node: reads or makes the value.
        value: of known shape if `runs` is more than 1.
        configuration: of the model.
        axis: not negative.
        num_shards: at least 1.
        runs: divides the extent along the axis.
        device_indices: where the parts are.

    Raises:
        ValueError: as `ir.Node.shard`.
    """
    node.shard(
        value,
        configuration=configuration,
        axis=axis,
        num_shards=num_shards,
        device_indices=device_indices,
    )
    if runs == 1:
        return
    fused = sharded_dim(value, axis, num_shards, runs)

    def spelled(spec: ir.ShardingSpec) -> ir.ShardingSpec:
        dims = tuple(fused if dim.axis == axis else dim for dim in spec.sharded_dims)
        return replace(spec, sharded_dims=dims) if spec.value is value else spec

    node.device_configurations = tuple(
        replace(known, sharding_specs=tuple(map(spelled, known.sharding_specs)))
        if known.configuration is configuration
        else known
        for known in node.device_configurations
    )
